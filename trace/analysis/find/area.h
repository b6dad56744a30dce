// Area: what happened in a stretch of time, on some ranks: how their time divides, why they were
// idle, and what took how long. Pure functions over a Snapshot, the same for app and CLI.
//
// Time divides as that of a step does (steps/time_split.h): by a rank's ops, evaluations too, and,
// of a rank without ops, by the work of its GPU. Everything is cut at the borders.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/steps/breakdown.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/base/interval.h"
#include "trace/base/status.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct AreaQuery {
  Interval time;               // half-open
  std::vector<int32_t> ranks;  // empty: all

  bool operator==(const AreaQuery&) const = default;
};

// As people write it: "12.5s:13.1s" from the start of the run on, or the number of a step.
struct AreaText {
  std::optional<int32_t> step;
  Interval time;  // without a step; from the start of the run

  bool operator==(const AreaText&) const = default;
};
Result<AreaText> ParseArea(std::string_view text);

// In the run; of a step, from when the first of `ranks` (empty: all) began it to when the last
// ended it. Errors: nothing of the run is there, no such step or rank.
Result<AreaQuery> ResolveArea(const query::Snapshot& snapshot, const AreaText& text,
                              std::vector<int32_t> ranks);

struct AreaTime {
  int64_t union_ns = 0;  // in which any ran
  int64_t sum_ns = 0;    // of all
};

// Of a cause of stalls, in the gaps of compute that they are: nothing ran, or communication that
// nothing hid.
struct AreaCause {
  StallCause cause = StallCause::kOther;
  int64_t idle_ns = 0;
  int64_t exposed_ns = 0;
};

// compute.union + exposed + exposed_copy + idle == the length, always.
struct AreaRank {
  int32_t rank = 0;
  AreaTime compute;  // optimizer included
  AreaTime communication;
  AreaTime copy;
  int64_t overlap_ns = 0;
  int64_t exposed_ns = 0;
  int64_t exposed_copy_ns = 0;
  int64_t idle_ns = 0;
  int64_t count = 0;              // of ops that take time, or of GPU work
  std::vector<AreaCause> causes;  // most idle first; those of neither time are left out

  // Of the idle time, what no stall explains.
  int64_t unexplained_ns() const;
};

// Adds up what ranks spent by cause.
std::vector<AreaCause> SumOfCauses(const std::vector<AreaRank>& ranks);

enum class AreaKind : uint8_t { kOp, kWork, kRange };
std::string_view Name(AreaKind what);  // "op", "work", "range"

// What has one name, over the ranks.
struct AreaName {
  AreaKind what = AreaKind::kOp;
  std::string name;  // of ops in full
  std::string kind;  // of an op or of what a GPU did; "range"
  int64_t count = 0;
  int64_t sum_ns = 0;
  int64_t longest_ns = 0;
  Percentiles duration_ns;
};

// How many ops, or GPU work of ranks without ops, took from `from_ns` up to, not including, to_ns.
struct AreaBucket {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  int64_t count = 0;

  bool operator==(const AreaBucket&) const = default;
};

struct Area {
  bool stopped = false;     // before its end: the rest says nothing
  bool complete = false;    // no newer Snapshot of the run will change it
  bool has_causes = false;  // else AreaRank::causes were not looked for
  AreaQuery query;
  std::vector<AreaRank> ranks;  // as the Snapshot orders them
  // Dearest first. Ops, and GPU work and ranges that threads marked beside them, which no other
  // figure counts where a rank has ops.
  std::vector<AreaName> names;
  std::vector<AreaBucket> histogram;  // ascending, in steps of 1, 2, 5; without empty ends

  int64_t length_ns() const { return query.time.end_ns - query.time.start_ns; }
};

struct AreaOptions {
  // With more ops causes are not looked for, which takes several times as long as all else.
  int64_t most_ops_for_causes = std::numeric_limits<int64_t>::max();
  std::stop_token stop = {};  // looked at every few thousand rows
};

// Besides the result it takes 24 bytes for each thing in the area, while it runs.
Area MeasureArea(const query::Snapshot& snapshot, const AreaQuery& query,
                 const AreaOptions& options = {});

}  // namespace shardscope::analysis
