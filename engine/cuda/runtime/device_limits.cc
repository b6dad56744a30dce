#include "engine/cuda/runtime/device_limits.h"

#include <fmt/format.h>

#include <string>

namespace shardscope::cuda {
namespace {

constexpr int64_t kChannelStep = 8;          // of both fused attentions
constexpr int64_t kMostFlashChannels = 256;  // of FlashAttention, which bf16 and fp16 go to
constexpr int64_t kMostHeads = 128;          // model.heads

// The fewest heads, `at_least` or more, with which attention works; empty: there are none.
std::string Remedy(int64_t dim, int64_t at_least, int64_t most_channels) {
  for (int64_t heads = at_least; heads <= kMostHeads; ++heads) {
    if (dim % heads != 0) continue;
    const int64_t channels = dim / heads;
    if (channels % kChannelStep == 0 && channels <= most_channels) {
      return fmt::format("model.heads={}", heads);
    }
  }
  return "";
}

}  // namespace

Status CheckDeviceLimits(const config::Config& config) {
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
  const int64_t dim = config.GetInt("model.dim");
  const int64_t heads = config.GetInt("model.heads");
  const int64_t channels = dim / heads;
  const bool is_flash = config.Get("precision.param") != "fp32";
  if (channels % kChannelStep != 0) {
    const int64_t most = is_flash ? kMostFlashChannels : dim;
    std::string remedy = Remedy(dim, heads + 1, most);
    if (remedy.empty()) remedy = Remedy(dim, 1, most);
    return Status::Error(fmt::format(
        "model.dim={} over model.heads={} gives {} channels a head, and attention on a "
        "GPU wants a multiple of {}: use {}",
        dim, heads, channels, kChannelStep, remedy.empty() ? "a model.dim of such heads" : remedy));
  }
  if (is_flash && channels > kMostFlashChannels) {
    const std::string remedy = Remedy(dim, heads + 1, kMostFlashChannels);
    return Status::Error(fmt::format(
        "model.dim={} over model.heads={} gives {} channels a head, and attention in "
        "bf16 or fp16 takes at most {} on a GPU: use {}precision.param=fp32",
        dim, heads, channels, kMostFlashChannels, remedy.empty() ? "" : remedy + " or more, or "));
  }
  return Status::Ok();
}

}  // namespace shardscope::cuda
