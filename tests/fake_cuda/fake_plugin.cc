// A plugin of another build, for the test of the message about it: only what never moves
// (engine/cuda/plugin/plugin.h).
#include <cstdint>

namespace {

struct OldPluginApi {
  uint32_t version = 0;
  const char* build = "shardscope 0.0.0, another compiler";
};
constexpr OldPluginApi kPlugin;

}  // namespace

extern "C" const void* ShardscopeCudaPlugin() { return &kPlugin; }
