// Stalls: where a rank's compute stream waited for communication or a core, with their cause; how
// early all-gathers are. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "trace/base/words.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

using words::StallCause;

// A gap of a rank's compute stream in front of a compute or optimizer op that waited for
// communication.
struct Stall {
  int32_t rank = 0;
  int32_t step = 0;
  query::OpRunId op_run;  // the op that waited
  std::string op_name;    // "B m0 block1.mlp backward"
  int64_t start_ns = 0;   // the compute stream ran dry
  int64_t end_ns = 0;     // the op, or the copy in front of it that waited, began
  int64_t stall_ns = 0;
  query::OpRunId waiting_op_run;                            // what began then: the op or that copy
  query::OpRunId blocking_op_run = query::OpRunId::None();  // the collective it waited for
  std::string blocking_name;                                // "B m0 block1 all_gather"
  std::string collective_kind;                              // its kind: "all_gather"
  std::string title;                                        // "AG block1 → B"
  StallCause cause = StallCause::kOther;
  std::string cause_object;  // short name of the op ("RS block2") or rank ("rank 1") that the cause
                             // names; may be empty
  std::string
      sentence;  // "all-gather queued behind RS block2" (English; the app translates by cause)
};

// Gaps shorter than this are launch costs, not stalls.
inline constexpr int64_t kSmallestStallNs = 20'000;

// In time order per rank. Waits for a compute slot are stalls of their own, with cause kSlot and
// without a blocking op.
std::vector<Stall> Stalls(const query::Snapshot& snapshot, int first_step, int last_step);
struct StepRows;  // row_index.h
std::vector<Stall> Stalls(const StepRows& rows);

// Stalls of the same place in the Schedule (same op, blocking op, cause), over ranks and steps,
// dearest first. Waits for a compute slot belong to no place: they are one group.
struct StallGroup {
  std::string op_name;
  std::string blocking_name;
  std::string collective_kind;
  std::string title;
  StallCause cause = StallCause::kOther;
  std::string cause_object;
  std::string sentence;
  int64_t total_ns = 0;
  double ns_per_step = 0;  // mean per rank and step
  int count = 0;
  Stall worst;
};
class StallGroups {
 public:
  void Add(const std::vector<Stall>& stalls);
  // Dearest first.
  std::vector<StallGroup> Sorted(int num_rank_steps) const;

 private:
  std::map<std::tuple<std::string, std::string, StallCause, std::string>, StallGroup> groups_;
};

// An all-gather and the first compute op that needs its result: slack = first use - end; negative =
// stall. A compute op that waited for the all-gather began after it, so its first use counts from
// when the compute stream ran dry in front of it: then it would have begun.
struct PrefetchSlack {
  bool found = false;
  query::OpRunId first_use_op_run = query::OpRunId::None();
  int64_t first_use_ns = 0;
  int64_t slack_ns = 0;
};
PrefetchSlack SlackOf(const query::Snapshot& snapshot, query::OpRunId all_gather_op_run,
                      int32_t rank);

}  // namespace shardscope::analysis
