// GpuRecorder: the GPU work of a process that trains: CUPTI's batches joined to the ops that the
// engine reports as issued, as rows of its trace and as the times of those ops.
//
//   auto gpu = std::make_unique<GpuRecorder>(recorder, options);
//   Session::Start(functions, {}, [&](Batch batch, const Names& names) { gpu->Add(...); });
//   gpu->SetFlush([&] { session->FlushSoon(); });
//   gpu->OwnStream(...), gpu->OwnThread(...)   before anything is issued there
//   gpu->OpIssued(...)                         after each op was issued
//   gpu->TakeOps(...)                          at the end of a step, its streams done
//   session->Stop(); gpu->Finish();            devices synchronised
//
// Owner: the plugin. Threads: any, but for Add (CUPTI's decode thread) and Finish.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trace/record/cupti/joiner.h"
#include "trace/record/cupti/names.h"
#include "trace/record/gpu/row_writer.h"

namespace shardscope::gpu {

struct StreamOwner {
  int32_t rank = 0;
  std::string name;      // of the stream: its kernels' track is "<name> kernels"
  std::string role;      // track.role
  int64_t position = 0;  // track.position: that of the ops' track, so that it comes right below
  schema::TrackId op_track = schema::TrackId::None();  // of the ops that are issued on it
};

struct ThreadOwner {
  int32_t rank = 0;
  std::string name;      // its track is "<name> calls"
  int64_t position = 0;  // track.position
};

struct GpuRecorderOptions {
  // What op run a key of OpIssued() is. Called on the thread of Add, TakeOps or Finish.
  std::function<OpIdentity(int64_t key)> identity_of;
  // The rank whose memory the driver hands out on a device; null: rank 0.
  std::function<int32_t(uint32_t device)> rank_of_device;
  // Rows are written so long after the calls that made them: by then their records are here.
  int64_t lag_ns = 300'000'000;
};

// The result of Finish(): numbers of works and waits.
struct GpuCounts {
  int64_t works = 0;
  int64_t unplaced = 0;
};

class GpuRecorder {
 public:
  // `recorder` is borrowed and outlives this.
  GpuRecorder(record::Recorder* recorder, GpuRecorderOptions options);
  ~GpuRecorder();

  // `flush` asks CUPTI for its completed records soon. Before the first TakeOps.
  void SetFlush(std::function<void()> flush);

  // All work on this stream is the owner's, whichever thread issues it.
  void OwnStream(cupti::StreamId stream, const StreamOwner& owner);
  // Calls of this thread (gettid) are the owner's.
  void OwnThread(uint32_t thread, const ThreadOwner& owner);

  // Issuing an op is over: calls of op.thread within its times belong to it. Ops of a thread may
  // nest, not cross. op.key >= 0 is the caller's name for the op run; intervals inside it repeat
  // it.
  void OpIssued(const cupti::HostOp& op, int32_t rank);

  // A call of NCCL is over, on a thread that is owned.
  void CalledNccl(NcclRange call);

  // When the GPU worked for these ops (strictly ascending), in their order. `thread` issued them
  // all before `until_ns`, and called CUDA once more after that (as by waiting for its streams);
  // they are done. Waits for their records, but no longer than `timeout_ns`; what is missing then
  // is 0.
  std::vector<cupti::OpWork> TakeOps(uint32_t thread, int64_t until_ns,
                                     const std::vector<int64_t>& ops,
                                     int64_t timeout_ns = 500'000'000);

  // On the decode thread.
  void Add(const cupti::Batch& batch, const cupti::Names& names);

  // Writes what is left, once CUPTI has stopped and before its session ends, whose names are used;
  // counts what has no row in table capability.
  GpuCounts Finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardscope::gpu
