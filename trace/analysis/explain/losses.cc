#include "trace/analysis/explain/losses.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace shardscope::analysis {
namespace {

constexpr size_t kListedOps = 3;

using ByKind = std::array<Loss, kNumLossKinds>;

LossKind KindOf(StallCause cause) {
  switch (cause) {
    case StallCause::kFirstGather:
      return LossKind::kFirstGather;
    case StallCause::kQueuedBehind:
      return LossKind::kQueued;
    case StallCause::kLateRank:
      return LossKind::kUnevenRanks;
    case StallCause::kBubble:
      return LossKind::kBubble;
    case StallCause::kOnPath:
      return LossKind::kOnPath;
    case StallCause::kIssuedLate:
      return LossKind::kLateIssue;
    case StallCause::kSlowTransfer:
      return LossKind::kSlowTransfer;
    case StallCause::kTail:
      return LossKind::kTail;
    case StallCause::kSlot:
      return LossKind::kSlot;
    case StallCause::kOther:
      return LossKind::kCommunication;
  }
  return LossKind::kCommunication;
}

Loss& Of(LossKind kind, ByKind* losses) { return (*losses)[static_cast<size_t>(kind)]; }

// Groups come dearest first.
double AddStalls(const std::vector<StallGroup>& stalls, ByKind* losses) {
  double total_ns = 0;
  for (const StallGroup& group : stalls) {
    Loss& loss = Of(KindOf(group.cause), losses);
    loss.ns_per_step += group.ns_per_step;
    total_ns += group.ns_per_step;
    if (loss.ops.empty()) {
      loss.rank = group.worst.rank;
      loss.step = group.worst.step;
    }
    if (loss.ops.size() < kListedOps) loss.ops.push_back(group);
  }
  return total_ns;
}

// What no stall explains: copies, gaps in which the device waited for the host, and the rest of
// what communication shows.
void AddRest(double rest_ns, double exposed_copy_ns, double idle_ns, double data_ns,
             ByKind* losses) {
  const auto take = [&rest_ns, losses](LossKind kind, double at_most_ns) {
    const double taken_ns = std::clamp(at_most_ns, 0.0, rest_ns);
    Of(kind, losses).ns_per_step += taken_ns;
    rest_ns -= taken_ns;
    return taken_ns;
  };
  take(LossKind::kCopy, exposed_copy_ns);
  const double data_taken_ns = take(LossKind::kData, std::min(data_ns, idle_ns));
  take(LossKind::kHost, idle_ns - data_taken_ns);
  take(LossKind::kCommunication, rest_ns);
}

// No order of collectives hides more communication than there is compute: what is exposed beyond
// that is the transfers' own time, however they queue.
void TakeWhatCannotBeHidden(double exposed_ns, double communication_ns, double compute_ns,
                            ByKind* losses) {
  const double unhideable_ns = std::max(0.0, communication_ns - compute_ns);
  Loss& late = Of(LossKind::kLateIssue, losses);
  Loss& queued = Of(LossKind::kQueued, losses);
  const double ordered_ns = late.ns_per_step + queued.ns_per_step;
  // Stalls have more than what is exposed: the time in which no collective ran either, for which no
  // transfer is to blame.
  const double hideable_ns = std::max(0.0, exposed_ns - unhideable_ns);
  const double moved_ns = std::min(ordered_ns - hideable_ns, unhideable_ns);
  if (moved_ns <= 0) return;
  const double kept = 1 - moved_ns / ordered_ns;
  Loss& transfer = Of(LossKind::kSlowTransfer, losses);
  for (Loss* loss : {&queued, &late}) {
    transfer.ns_per_step += loss->ns_per_step * (1 - kept);
    loss->ns_per_step *= kept;
    if (transfer.ops.empty()) {
      transfer.ops = loss->ops;
      transfer.rank = loss->rank;
      transfer.step = loss->step;
      for (StallGroup& group : transfer.ops) group.ns_per_step *= 1 - kept;
    }
    for (StallGroup& group : loss->ops) group.ns_per_step *= kept;
  }
}

void AddSlowRank(const Front& front, ByKind* losses) {
  for (const RankDelay& delay : front.delays) {
    if (!delay.is_lasting) continue;
    // What the rank costs elsewhere goes with it.
    DelayCost cost = CostOfDelays(front, {delay.rank});
    Loss& loss = Of(LossKind::kSlowRank, losses);
    loss.ns_per_step = cost.ns_per_step;
    loss.rank = delay.rank;
    loss.step = delay.worst_step;
    loss.stage = std::move(cost.stage);
    return;
  }
}

double DataNs(const Front& front) {
  double data_ns = 0;
  for (const FrontPart& part : front.parts) {
    if (part.stage == kDataStage) data_ns += static_cast<double>(part.front_ns);
  }
  return front.num_steps == 0 ? 0 : data_ns / front.num_steps;
}

}  // namespace

std::string_view Name(LossKind kind) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"slow_rank", "uneven_ranks", "late_issue", "queued", "slow_transfer", "first_gather", "tail",
       "on_path", "communication", "bubble", "slot", "data", "host", "copy"});
  static_assert(kNames.size() == kNumLossKinds);
  return kNames[static_cast<size_t>(kind)];
}

Losses MakeLosses(const std::vector<StepBreakdown>& rows, const std::vector<StallGroup>& stalls,
                  const Front& front, bool steps_begin) {
  Losses result;
  if (rows.empty()) return result;
  double idle_ns = 0;
  double exposed_copy_ns = 0;
  double exposed_ns = 0;
  std::map<int32_t, std::pair<double, int>> lost_by;  // sum and steps of each rank
  const auto count = static_cast<double>(rows.size());
  for (const StepBreakdown& row : rows) {
    result.step_ns += static_cast<double>(row.step_ns) / count;
    result.compute_ns += static_cast<double>(row.time.compute_ns) / count;
    idle_ns += static_cast<double>(row.time.idle_ns) / count;
    exposed_ns += static_cast<double>(row.time.exposed_ns) / count;
    exposed_copy_ns += static_cast<double>(row.time.exposed_copy_ns) / count;
    result.idle_slot_ns += static_cast<double>(row.slot_wait_ns) / count;
    result.communication_ns += static_cast<double>(row.time.communication_ns) / count;
    auto& [lost_ns, steps] = lost_by[row.rank];
    lost_ns += static_cast<double>(row.step_ns - row.time.compute_ns);
    ++steps;
  }
  for (const auto& [rank, lost] : lost_by)
    result.most_lost_ns = std::max(result.most_lost_ns, lost.first / lost.second);
  result.lost_ns = result.step_ns - result.compute_ns;
  ByKind losses;
  for (int i = 0; i < kNumLossKinds; ++i) losses[static_cast<size_t>(i)].kind = LossKind(i);
  const double stalled_ns = AddStalls(stalls, &losses);
  AddRest(std::max(0.0, result.lost_ns - stalled_ns), exposed_copy_ns, idle_ns,
          steps_begin ? DataNs(front) : 0, &losses);
  TakeWhatCannotBeHidden(exposed_ns, result.communication_ns, result.compute_ns, &losses);
  AddSlowRank(front, &losses);
  for (Loss& loss : losses) {
    if (loss.ns_per_step > 0) result.losses.push_back(std::move(loss));
  }
  std::stable_sort(result.losses.begin(), result.losses.end(),
                   [](const Loss& a, const Loss& b) { return a.ns_per_step > b.ns_per_step; });
  return result;
}

}  // namespace shardscope::analysis
