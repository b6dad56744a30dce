#include "tests/record/fake_nccl.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "trace/record/inject/nccl_abi.h"

namespace {

namespace nccl = shardscope::inject::nccl;

constexpr uint64_t kGroup = 1 << 0;
constexpr uint64_t kProxyOp = 1 << 3;
constexpr uint64_t kGroupApi = 1 << 8;
constexpr uint64_t kCollApi = 1 << 9;

// A plugin of either version behind one set of calls.
class Plugin {
 public:
  bool Load(int version) {
    const char* path = std::getenv("NCCL_PROFILER_PLUGIN");
    library_ = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return false;
    version_ = version;
    plugin_ = dlsym(library_, version == 5 ? "ncclProfiler_v5" : "ncclProfiler_v4");
    return plugin_ != nullptr;
  }
  void Unload() { dlclose(library_); }

  // A new communicator.
  void* Init(uint64_t id, const char* name, int num_ranks, int rank) {
    void* context = nullptr;
    if (version_ == 5) {
      V5().init(&context, id, &mask_, name, 1, num_ranks, rank, nullptr);
    } else {
      V4().init(&context, &mask_, name, id, 1, num_ranks, rank, nullptr);
    }
    return context;
  }
  // As NCCL: nothing is asked that the mask does not want; parents are told with their children.
  void* Start(void* context, uint64_t type, void* parent, nccl::EventDescription event = {}) {
    const uint64_t parents = kGroup | kGroupApi | kCollApi;
    if ((static_cast<uint64_t>(mask_) & type) == 0 && (mask_ == 0 || (parents & type) == 0)) {
      return nullptr;
    }
    event.parent = parent;
    event.type = type;
    // Version 4 has one byte for the type; what follows it means nothing.
    if (version_ == 4) event.type |= uint64_t{0xABCDEF} << 8;
    void* handle = nullptr;
    StartFunction()(context, &handle, &event);
    return handle;
  }
  void Stop(void* handle) {
    if (handle != nullptr) (version_ == 5 ? V5().stop_event : V4().stop_event)(handle);
  }
  void Finalize(void* context) { (version_ == 5 ? V5().finalize : V4().finalize)(context); }
  void SetMask(int mask) { mask_ = mask; }
  int mask() const { return mask_; }

 private:
  const nccl::PluginV5& V5() const { return *static_cast<const nccl::PluginV5*>(plugin_); }
  const nccl::PluginV4& V4() const { return *static_cast<const nccl::PluginV4*>(plugin_); }
  nccl::StartEvent StartFunction() const {
    return version_ == 5 ? V5().start_event : V4().start_event;
  }

  void* library_ = nullptr;
  void* plugin_ = nullptr;
  int version_ = 0;
  int mask_ = 0;
};

nccl::EventDescription Collective(const char* function, uint64_t sequence, size_t count) {
  nccl::EventDescription event = {};
  event.coll.sequence = sequence;
  event.coll.function = function;
  event.coll.count = count;
  event.coll.datatype = "ncclBfloat16";
  event.coll.num_channels = 16;
  event.coll.algorithm = "RING";
  event.coll.protocol = "LL128";
  return event;
}

// A group of two collectives. The calls end before the work of the group is put on its stream, so
// parents stop before their children start.
void RunGroup(Plugin& plugin, void* context, uint64_t sequence) {
  void* group = plugin.Start(context, kGroupApi, nullptr);
  void* gather_call = plugin.Start(context, kCollApi, group);
  plugin.Stop(gather_call);
  void* scatter_call = plugin.Start(context, kCollApi, group);
  plugin.Stop(scatter_call);
  void* gather =
      plugin.Start(context, nccl::kColl, gather_call, Collective("AllGather", sequence, 1000));
  void* scatter = plugin.Start(context, nccl::kColl, scatter_call,
                               Collective("ReduceScatter", sequence + 1, 2000));
  void* launch = plugin.Start(context, nccl::kKernelLaunch, group);
  plugin.Stop(launch);
  void* proxy = plugin.Start(context, kProxyOp, gather);
  plugin.Stop(proxy);
  plugin.Stop(gather);
  plugin.Stop(scatter);
  plugin.Stop(group);
}

}  // namespace

bool DrivePlugin(int version) {
  Plugin plugin;
  if (!plugin.Load(version)) return false;
  void* world = plugin.Init(0xABCD, "world", 8, 3);
  void* shards = plugin.Init(0x1234, nullptr, 4, 1);
  const int wanted = plugin.mask();
  RunGroup(plugin, world, 0);
  RunGroup(plugin, shards, 0);
  plugin.SetMask(0);  // as a tool that shares the mask would
  RunGroup(plugin, world, 2);
  plugin.SetMask(wanted);
  RunGroup(plugin, world, 4);
  nccl::EventDescription send = {};
  send.p2p = {"Send", nullptr, "ncclFloat32", 77, 5, 2};
  plugin.Stop(plugin.Start(shards, nccl::kP2p, nullptr, send));
  plugin.Stop(plugin.Start(shards, nccl::kP2p, nullptr, send));
  plugin.Finalize(shards);
  plugin.Finalize(world);
  plugin.Unload();
  return true;
}
