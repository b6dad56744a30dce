// A libc10_cuda.so for tests: the allocator of the real header, with the order in which the real
// one (c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11) tells events and changes its sums, and
// with a segment for every block. No memory is behind its addresses.
#include "tests/fake_torch/fake_c10_cuda.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace c10::cuda {

// What inline functions of the headers refer to.
DeviceIndex current_device() { return 0; }
void c10_cuda_check_implementation(int32_t /*error*/, const char* /*file*/,
                                   const char* /*function*/, uint32_t /*line*/, bool /*asserts*/) {}

namespace CUDACachingAllocator {
namespace {

using CachingDeviceAllocator::DeviceStats;

class FakeAllocator final : public CUDAAllocator {
 public:
  explicit FakeAllocator(int kind) : kind_(kind) {}

  void* Allocate(size_t bytes, size_t block_bytes) {
    const std::lock_guard lock(mutex_);
    last_address_ += 1 << 20;
    Sum(stats_.reserved_bytes) += static_cast<int64_t>(block_bytes);
    Tell(TraceEntry::SEGMENT_ALLOC, last_address_, block_bytes);
    Tell(TraceEntry::ALLOC, last_address_, bytes);
    blocks_[last_address_] = {bytes, block_bytes};
    Sum(stats_.allocated_bytes) += static_cast<int64_t>(block_bytes);
    Sum(stats_.active_bytes) += static_cast<int64_t>(block_bytes);
    Sum(stats_.requested_bytes) += static_cast<int64_t>(bytes);
    return reinterpret_cast<void*>(last_address_);
  }
  void Free(size_t address, bool is_used) {
    const std::lock_guard lock(mutex_);
    Sum(stats_.allocated_bytes) -= static_cast<int64_t>(blocks_.at(address).second);
    Tell(TraceEntry::FREE_REQUESTED, address, blocks_.at(address).first);
    if (!is_used) Complete(address);
  }
  void Complete(size_t address) {
    const std::lock_guard lock(mutex_);
    const auto [bytes, block_bytes] = blocks_.at(address);
    Tell(TraceEntry::FREE_COMPLETED, address, bytes);
    blocks_.erase(address);
    Sum(stats_.active_bytes) -= static_cast<int64_t>(block_bytes);
    Sum(stats_.requested_bytes) -= static_cast<int64_t>(bytes);
    Sum(stats_.reserved_bytes) -= static_cast<int64_t>(block_bytes);
    Tell(TraceEntry::SEGMENT_FREE, address, block_bytes);
  }
  void RunOut(size_t bytes, size_t free_bytes) {
    const std::lock_guard lock(mutex_);
    Tell(TraceEntry::OOM, free_bytes, bytes);
  }

  void init(int device_count) override { num_devices_ = device_count; }
  bool initialized() override { return num_devices_ > 0; }
  bool isEnabled() const override { return kind_ != kFakeUncached; }
  std::string name() override { return kind_ == kFakeAsync ? "cudaMallocAsync" : "native"; }
  DeviceStats getDeviceStats(DeviceIndex /*device*/) override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  // The real one gives the tracker to the devices that it knows by now.
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    TORCH_CHECK(kind_ != kFakeAsync, "cudaMallocAsync does not yet support it");
    if (num_devices_ > 0) trackers_.push_back(std::move(tracker));
  }

  // The rest is not used.
  DataPtr allocate(size_t /*bytes*/) override { return {}; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}
  void emptyCache(MempoolId_t /*pool*/) override {}
  void resetAccumulatedStats(DeviceIndex /*device*/) override {}
  void resetPeakStats(DeviceIndex /*device*/) override {}
  void* raw_alloc(size_t /*bytes*/) override { return nullptr; }
  void* raw_alloc_with_stream(size_t /*bytes*/, cudaStream_t /*stream*/) override {
    return nullptr;
  }
  void raw_delete(void* /*address*/) override {}
  double getMemoryFraction(DeviceIndex /*device*/) override { return 1; }
  void setMemoryFraction(double /*fraction*/, DeviceIndex /*device*/) override {}
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex /*device*/) override {
    return {};
  }
  void enable(bool /*value*/) override {}
  void cacheInfo(DeviceIndex /*device*/, size_t* /*largest*/) override {}
  void* getBaseAllocation(void* address, size_t* /*bytes*/) override { return address; }
  void recordStream(const DataPtr& /*data*/, CUDAStream /*stream*/) override {}
  SnapshotInfo snapshot(MempoolId_t /*pool*/, bool /*traces*/) override { return {}; }
  void beginAllocateToPool(DeviceIndex /*device*/, MempoolId_t /*pool*/,
                           std::function<bool(cudaStream_t)> /*filter*/) override {}
  void endAllocateToPool(DeviceIndex /*device*/, MempoolId_t /*pool*/) override {}
  void releasePool(DeviceIndex /*device*/, MempoolId_t /*pool*/) override {}
  ShareableHandle shareIpcHandle(void* /*address*/) override { return {}; }
  std::shared_ptr<void> getIpcDevPtr(std::string /*handle*/) override { return nullptr; }
  void recordHistory(bool /*enabled*/, CreateContextFn /*recorder*/, size_t /*entries*/,
                     RecordContext /*when*/, bool /*clear*/,
                     const std::vector<std::string>& /*skip*/) override {}
  void attachOutOfMemoryObserver(OutOfMemoryObserver /*observer*/) override {}
  void enablePeerAccess(DeviceIndex /*device*/, DeviceIndex /*to*/) override {}
  cudaError_t memcpyAsync(void* /*to*/, int /*to_device*/, const void* /*from*/,
                          int /*from_device*/, size_t /*bytes*/, cudaStream_t /*stream*/,
                          bool /*p2p*/) override {
    return cudaSuccess;
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex /*device*/,
                                                     MempoolId_t /*pool*/) override {
    return nullptr;
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex /*device*/,
                                         std::shared_ptr<AllocatorState> /*state*/) override {
    return {};
  }

 private:
  static int64_t& Sum(CachingAllocator::StatArray& stat) {
    return stat[static_cast<size_t>(CachingAllocator::StatType::AGGREGATE)].current;
  }
  void Tell(TraceEntry::Action action, size_t address, size_t bytes) {
    const TraceEntry entry(action, /*device=*/0, address, bytes, reinterpret_cast<void*>(7), {0, 0},
                           /*time=*/0);
    for (const AllocatorTraceTracker& tracker : trackers_) tracker(entry);
  }

  const int kind_;
  int num_devices_ = 0;
  std::recursive_mutex mutex_;  // guards the rest
  std::vector<AllocatorTraceTracker> trackers_;
  DeviceStats stats_;
  size_t last_address_ = 0;
  std::map<size_t, std::pair<size_t, size_t>> blocks_;  // by address: asked for, given
};

FakeAllocator* fake = nullptr;

}  // namespace

std::atomic<CUDAAllocator*> allocator = nullptr;

}  // namespace CUDACachingAllocator
}  // namespace c10::cuda

// What the header's own inline functions call.
extern "C" cudaError_t cudaMemGetInfo(size_t* /*free*/, size_t* /*total*/) { return cudaSuccess; }

namespace fakes = c10::cuda::CUDACachingAllocator;

void FakeC10CudaReset(int kind) {
  fakes::fake = new fakes::FakeAllocator(kind);  // others may still know the one before
  fakes::allocator = fakes::fake;
}
void FakeC10CudaInit() { fakes::fake->init(1); }
void* FakeC10CudaAllocate(unsigned long bytes, unsigned long block_bytes) {
  return fakes::fake->Allocate(bytes, block_bytes);
}
void FakeC10CudaFree(void* address, int is_used) {
  fakes::fake->Free(reinterpret_cast<size_t>(address), is_used != 0);
}
void FakeC10CudaComplete(void* address) {
  fakes::fake->Complete(reinterpret_cast<size_t>(address));
}
void FakeC10CudaRunOut(unsigned long bytes, unsigned long free_bytes) {
  fakes::fake->RunOut(bytes, free_bytes);
}
