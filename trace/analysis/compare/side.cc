#include "trace/analysis/compare/side.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/compare/delta.h"
#include "trace/analysis/op_share.h"
#include "trace/analysis/row_index.h"

namespace shardscope::analysis {
namespace {

constexpr size_t kStepsOfPart = 64;  // looked at at a time
constexpr int kMostLooked = 64;      // at so many stretches of compute behind a gather

StepPart PartOf(OpShare share) {
  switch (share) {
    case OpShare::kCompute:
      return StepPart::kCompute;
    case OpShare::kCommunication:
      return StepPart::kExposed;
    case OpShare::kCopy:
      return StepPart::kExposedCopy;
    case OpShare::kNone:
      break;
  }
  return StepPart::kIdle;
}

std::string WithoutGroup(const std::string& communicator) {
  return communicator.substr(0, communicator.find('/'));
}

UnitSet NamedUnits(const query::Snapshot& snapshot) {
  UnitSet units;
  for (const auto& [id, op] : snapshot.plan_ops) {
    if (!op.unit.empty()) units.insert(op.unit);
  }
  return units;
}

// A segment's name begins with that of its unit: "block0.mlp". Empty: it is of none of these.
std::string UnitOfSegment(const std::string& segment, const UnitSet& units) {
  std::string unit = segment;
  while (!unit.empty() && !units.contains(unit)) {
    const size_t dot = unit.rfind('.');
    unit.resize(dot == std::string::npos ? 0 : dot);
  }
  return unit;
}

// Fills a MeasuredSide from the op runs of its steps.
class Measuring {
 public:
  Measuring(const query::Snapshot& snapshot, const UnitSet& other_units, MeasuredSide* side)
      : snapshot_(snapshot), side_(*side), units_(NamedUnits(snapshot)) {
    units_.insert(other_units.begin(), other_units.end());
    for (size_t at = 0; at < side->steps.size(); ++at) {
      ordinals_[side->steps[at]] = static_cast<int32_t>(at);
    }
    is_middle_.resize(side->steps.size());
    for (const int32_t at : side->middle) is_middle_[static_cast<size_t>(at)] = true;
  }

  void Add(const StepIndex& step, Interval span) {
    const auto found = ordinals_.find(step.step);
    if (found == ordinals_.end()) return;
    ordinal_ = found->second;
    for (const PathPiece& piece : PathOf(step, span)) {
      const bool is_idle = piece.part == StepPart::kIdle;
      RowStep& row = RowOf(piece.run == nullptr ? nullptr : piece.run->op, is_idle);
      row.on_path_ns += piece.duration_ns;  // parts of a step whose sum does not overflow
      if (is_idle && piece.run != nullptr) NotePlace(step, *piece.run, true, piece.duration_ns);
    }
    for (const IndexedRun& run : step.runs) {
      if (ShareOf(*run.op) == OpShare::kNone) continue;
      RowStep& row = RowOf(run.op, false);
      ++row.count;
      AddCapped(run.run.ended_ns - run.run.started_ns, &row.busy_ns);
      NotePlace(step, run, false, run.run.ended_ns - run.run.started_ns);
      NoteUse(*run.op);
    }
    AddLeads(step);
  }

  // A step in which nothing ran.
  void AddIdle(int32_t step, int64_t step_ns) {
    ordinal_ = ordinals_.at(step);
    RowOf(nullptr, true).on_path_ns += step_ns;
  }

  void Finish() {
    std::sort(used_.begin(), used_.end());
    std::set<std::string> seen;
    for (const auto& [behind, schedule, op, unit] : used_) {
      if (seen.insert(unit).second) side_.units.push_back(unit);
    }
    for (auto& [key, steps] : side_.rows) Merge(&steps);
    for (const bool is_idle : {false, true}) {
      for (const auto& [id, longest] : longest_[is_idle ? 1 : 0]) {
        RowPlace& place = side_.places[KeyOf(longest.op, is_idle)];
        if (IsLonger(longest.place, place)) place = longest.place;
      }
    }
  }

 private:
  struct Longest {
    const query::PlanOp* op = nullptr;
    RowPlace place;
  };

  // Of two as long the one that was recorded first.
  static bool IsLonger(const RowPlace& a, const RowPlace& b) {
    if (a.length_ns != b.length_ns) return a.length_ns > b.length_ns;
    return a.op_run < b.op_run;
  }

  void NotePlace(const StepIndex& step, const IndexedRun& run, bool is_idle, int64_t length_ns) {
    Longest& longest = longest_[is_idle ? 1 : 0][run.op->id];
    longest.op = run.op;
    const RowPlace place{run.run.id, step.rank, step.step, length_ns};
    if (IsLonger(place, longest.place)) longest.place = place;
  }

  // The step's row of an op, or of the idle time before it.
  RowStep& RowOf(const query::PlanOp* op, bool is_idle) {
    const query::PlanOpId id = op == nullptr ? query::PlanOpId::None() : op->id;
    std::vector<RowStep>*& steps = rows_[is_idle ? 1 : 0][id];
    if (steps == nullptr) steps = &side_.rows[KeyOf(op, is_idle)];
    if (steps->empty() || steps->back().ordinal != ordinal_) {
      steps->push_back({.ordinal = ordinal_});
    }
    return steps->back();
  }

  RowKey KeyOf(const query::PlanOp* op, bool is_idle) const {
    if (op == nullptr) return {};
    RowKey key{is_idle ? StepPart::kIdle : PartOf(ShareOf(*op)), op->kind, op->phase, UnitOf(*op),
               ""};
    if (key.part == StepPart::kExposed) key.communicator = WithoutGroup(op->communicator);
    return key;
  }

  std::string UnitOf(const query::PlanOp& op) const {
    if (!op.unit.empty()) return op.unit;
    std::string unit = UnitOfSegment(op.segment, units_);
    return unit.empty() ? op.segment : unit;
  }

  void NoteUse(const query::PlanOp& op) {
    if (!noted_.insert(op.id).second) return;
    std::string unit = UnitOf(op);
    if (unit.empty()) return;
    used_.emplace_back(op.phase != Name(words::Phase::kForward), op.schedule, op.op,
                       std::move(unit));
  }

  // Rows of several ranks as one row a step.
  static void Merge(std::vector<RowStep>* steps) {
    std::stable_sort(steps->begin(), steps->end(),
                     [](const RowStep& a, const RowStep& b) { return a.ordinal < b.ordinal; });
    size_t kept = 0;
    for (const RowStep& row : *steps) {
      if (kept == 0 || (*steps)[kept - 1].ordinal != row.ordinal) {
        (*steps)[kept++] = row;
        continue;
      }
      RowStep& sum = (*steps)[kept - 1];
      sum.count += row.count;
      sum.on_path_ns += row.on_path_ns;
      AddCapped(row.busy_ns, &sum.busy_ns);
    }
    steps->resize(kept);
  }

  // Compute of one unit and phase, in the order in which the host issued it.
  struct Stretch {
    int64_t issued_ns = 0;
    const query::PlanOp* op = nullptr;
  };

  void AddLeads(const StepIndex& step) {
    if (!is_middle_[static_cast<size_t>(ordinal_)]) return;
    std::vector<Stretch> compute;
    for (const IndexedRun& run : step.runs) {
      if (run.op->category == query::Category::kCompute) {
        compute.push_back({run.run.issued_ns, run.op});
      }
    }
    std::stable_sort(compute.begin(), compute.end(), [](const Stretch& a, const Stretch& b) {
      return std::pair(a.issued_ns, a.op->op) < std::pair(b.issued_ns, b.op->op);
    });
    for (const IndexedRun& run : step.runs) {
      if (!query::IsCommunication(run.op->op_class)) continue;
      const PhaseOfUnit where(UnitOf(*run.op), run.op->phase);
      AddCapped(std::max<int64_t>(run.op->wire_bytes, 0), &side_.sent_bytes[where]);
      if (run.op->op_class == query::OpClass::kAllGather) AddLead(compute, run, where);
    }
  }

  // How many other units the host issued between the gather and the compute that it is for.
  void AddLead(const std::vector<Stretch>& compute, const IndexedRun& gather,
               const PhaseOfUnit& where) {
    auto next = std::partition_point(compute.begin(), compute.end(), [&](const Stretch& stretch) {
      return stretch.issued_ns < gather.run.issued_ns;
    });
    std::set<std::string> between;
    for (int i = 0; i < kMostLooked && next != compute.end(); ++i, ++next) {
      if (next->op->phase != where.second) return;
      std::string unit = UnitOf(*next->op);
      if (unit == where.first) {
        const size_t lead = std::min<size_t>(between.size(), GatherLead::kMost);
        ++side_.leads[where].counts[lead];
        return;
      }
      between.insert(std::move(unit));
    }
  }

  const query::Snapshot& snapshot_;
  MeasuredSide& side_;
  UnitSet units_;                                  // that ops name, here or in the other run
  std::unordered_map<int32_t, int32_t> ordinals_;  // by step
  std::vector<bool> is_middle_;                    // by ordinal
  int32_t ordinal_ = 0;                            // of the step that is looked at
  std::array<std::unordered_map<query::PlanOpId, std::vector<RowStep>*>, 2> rows_;
  std::array<std::unordered_map<query::PlanOpId, Longest>, 2> longest_;  // of ops; before them
  std::set<query::PlanOpId> noted_;
  std::vector<std::tuple<bool, query::ScheduleId, int32_t, std::string>> used_;
};

using StepKey = std::pair<int32_t, int32_t>;  // step, rank

// The finished steps of the scope, and their times. An error where they cannot be added up.
void TakeSteps(const std::vector<StepBreakdown>& breakdowns, const ScopedSteps& scope,
               int32_t first, MeasuredSide* side) {
  std::set<int32_t> ranks;
  for (const StepBreakdown& row : breakdowns) ranks.insert(row.rank);
  side->num_ranks = static_cast<int>(ranks.size());
  if (breakdowns.empty()) {
    side->problem = "no step is finished";
    return;
  }
  struct Sum {
    int64_t step_ns = 0;
    int64_t tokens = 0;
    int num_ranks = 0;
  };
  std::map<int32_t, Sum> sums;
  int64_t all_ns = 0;
  for (const StepBreakdown& row : breakdowns) {
    if (row.step < first || row.step > scope.last) continue;
    Sum& sum = sums[row.step];
    ++sum.num_ranks;
    if (__builtin_add_overflow(all_ns, row.step_ns, &all_ns)) {
      side->problem = "its times are too large to be added up, as those of a damaged file";
      return;
    }
    sum.step_ns += row.step_ns;
    AddCapped(std::max<int64_t>(row.tokens, 0), &sum.tokens);
  }
  for (const auto& [step, sum] : sums) {
    if (sum.num_ranks != side->num_ranks) continue;
    side->steps.push_back(step);
    side->step_ns.push_back(sum.step_ns);
    side->tokens.push_back(sum.tokens);
  }
  if (side->steps.empty()) side->problem = "no step of it is finished by all ranks";
}

}  // namespace

int GatherLead::Median() const {
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  int64_t below = 0;
  for (int lead = 0; lead < kMost; ++lead) {
    below += counts[static_cast<size_t>(lead)];
    if (2 * below >= all) return lead;
  }
  return kMost;
}

UnitSet UnitsOfSegments(const query::Snapshot& snapshot) {
  UnitSet units = NamedUnits(snapshot);
  const bool hold_segments = std::ranges::any_of(snapshot.plan_ops, [&](const auto& entry) {
    return !UnitOfSegment(entry.second.segment, units).empty();
  });
  return hold_segments ? units : UnitSet();
}

MeasuredSide Measure(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& breakdowns,
                     const ScopedSteps& scope, const UnitSet& other_units) {
  MeasuredSide side;
  TakeSteps(breakdowns, scope, snapshot.IsImported() ? scope.first : scope.first_timed, &side);
  if (!side.problem.empty()) return side;
  side.middle = MiddleSteps(side.step_ns);
  std::map<StepKey, Interval> spans;
  const std::set<int32_t> steps(side.steps.begin(), side.steps.end());
  for (const StepBreakdown& row : breakdowns) {
    if (steps.contains(row.step)) spans[{row.step, row.rank}] = {row.start_ns, row.end_ns};
  }
  Measuring measuring(snapshot, other_units, &side);
  for (size_t first = 0; first < side.steps.size(); first += kStepsOfPart) {
    const size_t last = std::min(first + kStepsOfPart, side.steps.size()) - 1;
    for (const StepIndex& step : IndexSteps(snapshot, side.steps[first], side.steps[last])) {
      const auto span = spans.find({step.step, step.rank});
      if (span == spans.end()) continue;
      measuring.Add(step, span->second);
      spans.erase(span);
    }
  }
  for (const auto& [key, span] : spans) {
    measuring.AddIdle(key.first, span.end_ns - span.start_ns);
  }
  measuring.Finish();
  return side;
}

}  // namespace shardscope::analysis
