// Where LibTorch's CUDA caching allocator is, and how one listens to it. Nothing of CUDA's side of
// LibTorch is linked: its library is there or not. The plugin of our trainer and what is loaded
// into a recorded PyTorch compile this, each with its own flags.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <atomic>
#include <exception>
#include <string>

namespace shardscope::torch_allocator {

using c10::CachingDeviceAllocator::TraceEntry;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;

// The allocator in use, once LibTorch has initialised CUDA (before, it drops listeners). Null,
// and why, if there is none whose blocks can be followed.
inline CUDAAllocator* Find(std::string* why_not) {
  // LibTorch keeps it in a variable of libc10_cuda.
  void* const library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    *why_not = "this PyTorch has no CUDA";
    return nullptr;
  }
  const auto* const variable = static_cast<std::atomic<CUDAAllocator*>*>(
      dlsym(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE"));
  CUDAAllocator* const allocator = variable == nullptr ? nullptr : variable->load();
  if (allocator == nullptr) {
    *why_not = "libc10_cuda.so has no allocator where PyTorch 2.11 has it";
    return nullptr;
  }
  if (!allocator->initialized()) {
    *why_not = "PyTorch has not initialised CUDA";
    return nullptr;
  }
  if (!allocator->isEnabled()) {
    *why_not = "caching is switched off (PYTORCH_NO_CUDA_MEMORY_CACHING)";
    return nullptr;
  }
  return allocator;
}

// From now on it calls `tracker` for every event, under the lock of the event's device, to the end
// of the process. Empty: it does; else why not.
inline std::string Listen(CUDAAllocator* allocator, void (*tracker)(const TraceEntry& entry)) {
  try {
    allocator->attachAllocatorTraceTracker(tracker);
    return "";
  } catch (const c10::Error& error) {
    // Allocators other than PyTorch's own have no such events: cudaMallocAsync, pluggable ones.
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace shardscope::torch_allocator
