#include "engine/cuda/plugin/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace shardscope::cuda {
namespace {

constexpr std::string_view kPrefixes[] = {"NCCL_", "CUDA_", "CUBLAS_", "TORCH_", "PYTORCH_"};

void SetUnlessSet(const char* name, const char* value) { setenv(name, value, 0); }

}  // namespace

std::vector<std::string> SetCudaEnvironment(bool waits_for_ranks) {
  // Hardware queues: with the default of 8, streams of several ranks share one and wait for each
  // other although no dependency says so.
  SetUnlessSet("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  // A kernel that is first used while another rank's collective spins on the same GPU can only be
  // loaded when that has ended, which may be never.
  SetUnlessSet("CUDA_MODULE_LOADING", waits_for_ranks ? "EAGER" : "LAZY");
  // The same workspace for every matrix product of a stream: results repeat bit for bit.
  SetUnlessSet("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  // LibTorch's allocator takes plain blocks from the driver, whose sizes the trace can be checked
  // against. Under either name: the new one would hide what the user set by the old one.
  if (std::getenv("PYTORCH_CUDA_ALLOC_CONF") == nullptr) {
    SetUnlessSet("PYTORCH_ALLOC_CONF", "expandable_segments:False");
  }
  // With two communicators (comm.communicators=2) NCCL keeps the order in which the host issues
  // their kernels: else two GPUs may begin with different ones and wait for each other.
  if (waits_for_ranks) SetUnlessSet("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  std::vector<std::string> warnings;
  if (std::string_view(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")) == "1") {
    warnings.emplace_back(
        "CUDA_DEVICE_MAX_CONNECTIONS=1 makes all streams share one hardware queue: collectives "
        "will not overlap with compute; unset it");
  }
  return warnings;
}

std::map<std::string, std::string> CudaEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    for (const std::string_view prefix : kPrefixes) {
      if (!text.starts_with(prefix)) continue;
      variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
    }
  }
  return variables;
}

}  // namespace shardscope::cuda
