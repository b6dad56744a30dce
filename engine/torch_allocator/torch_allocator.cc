#include "engine/torch_allocator/torch_allocator.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <atomic>
#include <exception>

namespace shardscope::torch_allocator {

// LibTorch keeps it in a variable of libc10_cuda.
CUDAAllocator* Find(std::string* why_not) {
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

std::string Listen(CUDAAllocator* allocator, void (*tracker)(const TraceEntry& entry)) {
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
