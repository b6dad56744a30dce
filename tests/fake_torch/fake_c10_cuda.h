// What the fake libc10_cuda.so lets a test do, beyond what the real one's header offers.
#pragma once

extern "C" {

// Which of PyTorch's allocators it pretends to be; before anybody attaches.
enum FakeC10CudaKind { kFakeCaching, kFakeAsync, kFakeUncached };
void FakeC10CudaReset(int kind);

// init(1) of the allocator, as PyTorch's own initialisation calls it.
void FakeC10CudaInit();

// A block of `block_bytes` for `bytes`, on stream 7 of device 0. Its address.
void* FakeC10CudaAllocate(unsigned long bytes, unsigned long block_bytes);
// Gives it back; it stays in use until FakeC10CudaComplete() if `is_used`.
void FakeC10CudaFree(void* address, int is_used);
void FakeC10CudaComplete(void* address);
void FakeC10CudaRunOut(unsigned long bytes, unsigned long free_bytes);

}  // extern "C"
