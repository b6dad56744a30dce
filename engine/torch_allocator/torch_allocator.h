// Where LibTorch's CUDA caching allocator is, and how one listens to it. Nothing of CUDA's side of
// LibTorch is linked: its library is there or not. Two shared objects compile this, each with its
// own flags: the plugin of our trainer, and what is loaded into a recorded PyTorch.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <string>

namespace shardscope::torch_allocator {

using c10::CachingDeviceAllocator::TraceEntry;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;

// The allocator in use, once LibTorch has initialised CUDA (before, it forgets who listens). Null,
// and why, if there is none whose blocks can be heard.
CUDAAllocator* Find(std::string* why_not);

// From now on it calls `tracker` for every event, under the lock of the event's device, to the end
// of the process. Empty: it does; else why not.
std::string Listen(CUDAAllocator* allocator, void (*tracker)(const TraceEntry& entry));

}  // namespace shardscope::torch_allocator
