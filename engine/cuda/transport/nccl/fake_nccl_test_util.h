// For tests: an NCCL in one object, whose collectives run on the fake GPU. Making a communicator
// blocks until all ranks are there, or it is aborted; errors and hangs come when a test asks for
// them. An abort in a group only tells the communicator to stop, the end of the group frees it, as
// the real one's; freeing counts what would have been a deadlock or a use after the free.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/cuda/transport/fake_gpu_test_util.h"
#include "engine/cuda/transport/nccl/nccl_api.h"
#include "engine/transport/reduce.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::cuda {

class FakeNccl {
 public:
  // One at a time: the table's functions find it here.
  explicit FakeNccl(FakeGpu* gpu) : gpu_(gpu) { current() = this; }
  ~FakeNccl() {
    for (Comm* comm : live_) delete comm;
    current() = nullptr;
  }

  NcclApi Api();

  std::atomic<ncclResult_t> async_error = ncclSuccess;  // what GetAsyncError says when settled
  std::atomic<ncclResult_t> collective_result = ncclSuccess;
  bool does_not_block = false;           // as with NCCL_COMM_BLOCKING=0
  std::atomic<bool> init_hangs = false;  // until it is aborted
  std::atomic<bool> calls_hang = false;  // likewise
  std::atomic<int> num_aborts = 0;
  std::atomic<int> num_groups = 0;  // of collectives
  std::atomic<int> num_live = 0;    // communicators
  // What would have gone wrong: memory freed while another communicator's kernel runs that was not
  // told to stop, and while a thread is in a call with it.
  std::atomic<int> num_deadlocks = 0;
  std::atomic<int> num_freed_in_use = 0;
  // When the real one would have taken memory: for a communicator, and as a collective is called.
  // Read between calls.
  std::vector<int64_t> allocated_ns;

 private:
  // One collective of one clique: what each rank brought.
  struct Work {
    std::vector<const std::byte*> sends;
    std::atomic<int> num_arrived = 0;
    std::atomic<int> num_done = 0;
  };
  struct Clique {
    int num_ranks = 0;
    int num_present = 0;
    std::map<int64_t, std::shared_ptr<Work>> works;  // by number
  };
  // What kernels have of their communicator; outlives it.
  struct State {
    std::atomic<bool> is_told = false;  // to stop
    std::atomic<int> num_running = 0;   // collectives
  };
  struct Comm {
    std::shared_ptr<Clique> clique;
    std::shared_ptr<State> state = std::make_shared<State>();
    int rank = 0;
    int64_t num_called = 0;
    int polls_left = 3;
    std::atomic<int> num_callers = 0;  // threads in a call with it
  };
  // The calling thread's group.
  struct Group {
    int depth = 0;
    Comm* last = nullptr;  // that a collective was called with
    std::vector<Comm*> aborted;
  };
  static Group& ThisGroup() {
    thread_local Group group;
    return group;
  }
  static FakeNccl*& current() {
    static FakeNccl* nccl = nullptr;
    return nccl;
  }
  static Comm* CommOf(ncclComm_t comm) { return reinterpret_cast<Comm*>(comm); }

  static void AddCollectives(NcclApi* api);
  // Puts run(sends of all ranks, own rank) on the stream, once all ranks are there.
  using Body = std::function<void(const std::vector<const std::byte*>& sends, int rank)>;
  ncclResult_t Enqueue(ncclComm_t handle, const void* send, cudaStream_t stream, Body body) {
    if (collective_result != ncclSuccess) return collective_result;
    const MutexLock lock(mutex_);
    allocated_ns.push_back(MonotonicNs());
    Comm* comm = CommOf(handle);
    ThisGroup().last = comm;
    const std::shared_ptr<State> state = comm->state;
    ++state->num_running;
    std::shared_ptr<Work>& work = comm->clique->works[comm->num_called++];
    if (work == nullptr) work = std::make_shared<Work>();
    const int num_ranks = comm->clique->num_ranks;
    const int rank = comm->rank;
    work->sends.resize(static_cast<size_t>(num_ranks));
    work->sends[static_cast<size_t>(rank)] = static_cast<const std::byte*>(send);
    gpu_->Launch(stream, [work] { ++work->num_arrived; });
    gpu_->Launch(
        stream,
        [work, body, rank, state] {
          if (!state->is_told) body(work->sends, rank);
          ++work->num_done;
        },
        [work, num_ranks, state] { return work->num_arrived == num_ranks || state->is_told; });
    gpu_->Launch(
        stream, [state] { --state->num_running; },
        [work, num_ranks, state] { return work->num_done == num_ranks || state->is_told; });
    return ncclSuccess;
  }
  void Begin(Comm* comm) REQUIRES(mutex_) {
    live_.insert(comm);
    allocated_ns.push_back(MonotonicNs());
  }
  void Free(Comm* comm) {
    const MutexLock lock(mutex_);
    for (const Comm* other : live_) {
      if (!other->state->is_told && other->state->num_running > 0) ++num_deadlocks;
    }
    if (comm->num_callers > 0) ++num_freed_in_use;
    live_.erase(comm);
    --num_live;
    delete comm;
  }
  ncclResult_t Connect(Comm* comm) {
    {
      const MutexLock lock(mutex_);
      ++comm->clique->num_present;
    }
    while (!comm->state->is_told) {
      std::this_thread::yield();
      const MutexLock lock(mutex_);
      if (!init_hangs && comm->clique->num_present == comm->clique->num_ranks) return ncclSuccess;
    }
    return ncclInternalError;
  }
  static plan::DType DTypeOf(ncclDataType_t type) {
    if (type == ncclFloat32) return plan::DType::kFp32;
    if (type == ncclFloat64) return plan::DType::kFp64;
    return type == ncclFloat16 ? plan::DType::kFp16 : plan::DType::kBf16;
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
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Clique>> cliques_ GUARDED_BY(mutex_);  // by unique id
  std::set<Comm*> live_ GUARDED_BY(mutex_);
  int num_ids_ GUARDED_BY(mutex_) = 0;
};

inline NcclApi FakeNccl::Api() {
  NcclApi api;
  api.GetErrorString = [](ncclResult_t result) {
    return result == ncclRemoteError ? "remote process exited" : "unhandled cuda error";
  };
  api.GetLastError = [](ncclComm_t) { return "the fake's details"; };
  api.GetUniqueId = [](ncclUniqueId* id) {
    const MutexLock lock(current()->mutex_);
    // With zeros and high bytes inside, as a real one.
    std::memset(id->internal, 0, sizeof(id->internal));
    id->internal[5] = static_cast<char>(0xF0 + ++current()->num_ids_);
    return ncclSuccess;
  };
  api.CommInitRankConfig = [](ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                              ncclConfig_t* config) {
    FakeNccl* nccl = current();
    if (config->blocking != 1) return ncclInvalidUsage;
    auto* made = new Comm;
    {
      const MutexLock lock(nccl->mutex_);
      std::shared_ptr<Clique>& clique =
          nccl->cliques_[std::string(id.internal, sizeof(id.internal))];
      if (clique == nullptr) clique = std::make_shared<Clique>();
      clique->num_ranks = num_ranks;
      made->clique = clique;
      made->rank = rank;
      nccl->Begin(made);
      ++made->num_callers;
    }
    ++nccl->num_live;
    // Before it connects, as the real one.
    __atomic_store_n(comm, reinterpret_cast<ncclComm_t>(made), __ATOMIC_SEQ_CST);
    const ncclResult_t result = nccl->does_not_block ? ncclInProgress : nccl->Connect(made);
    --made->num_callers;
    return result;
  };
  api.CommGetAsyncError = [](ncclComm_t comm, ncclResult_t* state) {
    const bool is_busy = CommOf(comm)->polls_left > 0;
    if (is_busy) --CommOf(comm)->polls_left;
    *state = is_busy ? ncclInProgress : current()->async_error.load();
    return ncclSuccess;
  };
  api.CommAbort = [](ncclComm_t comm) {
    ++current()->num_aborts;
    CommOf(comm)->state->is_told = true;
    if (ThisGroup().depth > 0) {
      ThisGroup().aborted.push_back(CommOf(comm));
    } else {
      current()->Free(CommOf(comm));
    }
    return ncclSuccess;
  };
  api.GroupStart = [] {
    ++ThisGroup().depth;
    return ncclSuccess;
  };
  api.GroupEnd = [] {
    Group& group = ThisGroup();
    if (--group.depth > 0) return ncclSuccess;
    for (Comm* comm : std::exchange(group.aborted, {})) current()->Free(comm);
    Comm* const comm = std::exchange(group.last, nullptr);
    if (comm == nullptr) return current()->collective_result.load();
    ++current()->num_groups;
    ++comm->num_callers;
    while (current()->calls_hang && !comm->state->is_told) std::this_thread::yield();
    const bool is_told = comm->state->is_told;
    --comm->num_callers;
    return is_told ? ncclInternalError : current()->collective_result.load();
  };
  AddCollectives(&api);
  return api;
}

inline void FakeNccl::AddCollectives(NcclApi* api) {
  api->AllGather = [](const void* send, void* receive, size_t count, ncclDataType_t type,
                      ncclComm_t comm, cudaStream_t stream) {
    if (type != ncclChar) return ncclInvalidArgument;
    return current()->Enqueue(comm, send, stream, [=](const auto& sends, int) {
      for (size_t rank = 0; rank < sends.size(); ++rank) {
        std::byte* to = static_cast<std::byte*>(receive) + rank * count;
        if (to != sends[rank]) std::memcpy(to, sends[rank], count);
      }
    });
  };
  api->ReduceScatter = [](const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    if (op != ncclSum) return ncclInvalidArgument;
    return current()->Enqueue(comm, send, stream, [=](const auto& sends, int rank) {
      Sum(sends, static_cast<size_t>(rank) * count, count, type, static_cast<std::byte*>(receive));
    });
  };
  api->AllReduce = [](const void* send, void* receive, size_t count, ncclDataType_t type,
                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    if (op != ncclSum) return ncclInvalidArgument;
    auto result = std::make_shared<std::vector<std::byte>>();
    auto status = current()->Enqueue(comm, send, stream, [=](const auto& sends, int) {
      result->resize(count * static_cast<size_t>(plan::BytesOf(DTypeOf(type))));
      Sum(sends, 0, count, type, result->data());
    });
    // In place: overwritten only after all have summed.
    current()->gpu_->Launch(stream, [=] { std::memcpy(receive, result->data(), result->size()); });
    return status;
  };
  api->Broadcast = [](const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                      ncclComm_t comm, cudaStream_t stream) {
    if (type != ncclChar) return ncclInvalidArgument;
    return current()->Enqueue(comm, send, stream, [=](const auto& sends, int rank) {
      if (rank != root) std::memcpy(receive, sends[static_cast<size_t>(root)], count);
    });
  };
}

}  // namespace shardscope::cuda
