#include "engine/footprint/device_limits.h"

#include <fmt/format.h>

#include <string>

#include "engine/config/device.h"
#include "engine/footprint/footprint.h"
#include "engine/model/model_config.h"

namespace shardscope::footprint {
namespace {

constexpr int64_t kMostFlashChannels = 256;  // of FlashAttention, which bf16 and fp16 go to
constexpr int64_t kMostHeads = 128;          // model.heads

// The fewest heads, `at_least` or more, with which attention works; empty: there are none.
std::string SettingOfHeads(int64_t dim, int64_t at_least, int64_t most_channels) {
  for (int64_t heads = at_least; heads <= kMostHeads; ++heads) {
    if (dim % heads != 0) continue;
    const int64_t channels = dim / heads;
    if (channels % kChannelStep == 0 && channels <= most_channels) {
      return fmt::format("model.heads={}", heads);
    }
  }
  return "";
}

// Of heads whose size the folder of model.path says: no key changes it.
Status CheckGivenHeads(const std::string& folder, int64_t channels, bool is_flash) {
  if (channels % kChannelStep != 0) {
    return Status::Error(fmt::format(
        "model.path: {}/config.json gives {} channels a head, and attention on a GPU wants a "
        "multiple of {}: use run.device=cpu, or another model",
        folder, channels, kChannelStep));
  }
  if (!is_flash || channels <= kMostFlashChannels) return Status::Ok();
  return Status::Error(fmt::format(
      "model.path: {}/config.json gives {} channels a head, and attention in bf16 or fp16 takes at "
      "most {} on a GPU: use precision.param=fp32",
      folder, channels, kMostFlashChannels));
}

}  // namespace

Status CheckDeviceLimits(const config::Config& config) {
  if (config::GetDevice(config) != config::DeviceKind::kCuda) return Status::Ok();
  if (config.Get("precision.param") == "fp64") {
    return Status::Error("precision.param=fp64 is for tests on the CPU; use fp32, bf16 or fp16");
  }
  if (config.Get("optimizer.state") == "8bit") {
    return Status::Error("optimizer.state=8bit is for the CPU; use optimizer.state=full");
  }
  if (config.GetBool("precision.keep_low_grads") && config.Get("precision.reduce") != "fp32") {
    return Status::Error(
        "precision.keep_low_grads=true is for the CPU: on a GPU gradients have the dtype of the "
        "weights that they update; leave it out");
  }
  const bool is_flash = config.Get("precision.param") != "fp32";
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::ModelConfig model, ModelConfigOf(config));
  const int64_t channels = model.head_dim();
  if (const std::string& folder = config.Get("model.path"); !folder.empty()) {
    return CheckGivenHeads(folder, channels, is_flash);
  }
  const int64_t dim = model.dim;
  const int64_t heads = model.heads;
  if (channels % kChannelStep != 0) {
    const int64_t most = is_flash ? kMostFlashChannels : dim;
    std::string remedy = SettingOfHeads(dim, heads + 1, most);
    if (remedy.empty()) remedy = SettingOfHeads(dim, 1, most);
    return Status::Error(fmt::format(
        "model.dim={} over model.heads={} gives {} channels a head, and attention on a "
        "GPU wants a multiple of {}: use {}",
        dim, heads, channels, kChannelStep, remedy.empty() ? "a model.dim of such heads" : remedy));
  }
  if (is_flash && channels > kMostFlashChannels) {
    const std::string remedy = SettingOfHeads(dim, heads + 1, kMostFlashChannels);
    return Status::Error(fmt::format(
        "model.dim={} over model.heads={} gives {} channels a head, and attention in "
        "bf16 or fp16 takes at most {} on a GPU: use {}precision.param=fp32",
        dim, heads, channels, kMostFlashChannels, remedy.empty() ? "" : remedy + " or more, or "));
  }
  return Status::Ok();
}

}  // namespace shardscope::footprint
