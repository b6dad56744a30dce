// RowWriter: joined GPU records as rows of the trace: kernels and copies on the tracks of their
// streams, calls of the CUDA API and the tracer's own overhead on those of the host, waits of
// streams, and device memory as the driver hands it out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/base/words.h"
#include "trace/record/cupti/joiner.h"
#include "trace/record/cupti/names.h"
#include "trace/record/gpu/clock_bounds.h"
#include "trace/record/gpu/nccl_ranges.h"
#include "trace/record/recorder.h"

namespace shardscope::gpu {

// What identifies an op run in a trace, and how its work counts.
struct OpIdentity {
  schema::PlanOpId plan_op = schema::PlanOpId::None();
  int64_t step = -1;
  std::string_view category;  // of its plan op; empty: by its kernels' names
};

// Where the rows of a process go. Asked by one thread at a time.
class RowTarget {
 public:
  virtual ~RowTarget() = default;

  virtual record::Recorder& recorder() = 0;
  // Of text that is shown.
  virtual schema::StringId Name(std::string_view text) = 0;

  struct StreamTrack {
    schema::TrackId track;
    schema::TrackId op_track = schema::TrackId::None();
  };
  // A new track for the work of a stream; asked once a stream.
  virtual StreamTrack AddStreamTrack(uint32_t device, cupti::StreamId stream) = 0;
  // The track of a thread's calls; asked once a thread.
  virtual schema::TrackId CallTrack(uint32_t thread) = 0;
  // The track of what the tracer itself does; asked once.
  virtual schema::TrackId OverheadTrack() = 0;

  virtual OpIdentity IdentityOf(int64_t op) = 0;
  // The rank whose memory the driver hands out on `device`.
  virtual int32_t RankOfDevice(uint32_t device) = 0;
  // Whether what begins at this time is recorded.
  virtual bool IsRecorded(int64_t start_ns) = 0;
  // The same of memory, which stays there when recording goes on.
  virtual bool IsMemoryRecorded(int64_t time_ns) { return IsRecorded(time_ns); }
};

// Of the track of a stream that has no name: "GPU 0 context 1 stream 7".
std::string NameOfStream(uint32_t device, cupti::StreamId stream);

// Of no op, GPU work or NCCL call; one that ends before it starts has no length.
schema::SpanRow SpanOf(schema::TrackId track, int64_t start_ns, int64_t end_ns,
                       schema::StringId name, words::SpanCategory category);

// One thread at a time.
class RowWriter {
 public:
  explicit RowWriter(RowTarget* target) : target_(target) {}

  void SetPriority(const cupti::StreamInfo& stream) {
    priorities_[stream.stream] = stream.priority;
  }
  void Write(const cupti::Joined& joined, const cupti::Names& names);
  // Calls of NCCL that took memory from the driver become ranges, whether or not their step is
  // recorded: without them that memory would be others'. After the Write() of the same fence.
  void WriteNccl(std::vector<NcclRange> ranges, int64_t fence_ns);
  // Figures of a while once it is over. After the last Write().
  void Finish() { WriteClocks(/*all=*/true); }

  // Work without times and without a call, whose place in time is unknown: it has no row.
  int64_t unplaced() const { return unplaced_; }

 private:
  struct KernelName {
    schema::StringId name;
    bool communication = false;
  };

  template <typename Row>
  void Record(const Row& row);
  void WriteWork(const cupti::Work& work, const cupti::Names& names);
  void WriteEdge(const cupti::Edge& edge);
  void WriteMemory(const cupti::MemoryOperation& operation);
  void WriteClocks(bool all);
  void WriteSpan(schema::TrackId track, int64_t start_ns, int64_t end_ns, schema::StringId name,
                 words::SpanCategory category);
  schema::TrackId TrackOf(uint32_t device, cupti::StreamId stream);
  schema::TrackId TrackOfThread(uint32_t thread);
  const KernelName& NameOfKernel(int32_t name, const cupti::Names& names);
  schema::StringId NameOf(int32_t name, const cupti::Names& names);

  RowTarget* const target_;
  ClockBounds clocks_;
  NcclRanges nccl_;
  std::map<cupti::StreamId, schema::TrackId> tracks_;
  std::map<cupti::StreamId, int32_t> priorities_;
  std::unordered_map<uint32_t, schema::TrackId> thread_tracks_;
  schema::TrackId overhead_track_;
  std::unordered_map<int32_t, KernelName> kernel_names_;  // by the decoder's number
  std::unordered_map<int32_t, schema::StringId> names_;   // likewise
  int64_t unplaced_ = 0;
  int64_t rows_ = 0;
};

}  // namespace shardscope::gpu
