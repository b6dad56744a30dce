// Losses: what each step spends on something else than compute, by its reason. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/explain/front.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/base/enum_count.h"

namespace shardscope::analysis {

enum class LossKind : uint8_t {
  kSlowRank,       // one rank holds up the others (Front)
  kUnevenRanks,    // ranks wait for one another, in turn
  kLateIssue,      // of a collective
  kQueued,         // behind another collective
  kSlowTransfer,   // takes longer than the compute it hides under, or all of them than all compute
  kFirstGather,    // nothing could hide it
  kTail,           // likewise, of the last reduction
  kOnPath,         // likewise, of ranks that share a layer's work
  kCommunication,  // exposed, of no cause that is known
  kBubble,
  kSlot,  // more ranks than cores
  kData,  // until the first work of the step was issued
  kHost,  // the device had nothing to do
  kCopy,
};
inline constexpr int kNumLossKinds = kCountOf<LossKind>;
// "slow_rank", "uneven_ranks", "late_issue", ...
std::string_view Name(LossKind kind);

struct Loss {
  LossKind kind = LossKind::kHost;
  double ns_per_step = 0;       // mean over ranks and steps; of kSlowRank what the group loses
  std::vector<StallGroup> ops;  // its dearest stalls, at most 3
  int32_t rank = -1;            // kSlowRank: which; else of the dearest stall; -1: no single one
  int32_t step = -1;            // the worst
  std::string stage;            // kSlowRank: where most of it; empty: all over the step
};

struct Losses {
  double step_ns = 0;  // mean over ranks and steps, as the three below
  double compute_ns = 0;
  double communication_ns = 0;
  double lost_ns = 0;        // step - compute: all losses but kSlowRank add up to it
  double most_lost_ns = 0;   // by one rank, mean over its steps
  double idle_slot_ns = 0;   // waiting for a compute slot while nothing ran
  double recomputed = 0;     // share of the critical path that computes again what was not kept
  std::vector<Loss> losses;  // dearest first
};

// `rows`: the steps that count; `stalls`: all groups of these steps. `steps_begin`: they are those
// of the program, which its data come before; else only what was recorded.
Losses MakeLosses(const std::vector<StepBreakdown>& rows, const std::vector<StallGroup>& stalls,
                  const Front& front, bool steps_begin = true);

}  // namespace shardscope::analysis
