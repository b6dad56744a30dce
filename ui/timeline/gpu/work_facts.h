// What is known about one kernel or copy of the GPU, or one range that a thread marked, for
// details, tooltips and the launch arrow. No ImGui.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trace/query/snapshot.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {

struct WorkFacts {
  enum class Kind : uint8_t { kNothing, kWork, kRange };
  Kind kind = Kind::kNothing;
  int32_t rank = 0;
  query::GpuWork work;  // kWork
  query::Span range;    // kRange
  // Of a range of a flight recorder: asked for, and not begun when the dump was written.
  bool is_not_begun = false;
  std::string name;  // as recorded
  std::string short_name;
  std::string track;        // of its stream or thread
  std::string launched_by;  // name of the thread; empty: the call was not recorded
  std::string op;           // "AG block1"; empty: no op launched it
  query::OpRunId op_run = query::OpRunId::None();  // of that op; -1: it is not known
  int64_t step_start_ns = 0;

  // Of a collective's kernel.
  bool has_arrival = false;
  int64_t wait_ns = 0;
  int64_t transfer_ns = 0;
  int32_t last_rank = -1;
  std::string nccl;  // "ReduceScatter #12, RING LL, 2 channels"; empty: no row of NCCL

  std::string shares_channel_with;  // name of the other stream; empty: none does

  query::SpanId id() const { return kind == Kind::kRange ? range.id : work.id; }
  int64_t start_ns() const { return kind == Kind::kRange ? range.start_ns : work.start_ns; }
  int64_t end_ns() const { return kind == Kind::kRange ? range.end_ns : work.end_ns; }
};

// The row of gpu_work whose span this is; kNoRow if there is none. Rows come nearly in the order of
// their ids, so this looks at few of them.
uint32_t FindWorkRow(const query::RankRows& rows, query::SpanId span);

// The same of spans: of a range.
uint32_t FindRangeRow(const query::RankRows& rows, query::SpanId span);

// `span`: id of the span of a kernel, copy or range.
WorkFacts WorkFactsOf(const query::Snapshot& snapshot, const RunIndex& index, int32_t rank,
                      query::SpanId span);

// The same for a row of gpu_work.
WorkFacts FactsOfWork(const query::Snapshot& snapshot, const RunIndex& index, int32_t rank,
                      uint32_t row);

// Span of the first kernel or copy that this op run launched; none if none is known.
query::SpanId FirstWorkOf(const query::Snapshot& snapshot, const RunIndex& index, int32_t rank,
                          query::OpRunId op_run);

// The longest communication kernel in `range`, else the longest kernel; nullopt without a GPU or
// where it is too much to look at.
struct WorkId {
  query::SpanId id;
  int32_t rank = 0;
};
std::optional<WorkId> LongestWork(const query::Snapshot& snapshot, Range range);

}  // namespace shardscope::timeline
