// CudaRecording: decoded CUPTI records of a foreign program as rows: kernels, copies, calls, waits
// between streams, device memory. It has no Schedule, so they belong to no op.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "trace/base/trace_keys.h"
#include "trace/base/words.h"
#include "trace/record/cupti/joiner.h"
#include "trace/record/cupti/names.h"
#include "trace/record/gpu/row_writer.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {

// One thread at a time.
class CudaRecording final : private gpu::RowTarget {
 public:
  explicit CudaRecording(ProcessRecording* recording) : recording_(recording), rows_(this) {}

  // What began a while ago, as records of the same time come in several batches.
  void Add(const cupti::Batch& batch, const cupti::Names& names);
  // The rest.
  void Finish();

  // Of work without times and without its call there is no row.
  int64_t unplaced() const { return rows_.unplaced(); }

 private:
  record::Recorder& recorder() override { return recording_->recorder(); }
  schema::StringId Name(std::string_view text) override { return recording_->Name(text); }
  StreamTrack AddStreamTrack(uint32_t device, cupti::StreamId stream) override;
  schema::TrackId CallTrack(uint32_t thread) override { return recording_->TrackOf(thread); }
  schema::TrackId OverheadTrack() override {
    return recording_->AddTrack(trace_keys::kOverheadTrack, words::TrackRole::kHost);
  }
  gpu::OpIdentity IdentityOf(int64_t /*op*/) override { return {}; }
  int32_t RankOfDevice(uint32_t /*device*/) override;
  bool IsRecorded(int64_t start_ns) override { return recording_->IsRecorded(start_ns); }
  // A ledger with a gap is wrong for ever: a pause of the program's profiler does not count.
  bool IsMemoryRecorded(int64_t time_ns) override { return time_ns < recording_->until_ns(); }

  void AddMemory(const cupti::MemoryOperation& operation);

  ProcessRecording* const recording_;
  cupti::Joiner joiner_;
  gpu::RowWriter rows_;
  const cupti::Names* names_ = nullptr;               // of the last batch; they outlive Finish()
  std::set<std::pair<uint32_t, uint64_t>> segments_;  // with rows of memory: device, address
};

// As the CUDA driver calls it, once, while the program initialises CUDA. Without CUPTI, or while
// another tool holds it, the trace records that, and the rest.
void AttachCuda();

}  // namespace shardscope::inject
