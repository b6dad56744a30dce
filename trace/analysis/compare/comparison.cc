#include "trace/analysis/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "trace/analysis/compare/sentence.h"

namespace shardscope::analysis {
namespace {

struct Sides {
  MeasuredSide a;
  MeasuredSide b;
};

double RankSteps(const MeasuredSide& side) {
  return static_cast<double>(side.num_ranks) * static_cast<double>(side.middle.size());
}

SideTimes SideTimesOf(const std::vector<int64_t>& by_ordinal, const MeasuredSide& side) {
  return {by_ordinal, side.middle, side.num_ranks};
}

Delta DeltaBetween(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                   const Sides& sides) {
  return DeltaOf(SideTimesOf(a, sides.a), SideTimesOf(b, sides.b));
}

std::vector<int64_t> OnPath(const std::vector<RowStep>& row, const MeasuredSide& side) {
  std::vector<int64_t> sums(side.steps.size());
  for (const RowStep& step : row) sums[static_cast<size_t>(step.ordinal)] += step.on_path_ns;
  return sums;
}

std::vector<int64_t> OfPart(StepPart part, const MeasuredSide& side) {
  std::vector<int64_t> sums(side.steps.size());
  for (const auto& [key, row] : side.rows) {
    if (key.part != part) continue;
    for (const RowStep& step : row) sums[static_cast<size_t>(step.ordinal)] += step.on_path_ns;
  }
  return sums;
}

void AddCounts(const std::vector<RowStep>& row, const MeasuredSide& side, double* count,
               double* busy_ns) {
  const std::set<int32_t> middle(side.middle.begin(), side.middle.end());
  for (const RowStep& step : row) {
    if (!middle.contains(step.ordinal)) continue;
    *count += static_cast<double>(step.count) / RankSteps(side);
    *busy_ns += static_cast<double>(step.busy_ns) / RankSteps(side);
  }
}

class Rows {
 public:
  Rows(const Sides& sides, const UnitMatch& units, bool one_imported)
      : sides_(sides), units_(units), one_imported_(one_imported) {}

  std::vector<ComparedRow> Take() {
    for (const auto& [key, row] : sides_.a.rows) {
      places_[Common(key)].first.push_back(&row);
      const auto place = sides_.a.places.find(key);
      if (place == sides_.a.places.end()) continue;
      RowPlace& longest = places_of_a_[Common(key)];
      if (place->second.length_ns > longest.length_ns) longest = place->second;
    }
    for (const auto& [key, row] : sides_.b.rows) {
      RowKey in_a = Common(key);
      const auto unit = units_.name_in_a.find(key.unit);
      if (unit != units_.name_in_a.end()) in_a.unit = unit->second;
      places_[in_a].second.push_back(&row);
      if (in_a.unit != key.unit) b_units_[in_a] = key.unit;
    }
    std::vector<ComparedRow> rows;
    for (const auto& [key, lists] : places_) rows.push_back(RowOf(key, lists));
    SayWhereNextOpsRun(&rows);
    std::ranges::stable_sort(rows, [](const ComparedRow& a, const ComparedRow& b) {
      return std::abs(a.on_path.ns()) > std::abs(b.on_path.ns());
    });
    return rows;
  }

 private:
  using Lists =
      std::pair<std::vector<const std::vector<RowStep>*>, std::vector<const std::vector<RowStep>*>>;

  // Two programs call their groups differently.
  RowKey Common(RowKey key) const {
    if (one_imported_) key.communicator.clear();
    return key;
  }

  static std::vector<RowStep> Join(const std::vector<const std::vector<RowStep>*>& lists) {
    std::vector<RowStep> joined;
    for (const auto* list : lists) joined.insert(joined.end(), list->begin(), list->end());
    return joined;
  }

  static void SayWhereNextOpsRun(std::vector<ComparedRow>* rows) {
    std::set<RowKey> in_a;
    std::set<RowKey> in_b;
    for (const ComparedRow& row : *rows) {
      if (row.a_count > 0) in_a.insert(AsIdle(row.key));
      if (row.b_count > 0) in_b.insert(AsIdle(row.key));
    }
    for (ComparedRow& row : *rows) {
      // In front of the end of a step, or of an op of no row of its own.
      const RowKey key = AsIdle(row.key);
      if (row.key.part != StepPart::kIdle || (!in_a.contains(key) && !in_b.contains(key))) continue;
      row.a_has_next = in_a.contains(key);
      row.b_has_next = in_b.contains(key);
    }
  }

  // The row of idle time in front of the ops of a row.
  static RowKey AsIdle(RowKey key) {
    key.part = StepPart::kIdle;
    key.communicator.clear();
    return key;
  }

  ComparedRow RowOf(const RowKey& key, const Lists& lists) const {
    const std::vector<RowStep> a = Join(lists.first);
    const std::vector<RowStep> b = Join(lists.second);
    ComparedRow row;
    row.key = key;
    const auto unit = b_units_.find(key);
    if (unit != b_units_.end()) row.b_unit = unit->second;
    AddCounts(a, sides_.a, &row.a_count, &row.a_busy_ns);
    AddCounts(b, sides_.b, &row.b_count, &row.b_busy_ns);
    const auto place = places_of_a_.find(key);
    if (place != places_of_a_.end()) row.place = place->second;
    row.on_path = DeltaBetween(OnPath(a, sides_.a), OnPath(b, sides_.b), sides_);
    return row;
  }

  const Sides& sides_;
  const UnitMatch& units_;
  const bool one_imported_;
  std::map<RowKey, Lists> places_;
  std::map<RowKey, std::string> b_units_;
  std::map<RowKey, RowPlace> places_of_a_;
};

std::vector<ComparedWork> WorkByNames(const WorkByName& a, const WorkByName& b,
                                      const Sides& sides) {
  std::map<std::string, ComparedWork> by_name;
  for (const auto& [name, work] : a.names) {
    ComparedWork& row = by_name[name];
    row.a_count = static_cast<double>(work.count) / RankSteps(sides.a);
    row.a_ns = static_cast<double>(work.duration_ns) / RankSteps(sides.a);
  }
  for (const auto& [name, work] : b.names) {
    ComparedWork& row = by_name[name];
    row.b_count = static_cast<double>(work.count) / RankSteps(sides.b);
    row.b_ns = static_cast<double>(work.duration_ns) / RankSteps(sides.b);
  }
  std::vector<ComparedWork> rows;
  for (auto& [name, row] : by_name) {
    row.name = name;
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, [](const ComparedWork& x, const ComparedWork& y) {
    return std::abs(x.b_ns - x.a_ns) > std::abs(y.b_ns - y.a_ns);
  });
  return rows;
}

ComparedSide SideOf(const ComparedRun& run, const MeasuredSide& measured) {
  ComparedSide side;
  side.name = run.name;
  side.num_ranks = measured.num_ranks;
  side.num_steps = static_cast<int>(measured.steps.size());
  if (measured.steps.empty()) return side;
  side.first_step = measured.steps.front();
  side.last_step = measured.steps.back();
  side.step_ns = PerRank(SideTimesOf(measured.step_ns, measured));
  side.tokens = MeanOf(SideTimesOf(measured.tokens, measured)) * measured.num_ranks;
  side.knobs_turned = KnobsTurnedWithin(*run.snapshot, measured.steps);
  side.schedule = ScheduleOf(*run.snapshot, measured);
  side.peaks = PeaksOf(*run.snapshot, measured);
  return side;
}

}  // namespace

bool Comparison::DiffersInTokens() const {
  return step.a_ns > 0 && step.b_ns > 0 && DifferInTokens(a.tokens, b.tokens);
}

RowState StateOf(const ComparedRow& row) {
  const bool is_op = row.key.part != StepPart::kIdle;
  if (is_op ? row.a_count == 0 : !row.a_has_next) return RowState::kAdded;
  if (is_op ? row.b_count == 0 : !row.b_has_next) return RowState::kGone;
  const Shift& shift = row.on_path.shift;
  if (!shift.excludes_zero()) return RowState::kAlike;
  return shift.low_ns > 0 ? RowState::kSlower : RowState::kFaster;
}

Comparison Compare(const ComparedRun& a, const ComparedRun& b) {
  Comparison comparison;
  const UnitSet units_a = UnitsOfSegments(*a.snapshot);
  const UnitSet units_b = UnitsOfSegments(*b.snapshot);
  // A side whose units hold no segments, as DDP's buckets, has its compute in the other's units.
  const auto measure = [](const ComparedRun& run, const UnitSet& own, const UnitSet& others) {
    const std::vector<StepBreakdown> steps = Breakdowns(*run.snapshot);
    return Measure(*run.snapshot, steps, Resolve(run.scope, steps, run.snapshot->markers),
                   own.empty() ? others : UnitSet());
  };
  const Sides sides{measure(a, units_a, units_b), measure(b, units_b, units_a)};
  comparison.a = SideOf(a, sides.a);
  comparison.b = SideOf(b, sides.b);
  for (const auto& [side, name] : {std::pair(&sides.a, a.name), std::pair(&sides.b, b.name)}) {
    if (side->problem.empty()) continue;
    comparison.sentence = name + " cannot be compared: " + side->problem + ".";
    return comparison;
  }
  comparison.units = MatchUnits(sides.a.units, sides.b.units);
  comparison.step = DeltaBetween(sides.a.step_ns, sides.b.step_ns, sides);
  for (size_t at = 0; at < kNumStepParts; ++at) {
    const auto part = static_cast<StepPart>(at);
    comparison.parts[at] = DeltaBetween(OfPart(part, sides.a), OfPart(part, sides.b), sides);
  }
  comparison.histogram = HistogramOf(comparison.a.step_ns, comparison.b.step_ns);
  const bool one_imported = a.snapshot->IsImported() != b.snapshot->IsImported();
  comparison.rows = Rows(sides, comparison.units, one_imported).Take();
  comparison.settings = SettingDifferences(*a.snapshot, sides.a.steps, *b.snapshot, sides.b.steps);
  const WorkByName work_a = WorkOf(*a.snapshot, sides.a);
  const WorkByName work_b = WorkOf(*b.snapshot, sides.b);
  comparison.work_is_of_gpu = work_a.of_gpu && work_b.of_gpu;
  if (work_a.of_gpu == work_b.of_gpu) comparison.work = WorkByNames(work_a, work_b, sides);
  comparison.verdict = VerdictOf(comparison.step);
  comparison.sentence = SentenceOf(comparison);
  return comparison;
}

}  // namespace shardscope::analysis
