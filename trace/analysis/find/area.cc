#include "trace/analysis/find/area.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "trace/analysis/op_share.h"
#include "trace/analysis/row_index.h"
#include "trace/analysis/steps/time_split.h"
#include "trace/base/parallel.h"

namespace shardscope::analysis {
namespace {

using query::RankRows;
using query::Snapshot;

constexpr size_t kRowsBetweenLooks = 4096;  // at whether the answer is still wanted

// 0, 1, 2, 5, 10, 20, ... and the largest number.
std::vector<int64_t> BucketBounds() {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> bounds = {0};
  for (int64_t decade = 1; decade < kLargest / 10; decade *= 10) {
    for (const int64_t digit : {1, 2, 5}) bounds.push_back(digit * decade);
  }
  bounds.push_back(kLargest);
  return bounds;
}

class Histogram {
 public:
  void Add(int64_t duration_ns) {
    const auto above = std::upper_bound(bounds_.begin(), bounds_.end() - 1, duration_ns);
    ++counts_[static_cast<size_t>(above - bounds_.begin()) - 1];
  }

  std::vector<AreaBucket> Take() const {
    const auto any = [](int64_t count) { return count > 0; };
    const auto first = std::find_if(counts_.begin(), counts_.end(), any);
    const auto end = std::find_if(counts_.rbegin(), counts_.rend(), any).base();
    std::vector<AreaBucket> buckets;
    for (auto count = first; count < end; ++count) {
      const auto at = static_cast<size_t>(count - counts_.begin());
      buckets.push_back({bounds_[at], bounds_[at + 1], *count});
    }
    return buckets;
  }

 private:
  const std::vector<int64_t> bounds_ = BucketBounds();
  std::vector<int64_t> counts_ = std::vector<int64_t>(bounds_.size() - 1);
};

// What a name stands for in the table.
class Names {
 public:
  // Of a row of the table, in which all with this name are added up.
  size_t SlotOf(AreaKind what, const std::string& name, std::string_view kind) {
    const auto [slot, is_new] = slots_.try_emplace({what, name, std::string(kind)}, rows_.size());
    if (is_new) {
      rows_.push_back({.what = what, .name = name, .kind = std::string(kind)});
      durations_.emplace_back();
    }
    return slot->second;
  }

  void Add(size_t slot, int64_t duration_ns) {
    AreaName& row = rows_[slot];
    ++row.count;
    row.sum_ns += duration_ns;
    row.longest_ns = std::max(row.longest_ns, duration_ns);
    durations_[slot].push_back(static_cast<double>(duration_ns));
  }

  std::vector<AreaName> Take() {
    for (size_t at = 0; at < rows_.size(); ++at) {
      rows_[at].duration_ns = PercentilesOf(std::move(durations_[at]));
    }
    std::erase_if(rows_, [](const AreaName& row) { return row.count == 0; });
    std::sort(rows_.begin(), rows_.end(), [](const AreaName& a, const AreaName& b) {
      return std::tie(b.sum_ns, a.what, a.name, a.kind) <
             std::tie(a.sum_ns, b.what, b.name, b.kind);
    });
    return std::move(rows_);
  }

 private:
  std::map<std::tuple<AreaKind, std::string, std::string>, size_t> slots_;
  std::vector<AreaName> rows_;
  std::vector<std::vector<double>> durations_;
};

int64_t SharedNs(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  return TotalNs(Intersect(a, b));
}

// Most idle first.
void SortCauses(std::vector<AreaCause>* causes) {
  std::sort(causes->begin(), causes->end(), [](const AreaCause& a, const AreaCause& b) {
    return std::tie(b.idle_ns, b.exposed_ns, a.cause) < std::tie(a.idle_ns, a.exposed_ns, b.cause);
  });
}

// The stalls of a rank in the area.
struct StallTime {
  Interval time;
  StallCause cause = StallCause::kOther;
};

// When nothing of a rank ran, and when only what nothing hid.
struct Gaps {
  std::vector<Interval> idle;
  std::vector<Interval> exposed;
  std::vector<StallTime> stalls;
};

// Of damaged rows stalls may overlap: the earlier one has what they share, so that no time is
// counted twice.
std::vector<AreaCause> CausesOf(Gaps gaps) {
  std::stable_sort(
      gaps.stalls.begin(), gaps.stalls.end(),
      [](const StallTime& a, const StallTime& b) { return a.time.start_ns < b.time.start_ns; });
  std::map<StallCause, std::vector<Interval>> times;
  int64_t explained_ns = std::numeric_limits<int64_t>::min();
  for (const StallTime& stall : gaps.stalls) {
    times[stall.cause].push_back({std::max(stall.time.start_ns, explained_ns), stall.time.end_ns});
    explained_ns = std::max(explained_ns, stall.time.end_ns);
  }
  std::vector<AreaCause> causes;
  for (auto& [cause, intervals] : times) {
    const std::vector<Interval> stalled = Union(std::move(intervals));
    const AreaCause row{cause, SharedNs(stalled, gaps.idle), SharedNs(stalled, gaps.exposed)};
    if (row.idle_ns > 0 || row.exposed_ns > 0) causes.push_back(row);
  }
  SortCauses(&causes);
  return causes;
}

// What an op of the Schedule is to the area.
struct OpFacts {
  OpShare share = OpShare::kNone;
  size_t name = 0;  // its slot
};

class Measurer {
 public:
  Measurer(const Snapshot& snapshot, const AreaQuery& query, const AreaOptions& options)
      : snapshot_(snapshot), most_ops_(options.most_ops_for_causes), stop_(options.stop) {
    area_.query = query;
  }

  Area Run() {
    area_.complete = true;
    for (const RankRows& rows : snapshot_.ranks) {
      if (IsChosen(rows.rank)) MeasureRank(rows);
    }
    int64_t ops = 0;
    for (const AreaRank& rank : area_.ranks) ops += rank.count;
    area_.has_causes = ops <= most_ops_;
    if (area_.has_causes) FindStalls();
    if (stop_.stop_requested()) {
      Area stopped;
      stopped.stopped = true;
      return stopped;
    }
    for (AreaRank& rank : area_.ranks) rank.causes = CausesOf(std::move(gaps_[rank.rank]));
    area_.names = names_.Take();
    area_.histogram = histogram_.Take();
    return std::move(area_);
  }

 private:
  bool IsChosen(int32_t rank) const {
    const std::vector<int32_t>& ranks = area_.query.ranks;
    return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }

  // Calls visit(row, part) for each row that is in the area, with its part in it; less if it is
  // stopped. `time`: of a row.
  template <typename Row, typename Time, typename Visit>
  void ForEach(const query::RowList<Row>& rows, Time&& time, Visit&& visit) const {
    const Interval& area = area_.query.time;
    for (size_t first = 0; first < rows.size(); first += kRowsBetweenLooks) {
      if (stop_.stop_requested()) return;
      const size_t end = std::min(first + kRowsBetweenLooks, rows.size());
      for (size_t at = first; at < end; ++at) {
        const Interval whole = time(rows[at]);
        // What takes no time is in the area in which it begins.
        const bool ends_before = whole.end_ns <= area.start_ns && whole.start_ns < area.start_ns;
        if (whole.start_ns >= area.end_ns || ends_before) continue;
        const int64_t start_ns = std::max(whole.start_ns, area.start_ns);
        visit(rows[at],
              Interval{start_ns, std::max(start_ns, std::min(whole.end_ns, area.end_ns))});
      }
    }
  }

  OpFacts FactsOf(query::PlanOpId id) {
    const auto [facts, is_new] = ops_.try_emplace(id);
    const query::PlanOp* op = is_new ? snapshot_.FindPlanOp(id) : nullptr;
    if (op != nullptr) {
      facts->second = {ShareOf(*op), names_.SlotOf(AreaKind::kOp, op->name, op->kind)};
    }
    return facts->second;
  }

  // `name`: index into Snapshot::names. `kind`: none of a range.
  size_t SlotOf(int32_t name, std::optional<query::GpuWorkKind> kind) {
    const uint64_t low = kind ? static_cast<uint64_t>(*kind) + 1 : 0;
    const auto [slot, is_new] =
        slots_.try_emplace(uint64_t{static_cast<uint32_t>(name)} << 8 | low);
    if (is_new) {
      const bool known = name >= 0 && static_cast<size_t>(name) < snapshot_.names.size();
      slot->second = names_.SlotOf(kind ? AreaKind::kWork : AreaKind::kRange,
                                   known ? snapshot_.names[static_cast<size_t>(name)] : "",
                                   kind ? Name(*kind) : "range");
    }
    return slot->second;
  }

  // Counts it as time of its rank.
  void Count(OpShare share, const Interval& part, BusyTimes* times, AreaRank* rank) {
    const int64_t duration_ns = part.end_ns - part.start_ns;
    switch (share) {
      case OpShare::kNone:
        return;
      case OpShare::kCompute:
        times->compute.push_back(part);
        rank->compute.sum_ns += duration_ns;
        break;
      case OpShare::kCommunication:
        times->communication.push_back(part);
        rank->communication.sum_ns += duration_ns;
        break;
      case OpShare::kCopy:
        times->copy.push_back(part);
        rank->copy.sum_ns += duration_ns;
        break;
    }
    ++rank->count;
    histogram_.Add(duration_ns);
  }

  void TakeOps(const RankRows& rows, BusyTimes* times, AreaRank* rank) {
    const auto time = [](const query::OpRun& run) {
      return Interval{run.started_ns, run.ended_ns};
    };
    int32_t last_step = -1;
    ForEach(rows.op_runs, time, [&](const query::OpRun& run, const Interval& part) {
      const OpFacts facts = FactsOf(run.plan_op);
      if (facts.share == OpShare::kNone) return;
      Count(facts.share, part, times, rank);
      names_.Add(facts.name, part.end_ns - part.start_ns);
      if (run.step == last_step || run.step < 0) return;  // of an evaluation, which has no stalls
      last_step = run.step;
      steps_.insert(run.step);
    });
  }

  // Besides those of the ops: the area may lie between two ops, within one stall.
  void TakeSteps(const RankRows& rows) {
    const auto time = [](const query::Step& step) { return Interval{step.start_ns, step.end_ns}; };
    ForEach(rows.steps, time,
            [&](const query::Step& step, const Interval&) { steps_.insert(step.step); });
    // One that is not finished has no row yet.
    const bool any_finished = !rows.steps.empty();
    if (rows.op_runs.empty()) return;
    if (any_finished && area_.query.time.end_ns <= rows.steps.back().end_ns) return;
    const int32_t last = rows.op_runs.back().step;
    if (last >= 0 && !(any_finished && rows.steps.back().step >= last)) steps_.insert(last);
  }

  void TakeWork(const RankRows& rows, BusyTimes* times, AreaRank* rank) {
    const bool has_ops = !rows.op_runs.empty();
    const auto time = [](const query::GpuWork& work) {
      return Interval{work.start_ns, work.end_ns};
    };
    ForEach(rows.gpu_work, time, [&](const query::GpuWork& work, const Interval& part) {
      if (work.times != query::GpuTimes::kMeasured) return;
      names_.Add(SlotOf(work.name, work.kind), part.end_ns - part.start_ns);
      if (!has_ops) Count(ShareOf(work, nullptr), part, times, rank);
    });
  }

  void TakeRanges(const RankRows& rows) {
    const auto time = [](const query::Span& span) { return Interval{span.start_ns, span.end_ns}; };
    ForEach(rows.spans, time, [&](const query::Span& span, const Interval& part) {
      names_.Add(SlotOf(span.name, std::nullopt), part.end_ns - part.start_ns);
    });
  }

  void MeasureRank(const RankRows& rows) {
    AreaRank rank{.rank = rows.rank};
    BusyTimes times;
    TakeOps(rows, &times, &rank);
    TakeWork(rows, &times, &rank);
    TakeRanges(rows);
    TakeSteps(rows);
    if (stop_.stop_requested()) return;
    times.compute = Union(std::move(times.compute));
    times.communication = Union(std::move(times.communication));
    times.copy = Union(std::move(times.copy));
    const std::vector<Interval> busy = AllBusy(times);
    const TimeSplit split = SplitTime(times, busy, area_.length_ns());
    rank.compute.union_ns = split.compute_ns;
    rank.communication.union_ns = split.communication_ns;
    rank.copy.union_ns = split.copy_ns;
    rank.overlap_ns = split.overlap_ns;
    rank.exposed_ns = split.exposed_ns;
    rank.exposed_copy_ns = split.exposed_copy_ns;
    rank.idle_ns = split.idle_ns;
    gaps_[rows.rank] = {
        Subtract({area_.query.time}, busy), Subtract(times.communication, times.compute), {}};
    area_.ranks.push_back(std::move(rank));
    area_.complete = area_.complete && IsComplete(rows);
  }

  // A step that began behind the area is over: then all of the area has been recorded.
  bool IsComplete(const RankRows& rows) const {
    if (snapshot_.loading) return false;
    if (!query::MayGrow(snapshot_.state)) return true;
    return !rows.steps.empty() && rows.steps.back().start_ns >= area_.query.time.end_ns;
  }

  // In parts, one on each core: what finds the stalls takes memory for each op of their steps.
  void FindStalls() {
    const size_t cores = NumCores();
    for (auto step = steps_.begin(); step != steps_.end() && !stop_.stop_requested();) {
      std::vector<std::pair<int32_t, int32_t>> ranges;  // first and last step
      while (ranges.size() < cores && step != steps_.end()) {
        ranges.emplace_back(*step, *step);
        for (int i = 0; i < kStepsOfARange && step != steps_.end(); ++i) {
          if (*step > ranges.back().second + 1) break;  // all between would be looked at too
          ranges.back().second = *step++;
        }
      }
      std::vector<std::vector<Stall>> parts(ranges.size());
      ForEachIndex(parts.size(), [&](size_t part) {
        parts[part] = Stalls(snapshot_, ranges[part].first, ranges[part].second);
      });
      for (const std::vector<Stall>& part : parts) {
        for (const Stall& stall : part) TakeStall(stall);
      }
    }
  }

  void TakeStall(const Stall& stall) {
    const auto gaps = gaps_.find(stall.rank);
    if (gaps == gaps_.end()) return;
    const Interval& area = area_.query.time;
    const Interval part{std::max(stall.start_ns, area.start_ns),
                        std::min(stall.end_ns, area.end_ns)};
    if (part.start_ns < part.end_ns) gaps->second.stalls.push_back({part, stall.cause});
  }

  const Snapshot& snapshot_;
  const int64_t most_ops_;
  const std::stop_token stop_;
  Area area_;
  Names names_;
  Histogram histogram_;
  std::unordered_map<query::PlanOpId, OpFacts> ops_;
  std::unordered_map<uint64_t, size_t> slots_;  // in names_, by name and kind
  std::set<int32_t> steps_;                     // with stalls of which the area may have a part
  std::map<int32_t, Gaps> gaps_;                // by rank
};

}  // namespace

std::string_view Name(AreaKind what) {
  switch (what) {
    case AreaKind::kOp:
      break;
    case AreaKind::kWork:
      return "work";
    case AreaKind::kRange:
      return "range";
  }
  return "op";
}

int64_t AreaRank::unexplained_ns() const {
  int64_t unexplained_ns = idle_ns;
  for (const AreaCause& cause : causes) unexplained_ns -= cause.idle_ns;
  return unexplained_ns;
}

std::vector<AreaCause> SumOfCauses(const std::vector<AreaRank>& ranks) {
  std::map<StallCause, AreaCause> sums;
  for (const AreaRank& rank : ranks) {
    for (const AreaCause& cause : rank.causes) {
      AreaCause& sum = sums.try_emplace(cause.cause, AreaCause{cause.cause}).first->second;
      sum.idle_ns += cause.idle_ns;
      sum.exposed_ns += cause.exposed_ns;
    }
  }
  std::vector<AreaCause> causes;
  for (const auto& [cause, sum] : sums) causes.push_back(sum);
  SortCauses(&causes);
  return causes;
}

Area MeasureArea(const Snapshot& snapshot, const AreaQuery& query, const AreaOptions& options) {
  return Measurer(snapshot, query, options).Run();
}

}  // namespace shardscope::analysis
