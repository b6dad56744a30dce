#include "engine/cuda/plugin/loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "engine/cuda/plugin/probe.h"
#include "engine/runtime/cpu_device.h"

namespace shardscope::cuda {
namespace {

Result<const PluginApi*> FindCuda() {
  SHARDSCOPE_RETURN_IF_ERROR(CheckDriver());
  return LoadPlugin(PluginPath());
}

// auto becomes the CPU for that reason; with cuda it is an error, which says what still works.
Status GiveUp(const std::string& why, DeviceChoice* choice) {
  if (choice->wanted != config::DeviceKind::kAuto) {
    return Status::Error("run.device=cuda: " + why +
                         "; run.device=cpu trains the same schedules here, and auto chooses by "
                         "itself");
  }
  *choice = {.wanted = choice->wanted, .why_not_cuda = why};
  return Status::Ok();
}

}  // namespace

Result<DeviceChoice> ChooseDevice(config::DeviceKind wanted, bool waits_for_ranks) {
  DeviceChoice choice{.wanted = wanted};
  if (wanted == config::DeviceKind::kCpu) return choice;
  choice.warnings = SetCudaEnvironment(waits_for_ranks);
  const Result<const PluginApi*> plugin = FindCuda();
  if (plugin.ok()) {
    choice.device = config::DeviceKind::kCuda;
    choice.plugin = *plugin;
    return choice;
  }
  SHARDSCOPE_RETURN_IF_ERROR(GiveUp(plugin.message(), &choice));
  return choice;
}

Result<std::unique_ptr<runtime::Device>> OpenDevice(const DeviceOptions& options,
                                                    DeviceChoice* choice) {
  if (choice->plugin != nullptr) {
    Result<std::unique_ptr<runtime::Device>> opened = choice->plugin->open_device(options);
    if (opened.ok()) return opened;
    SHARDSCOPE_RETURN_IF_ERROR(GiveUp(opened.message(), choice));
  }
  std::unique_ptr<runtime::Device> cpu =
      std::make_unique<runtime::CpuDevice>(options.config, options.launch);
  return cpu;
}

std::string PluginPath() {
  if (const char* path = std::getenv("SHARDSCOPE_CUDA_PLUGIN")) return path;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / "libshardscope_cuda.so").string();
}

Result<const PluginApi*> LoadPlugin(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Status::Error("the CUDA plugin is not there (" + path +
                         "): build it with -DSHARDSCOPE_CUDA=ON");
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Status::Error("the CUDA plugin cannot be loaded: " + std::string(dlerror()));
  }
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginSymbol));
  const PluginApi* const plugin = entry == nullptr ? nullptr : entry();
  if (plugin == nullptr) return Status::Error(path + " is no plugin of Shardscope");
  if (plugin->version != kPluginVersion || std::strcmp(plugin->build, BuildName()) != 0) {
    return Status::Error("the CUDA plugin is of another build (" + std::string(plugin->build) +
                         ") than this program (" + BuildName() + "): build both together (" + path +
                         ")");
  }
  return plugin;
}

}  // namespace shardscope::cuda
