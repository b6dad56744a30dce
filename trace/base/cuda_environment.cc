#include "trace/base/cuda_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

extern char** environ;

namespace shardscope {
namespace {

constexpr std::array<std::string_view, 5> kCudaPrefixes = {"NCCL_", "CUDA_", "CUBLAS_", "TORCH_",
                                                           "PYTORCH_"};

}  // namespace

std::map<std::string, std::string> CudaEnvironment() {
  std::map<std::string, std::string> variables;
  if (environ == nullptr) return variables;  // after clearenv()
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const bool is_kept = std::ranges::any_of(
        kCudaPrefixes, [text](std::string_view prefix) { return text.starts_with(prefix); });
    // Of two entries of one name getenv() gives the first.
    if (is_kept) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace shardscope
