#include "trace/analysis/explain/critical_path.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "trace/analysis/append.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/derived.h"
#include "trace/analysis/names.h"
#include "trace/analysis/row_index.h"

namespace shardscope::analysis {
namespace {

// The runs of one rank's step on each track, by when they ended.
using RunsByEnd = std::map<query::TrackId, std::vector<const IndexedRun*>>;

RunsByEnd SortByEnd(const StepIndex& step) {
  RunsByEnd by_end;
  for (const IndexedRun& run : step.runs) by_end[run.run.track].push_back(&run);
  for (auto& [track, runs] : by_end) {
    std::stable_sort(runs.begin(), runs.end(), [](const IndexedRun* a, const IndexedRun* b) {
      return a->run.ended_ns < b->run.ended_ns;
    });
  }
  return by_end;
}

// One step of all ranks.
struct GroupStep {
  bool host_computes = false;  // imported, without a device: what issues an op computes before
  std::map<int32_t, const StepIndex*> ranks;
};

PathKind KindOf(const query::PlanOp& op) {
  switch (op.category) {
    case query::Category::kCompute:
      return PathKind::kCompute;
    case query::Category::kOptimizer:
      return PathKind::kOptimizer;
    case query::Category::kCommunication:
      return PathKind::kTransfer;
    case query::Category::kCopy:
      return PathKind::kCopy;
    case query::Category::kHost:
      return PathKind::kHost;
  }
  return PathKind::kHost;
}

// The last run of a track that had ended at `time_ns` and had begun before.
const IndexedRun* LastEnded(const std::vector<const IndexedRun*>& runs, int64_t time_ns) {
  auto at = std::upper_bound(
      runs.begin(), runs.end(), time_ns,
      [](int64_t time, const IndexedRun* run) { return time < run->run.ended_ns; });
  while (at != runs.begin()) {
    --at;
    if ((*at)->run.started_ns < time_ns) return *at;
  }
  return nullptr;
}

// Walks one step from its end.
class PathWalk {
 public:
  PathWalk(const GroupStep& step, int64_t start_ns, std::vector<PathPart>* parts)
      : step_(step), start_ns_(start_ns), parts_(parts) {}

  void Walk(int32_t rank, int64_t end_ns) {
    time_ns_ = end_ns;
    Enter(rank);
    const IndexedRun* run = nullptr;
    for (const auto& [track, runs] : *by_end_) Later(LastEnded(runs, time_ns_), &run);
    Gap(run, PathKind::kHost, nullptr);
    // Each turn goes back in time.
    while (run != nullptr && time_ns_ > start_ns_) run = Pass(*run);
    Emit(start_ns_, PathKind::kHost, nullptr);
  }

 private:
  static void Later(const IndexedRun* run, const IndexedRun** last) {
    if (run == nullptr) return;
    if (*last == nullptr || run->run.ended_ns > (*last)->run.ended_ns) *last = run;
  }

  // A path goes through few of many ranks: only theirs are sorted.
  void Enter(int32_t rank) {
    rank_ = step_.ranks.at(rank);
    const auto [sorted, is_new] = sorted_.try_emplace(rank);
    if (is_new) sorted->second = SortByEnd(*rank_);
    by_end_ = &sorted->second;
  }

  // The stretch from `from_ns` to what was reached so far.
  // `run`: that ran, or had to wait; nullptr: the step ended.
  void Emit(int64_t from_ns, PathKind kind, const IndexedRun* run) {
    from_ns = std::max(from_ns, start_ns_);
    if (from_ns >= time_ns_) return;
    PathPart& part = parts_->emplace_back();
    part.step = rank_->step;
    part.rank = rank_->rank;
    part.kind = kind;
    part.name = "end";
    if (run != nullptr) {
      part.op_run = run->run.id;
      part.name = ShortName(*run->op);
      const bool is_recompute = run->op->op_class == query::OpClass::kRecompute;
      part.phase = is_recompute ? std::string(Name(query::OpClass::kRecompute)) : run->op->phase;
    }
    part.start_ns = from_ns;
    part.end_ns = time_ns_;
    time_ns_ = from_ns;
  }

  void Gap(const IndexedRun* before, PathKind kind, const IndexedRun* waited) {
    Emit(before == nullptr ? start_ns_ : before->run.ended_ns, kind, waited);
  }

  // Goes through one run and to what it followed; nullptr: to nothing.
  const IndexedRun* Pass(const IndexedRun& passed) {
    const IndexedRun* run = &passed;
    if (const CollectiveRun* const row = run->collective) {
      Emit(row->last_arrival_ns, PathKind::kTransfer, run);
      run = GoToLastRank(*row, run);
    }
    Emit(run->run.started_ns, KindOf(*run->op), run);
    return Before(*run);
  }

  // What the thread does that issues ops.
  bool IsOfHost(const query::PlanOp& op) const {
    return op.category == query::Category::kHost ||
           (step_.host_computes && op.category != query::Category::kCommunication);
  }

  const IndexedRun* GoToLastRank(const CollectiveRun& row, const IndexedRun* run) {
    const auto other = step_.ranks.find(row.last_rank);
    if (row.last_rank == rank_->rank || other == step_.ranks.end()) return run;
    for (const IndexedRun& candidate : other->second->runs) {
      if (candidate.run.id != row.last_op_run) continue;
      // Clocks of several processes agree only up to a residual.
      if (candidate.run.started_ns > time_ns_) return run;
      Enter(row.last_rank);
      return &candidate;
    }
    return run;
  }

  // What `run` had to wait for: what blocked it, what ran on its stream before, or the host, which
  // issued it late.
  const IndexedRun* Before(const IndexedRun& run) {
    if (run.run.slot_wait_ns > 0)
      Emit(run.run.started_ns - run.run.slot_wait_ns, PathKind::kSlot, &run);
    const IndexedRun* before = nullptr;
    Consider(BlockerOf(*rank_, run), run, &before);
    Consider(LastOfTrack(run), run, &before);
    const int64_t ready_ns = before == nullptr ? start_ns_ : before->run.ended_ns;
    const int64_t issued_ns = std::min(run.run.issued_ns, time_ns_);
    if (issued_ns <= ready_ns) {
      Gap(before, PathKind::kWait, &run);
      return before;
    }
    Emit(issued_ns, PathKind::kWait, &run);
    before = BeforeIssue(run);
    Gap(before, PathKind::kHost, &run);
    return before;
  }

  // What came last before the host issued `run`: what it did or waited for, or what ran on the
  // stream.
  const IndexedRun* BeforeIssue(const IndexedRun& run) const {
    const IndexedRun* before = nullptr;
    for (const auto& [track, runs] : *by_end_) {
      if (!runs.empty() && IsOfHost(*runs.front()->op)) {
        Consider(LastEnded(runs, time_ns_), run, &before);
      }
    }
    Consider(LastOfTrack(run), run, &before);
    const IndexedRun* waited_for = LastHostWait(*rank_, run);
    if (waited_for == nullptr) return before;
    Consider(waited_for, run, &before);
    // An op whose stream had to wait for the same as the host does not carry the host's wait.
    for (const query::PlanOpId predecessor : run.op->predecessors) {
      Consider(rank_->Find(predecessor), run, &before);
    }
    return before;
  }

  // Whether `candidate` was over last of those before what was reached.
  void Consider(const IndexedRun* candidate, const IndexedRun& run,
                const IndexedRun** before) const {
    if (candidate == nullptr || candidate == &run) return;
    if (candidate->run.ended_ns > time_ns_ || candidate->run.started_ns >= time_ns_) return;
    Later(candidate, before);
  }

  const IndexedRun* LastOfTrack(const IndexedRun& run) const {
    const auto track = by_end_->find(run.run.track);
    return track == by_end_->end() ? nullptr : LastEnded(track->second, time_ns_);
  }

  const GroupStep& step_;
  const int64_t start_ns_;
  std::vector<PathPart>* parts_;
  std::map<int32_t, RunsByEnd> sorted_;  // by rank
  const StepIndex* rank_ = nullptr;      // where the path is
  const RunsByEnd* by_end_ = nullptr;    // of that rank
  int64_t time_ns_ = 0;                  // reached so far
};

void AppendStep(const GroupStep& step, std::vector<PathPart>* parts) {
  int64_t start_ns = INT64_MIN;
  const StepIndex* last = nullptr;
  for (const auto& [rank, index] : step.ranks) {
    start_ns = std::max(start_ns, index->start_ns);
    if (last == nullptr || index->end_ns > last->end_ns) last = index;
  }
  const size_t begin = parts->size();
  PathWalk(step, start_ns, parts).Walk(last->rank, last->end_ns);
  std::reverse(parts->begin() + static_cast<std::ptrdiff_t>(begin), parts->end());
}

std::vector<PathShare> SharesOf(const std::vector<PathPart>& parts) {
  using Key = std::tuple<int32_t, int32_t, PathKind, std::string>;
  std::map<Key, int64_t> sums;
  for (const PathPart& part : parts) {
    std::string name;
    if (part.kind == PathKind::kCompute) name = part.phase;
    if (part.kind == PathKind::kTransfer) name = part.name;
    sums[{part.step, part.rank, part.kind, std::move(name)}] += part.end_ns - part.start_ns;
  }
  std::vector<PathShare> shares;
  for (const auto& [key, path_ns] : sums) {
    const auto& [step, rank, kind, name] = key;
    shares.push_back({step, rank, kind, name, path_ns});
  }
  return shares;
}

}  // namespace

std::vector<PathPart> CriticalPath(const query::Snapshot& snapshot, int first_step, int last_step) {
  std::vector<PathPart> parts;
  for (const auto& [first, last] : StepRanges(snapshot, first_step, last_step)) {
    Append(CriticalPath(StepRows(snapshot, first, last)), &parts);
  }
  return parts;
}

std::vector<PathPart> CriticalPath(const StepRows& rows) {
  std::vector<PathPart> parts;
  std::map<int32_t, GroupStep> steps;
  for (const StepIndex& index : rows.steps) {
    if (index.finished) steps[index.step].ranks[index.rank] = &index;
  }
  const query::Snapshot& snapshot = rows.snapshot;
  const bool has_device = std::ranges::any_of(
      snapshot.ranks, [](const query::RankRows& rank) { return !rank.gpu_work.empty(); });
  for (auto& [number, step] : steps) {
    step.host_computes = snapshot.IsImported() && !has_device;
    if (step.ranks.size() == snapshot.ranks.size()) AppendStep(step, &parts);
  }
  return parts;
}

StepPath PathOfStep(const query::Snapshot& snapshot, int32_t step) {
  StepPath path{step, CriticalPath(snapshot, step, step), {}};
  path.groups = GroupPath(SharesOf(path.parts));
  return path;
}

std::vector<PathShare> PathShares(const query::Snapshot& snapshot, int first_step, int last_step) {
  if (snapshot.derived) return DerivedPathShares(snapshot, first_step, last_step);
  return SharesOf(CriticalPath(snapshot, first_step, last_step));
}

std::vector<PathShare> PathShares(const StepRows& rows) { return SharesOf(CriticalPath(rows)); }

std::vector<PathGroup> GroupPath(const std::vector<PathShare>& shares) {
  std::map<std::pair<PathKind, std::string>, double> sums;
  std::set<int32_t> steps;
  double total_ns = 0;
  for (const PathShare& share : shares) {
    sums[{share.kind, share.name}] += static_cast<double>(share.path_ns);
    total_ns += static_cast<double>(share.path_ns);
    steps.insert(share.step);
  }
  std::vector<PathGroup> groups;
  for (const auto& [key, sum] : sums) {
    groups.push_back(
        {key.first, key.second, sum / static_cast<double>(steps.size()), sum / total_ns});
  }
  std::stable_sort(groups.begin(), groups.end(), [](const PathGroup& a, const PathGroup& b) {
    return a.ns_per_step > b.ns_per_step;
  });
  return groups;
}

}  // namespace shardscope::analysis
