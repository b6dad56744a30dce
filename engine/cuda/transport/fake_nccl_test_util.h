// For tests: an NCCL in one object, whose collectives run on the fake GPU. Its initialisation and
// groups are "in progress" for a few polls, as with blocking=0; errors come when a test asks for
// them.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/cuda/transport/fake_gpu_test_util.h"
#include "engine/cuda/transport/nccl_api.h"
#include "engine/transport/reduce.h"

namespace shardscope::cuda {

class FakeNccl {
 public:
  // One at a time: the table's functions find it here.
  explicit FakeNccl(FakeGpu* gpu) : gpu_(gpu) { current() = this; }
  ~FakeNccl() { current() = nullptr; }

  NcclApi Api();

  ncclResult_t init_result = ncclInProgress;            // what CommInitRankConfig returns
  std::atomic<ncclResult_t> async_error = ncclSuccess;  // what GetAsyncError says when settled
  std::atomic<ncclResult_t> collective_result = ncclSuccess;
  std::atomic<int> num_aborts = 0;
  std::atomic<int> num_groups = 0;
  std::atomic<int> num_live = 0;  // communicators

 private:
  // One collective of one clique: what each rank brought.
  struct Work {
    std::vector<const std::byte*> sends;
    std::atomic<int> num_arrived = 0;
    std::atomic<int> num_done = 0;
  };
  struct Clique {
    int num_ranks = 0;
    std::map<int64_t, std::shared_ptr<Work>> works;  // by number
  };
  struct Comm {
    std::shared_ptr<Clique> clique;
    int rank = 0;
    int64_t num_called = 0;
    int polls_left = 3;
  };
  static FakeNccl*& current() {
    static FakeNccl* nccl = nullptr;
    return nccl;
  }
  static Comm* CommOf(ncclComm_t comm) { return reinterpret_cast<Comm*>(comm); }

  // Puts run(sends of all ranks, own rank) on the stream, once all ranks are there.
  using Body = std::function<void(const std::vector<const std::byte*>& sends, int rank)>;
  ncclResult_t Enqueue(ncclComm_t handle, const void* send, cudaStream_t stream, Body body) {
    if (collective_result != ncclSuccess) return collective_result;
    const std::lock_guard lock(mutex_);
    Comm* comm = CommOf(handle);
    std::shared_ptr<Work>& work = comm->clique->works[comm->num_called++];
    if (work == nullptr) work = std::make_shared<Work>();
    const int num_ranks = comm->clique->num_ranks;
    const int rank = comm->rank;
    work->sends.resize(static_cast<size_t>(num_ranks));
    work->sends[static_cast<size_t>(rank)] = static_cast<const std::byte*>(send);
    gpu_->Launch(stream, [work] { ++work->num_arrived; });
    gpu_->Launch(
        stream,
        [work, body, rank] {
          body(work->sends, rank);
          ++work->num_done;
        },
        [work, num_ranks] { return work->num_arrived == num_ranks; });
    gpu_->Launch(
        stream, [] {}, [work, num_ranks] { return work->num_done == num_ranks; });
    return ncclSuccess;
  }
  static plan::DType DTypeOf(ncclDataType_t type) {
    return type == ncclFloat32 ? plan::DType::kFp32
                               : (type == ncclFloat64 ? plan::DType::kFp64 : plan::DType::kBf16);
  }
  static void Sum(const std::vector<const std::byte*>& sends, size_t from, size_t elements,
                  ncclDataType_t type, std::byte* output) {
    const plan::DType dtype = DTypeOf(type);
    std::vector<const std::byte*> inputs;
    for (const std::byte* send : sends) {
      inputs.push_back(send + from * static_cast<size_t>(plan::BytesOf(dtype)));
    }
    transport::SumInOrder(inputs, elements, dtype, 1, output);
  }

  FakeGpu* const gpu_;
  std::mutex mutex_;                                        // guards all below
  std::map<std::string, std::shared_ptr<Clique>> cliques_;  // by unique id
  int num_ids_ = 0;
};

inline NcclApi FakeNccl::Api() {
  NcclApi api;
  api.GetErrorString = [](ncclResult_t result) {
    return result == ncclRemoteError ? "remote process exited" : "unhandled cuda error";
  };
  api.GetLastError = [](ncclComm_t) { return "the fake's details"; };
  api.GetUniqueId = [](ncclUniqueId* id) {
    const std::lock_guard lock(current()->mutex_);
    // With zeros and high bytes inside, as a real one.
    std::memset(id->internal, 0, sizeof(id->internal));
    id->internal[5] = static_cast<char>(0xF0 + ++current()->num_ids_);
    return ncclSuccess;
  };
  api.CommInitRankConfig = [](ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                              ncclConfig_t* config) {
    FakeNccl* nccl = current();
    if (config->blocking != 0) return ncclInvalidUsage;
    if (nccl->init_result != ncclInProgress) return nccl->init_result;
    const std::lock_guard lock(nccl->mutex_);
    std::shared_ptr<Clique>& clique = nccl->cliques_[std::string(id.internal, sizeof(id.internal))];
    if (clique == nullptr) clique = std::make_shared<Clique>();
    clique->num_ranks = num_ranks;
    auto* made = new Comm;
    made->clique = clique;
    made->rank = rank;
    ++nccl->num_live;
    *comm = reinterpret_cast<ncclComm_t>(made);
    return ncclInProgress;
  };
  api.CommGetAsyncError = [](ncclComm_t comm, ncclResult_t* state) {
    const bool is_busy = CommOf(comm)->polls_left > 0;
    if (is_busy) --CommOf(comm)->polls_left;
    *state = is_busy ? ncclInProgress : current()->async_error.load();
    return ncclSuccess;
  };
  api.CommAbort = [](ncclComm_t comm) {
    ++current()->num_aborts;
    --current()->num_live;
    delete CommOf(comm);
    return ncclSuccess;
  };
  api.GroupStart = [] {
    ++current()->num_groups;
    return ncclSuccess;
  };
  api.GroupEnd = [] { return current()->collective_result.load(); };
  api.AllGather = [](const void* send, void* receive, size_t count, ncclDataType_t type,
                     ncclComm_t comm, cudaStream_t stream) {
    if (type != ncclChar) return ncclInvalidArgument;
    return current()->Enqueue(comm, send, stream, [=](const auto& sends, int) {
      for (size_t rank = 0; rank < sends.size(); ++rank) {
        std::byte* to = static_cast<std::byte*>(receive) + rank * count;
        if (to != sends[rank]) std::memcpy(to, sends[rank], count);
      }
    });
  };
  api.ReduceScatter = [](const void* send, void* receive, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    if (op != ncclSum) return ncclInvalidArgument;
    return current()->Enqueue(comm, send, stream, [=](const auto& sends, int rank) {
      Sum(sends, static_cast<size_t>(rank) * count, count, type, static_cast<std::byte*>(receive));
    });
  };
  api.AllReduce = [](const void* send, void* receive, size_t count, ncclDataType_t type,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    if (op != ncclSum) return ncclInvalidArgument;
    auto result = std::make_shared<std::vector<std::byte>>();
    auto status = current()->Enqueue(comm, send, stream, [=](const auto& sends, int) {
      result->resize(count * static_cast<size_t>(plan::BytesOf(DTypeOf(type))));
      Sum(sends, 0, count, type, result->data());
    });
    // In place: nobody overwrites before all have summed.
    current()->gpu_->Launch(stream, [=] { std::memcpy(receive, result->data(), result->size()); });
    return status;
  };
  return api;
}

}  // namespace shardscope::cuda
