// How the ranges that PyTorch marks by itself begin: for what imports, compares or exports
// them.
#pragma once

#include <string_view>

namespace shardscope::torch_range_names {

// torch/profiler/profiler.py: the step's number follows.
inline constexpr std::string_view kStep = "ProfilerStep#";
// torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py
inline constexpr std::string_view kFsdp2 = "FSDP::";
// What follows it, and then the unit: "FSDP::all_gather (layers.0)", "FSDP::backward_prefetch for
// layers.0". Some of these words begin as others do.
inline constexpr std::string_view kRootPreForward = "root_pre_forward";
inline constexpr std::string_view kPreForward = "pre_forward";
inline constexpr std::string_view kPostForward = "post_forward";
inline constexpr std::string_view kPreBackward = "pre_backward";
inline constexpr std::string_view kBackwardPrefetch = "backward_prefetch";
inline constexpr std::string_view kAllGather = "all_gather";
inline constexpr std::string_view kAllGatherCopyOut = "all_gather_copy_out";
inline constexpr std::string_view kPostBackward = "post_backward";
inline constexpr std::string_view kPostBackwardReduce = "post_backward_reduce";
inline constexpr std::string_view kPostBackwardAccumulate = "post_backward_accumulate";
inline constexpr std::string_view kRootPostBackward = "root_post_backward";  // and "_callback"
// torch/distributed/fsdp/fully_sharded_data_parallel.py
inline constexpr std::string_view kFsdp1 = "FullyShardedDataParallel.";
// torch/nn/parallel/distributed.py
inline constexpr std::string_view kDdpForward = "DistributedDataParallel.forward";
// torch/optim/optimizer.py: profile_hook_step(), Optimizer.zero_grad().
inline constexpr std::string_view kOptimizerStep = "Optimizer.step#";
inline constexpr std::string_view kZeroGrad = "Optimizer.zero_grad#";
// torch/csrc/autograd/engine.cpp
inline constexpr std::string_view kBackward = "autograd::engine::evaluate_function";

}  // namespace shardscope::torch_range_names
