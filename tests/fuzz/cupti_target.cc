// FuzzCupti: the input is four bytes that say how the walker errs, four that are skipped, then the
// buffer. The walker stands in for CUPTI's own: it knows the sizes of records, but may be of
// another version (shorter records), step wrongly, or point outside.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"
#include "trace/base/check.h"
#include "trace/record/cupti/decode.h"
#include "trace/record/gpu/row_writer.h"
#include "trace/record/null_recorder_test_util.h"

namespace shardscope::fuzz {
namespace {

struct Walk {
  uint8_t shorten = 0;  // words that each record lacks
  uint8_t stray = 0;    // after so many records, an arbitrary pointer
  uint8_t step = 0;     // what it is off by
  int records = 0;
};
thread_local Walk walk;

size_t SizeOf(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return 216;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return 96;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return 88;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return 40;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return 56;
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return 128;
    case CUPTI_ACTIVITY_KIND_STREAM:
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return 24;
    default:
      return 8;
  }
}

CUptiResult NextRecord(uint8_t* buffer, size_t size, CUpti_Activity** record) {
  uint8_t* at = reinterpret_cast<uint8_t*>(*record);
  if (at == nullptr) {
    at = buffer;
  } else {
    uint32_t kind = 0;
    std::memcpy(&kind, at, sizeof kind);
    const size_t full = SizeOf(kind);
    at += full - std::min<size_t>(full - 8, 8 * size_t{walk.shorten});
  }
  ++walk.records;
  if (walk.stray > 0 && walk.records % walk.stray == 0) {
    at = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(at) + walk.step - 128);
  } else if (at + sizeof(uint32_t) > buffer + size) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  *record = reinterpret_cast<CUpti_Activity*>(at);
  return CUPTI_SUCCESS;
}

// Takes the rows and looks whether they make sense.
class CheckingRecorder final : public record::NullRecorder {
 public:
  CheckingRecorder() : NullRecorder(TakersOf<CheckingRecorder>(schema::HotRecords())) {}
  schema::StringId AddString(std::string_view /*text*/) override {
    return schema::StringId(++last_id_);
  }

 private:
  friend class record::Recorder;

  int64_t AddRow(RareRow row) override {
    if (const auto* clock = std::get_if<schema::GpuClockRow*>(&row)) {
      SHARDSCOPE_CHECK((*clock)->time_ns > 0 && (*clock)->works > 0 && (*clock)->waits > 0);
    }
    return ++last_id_;
  }
  static void Take(const schema::SpanRow& row) {
    SHARDSCOPE_CHECK(row.start_ns > 0 && row.duration_ns >= 0 && row.track.value() > 0);
  }
  static void Take(const record::GpuWorkRecord& record) {
    Take(record.span);
    SHARDSCOPE_CHECK(record.work.launch_start_ns > 0);
  }
  static void Take(const schema::EventEdgeRow& row) {
    SHARDSCOPE_CHECK(row.from_track.value() > 0 && row.to_track.value() > 0 &&
                     row.from_track != row.to_track);
  }
  static void Take(const schema::MemorySegmentRow& row) { SHARDSCOPE_CHECK(row.time_ns > 0); }
  template <typename T>
  static void Take(const T& /*record*/) {}

  int64_t last_id_ = 0;
};

class Target final : public gpu::RowTarget {
 public:
  record::Recorder& recorder() override { return recorder_; }
  schema::StringId Name(std::string_view text) override { return recorder_.AddString(text); }
  StreamTrack AddStreamTrack(uint32_t /*device*/, cupti::StreamId /*stream*/) override {
    return {recorder_.Add(schema::TrackRow{}), schema::TrackId::None()};
  }
  schema::TrackId CallTrack(uint32_t /*thread*/) override {
    return recorder_.Add(schema::TrackRow{});
  }
  schema::TrackId OverheadTrack() override { return recorder_.Add(schema::TrackRow{}); }
  gpu::OpIdentity IdentityOf(int64_t op) override { return {schema::PlanOpId(op), 0, "compute"}; }
  int32_t RankOfDevice(uint32_t /*device*/) override { return 0; }
  bool IsRecorded(int64_t /*start_ns*/) override { return true; }

 private:
  CheckingRecorder recorder_;
};

}  // namespace

void FuzzCupti(Input input) {
  if (input.size() < 8) return;
  walk = {static_cast<uint8_t>(input[0] % 8), input[1], input[2], 0};
  std::vector<uint64_t> words((input.size() - 8) / 8 + 1);
  std::memcpy(words.data(), input.data() + 8, input.size() - 8);
  cupti::CuptiFunctions functions;
  functions.ActivityGetNextRecord = &NextRecord;
  // Pointers of a damaged buffer lead nowhere; a dump has its names in a table.
  cupti::Names names([](const char* pointer) {
    return "kernel" + std::to_string(reinterpret_cast<uintptr_t>(pointer) % 16);
  });
  cupti::Joiner joiner;
  joiner.SetOwner({1, 7}, 0);
  joiner.Add({1, 7, 0, 1000}, 0);
  joiner.Add({2, 7, 2, 100}, 1);
  cupti::Batch batch;
  cupti::Decode(functions, reinterpret_cast<uint8_t*>(words.data()), input.size() - 8, names,
                batch);
  joiner.Add(batch);
  Target target;
  gpu::RowWriter rows(&target);
  for (const int64_t fence_ns : {int64_t{500}, int64_t{5'000'000'000}, cupti::kEnd}) {
    joiner.Peek({1, 2, 3});
    (void)joiner.IsComplete(7, fence_ns);
    rows.Write(joiner.Take(fence_ns), names);
  }
  rows.Finish();
}

}  // namespace shardscope::fuzz
