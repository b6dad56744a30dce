// What libshardscope_cuda.so exports.
#include "engine/cuda/runtime/cuda_device.h"

extern "C" __attribute__((visibility("default"))) const shardscope::cuda::PluginApi*
ShardscopeCudaPlugin() {
  static const shardscope::cuda::PluginApi api = {.version = shardscope::cuda::kPluginVersion,
                                                  .build = shardscope::cuda::BuildName(),
                                                  .open_device = &shardscope::cuda::OpenCudaDevice};
  return &api;
}
