#include "engine/cuda/plugin/loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "engine/cuda/plugin/driver.h"
#include "engine/cuda/plugin/environment.h"

namespace shardscope::cuda {
namespace {

Result<const PluginApi*> FindCuda() {
  SHARDSCOPE_RETURN_IF_ERROR(CheckDriver());
  return LoadPlugin(PluginPath());
}

}  // namespace

Result<DeviceChoice> ChooseDevice(const std::string& wanted, bool waits_for_ranks) {
  DeviceChoice choice;
  if (wanted == "cpu") return choice;
  choice.warnings = SetCudaEnvironment(waits_for_ranks);
  const Result<const PluginApi*> plugin = FindCuda();
  if (plugin.ok()) {
    choice.device = "cuda";
    choice.plugin = *plugin;
    return choice;
  }
  if (wanted != "auto") {
    return Status::Error("run.device=cuda: " + plugin.message() +
                         "; run.device=cpu trains the same schedules here, and auto chooses by "
                         "itself");
  }
  choice.warnings.clear();
  choice.why_not_cuda = plugin.message();
  return choice;
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
