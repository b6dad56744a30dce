#include "trace/analysis/steps/breakdown.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "trace/analysis/checkpoints.h"
#include "trace/analysis/derived.h"
#include "trace/analysis/steps/breakdown_cache.h"
#include "trace/base/token_rate.h"

namespace shardscope::analysis {
namespace {

// Of whole runs: the intervals of all their ops at once would be hundreds of megabytes.
constexpr size_t kStepsAtATime = 64;

int64_t FieldOf(const StepBreakdown& row, int64_t StepBreakdown::*field) { return row.*field; }
int64_t FieldOf(const StepBreakdown& row, int64_t TimeSplit::*field) { return row.time.*field; }

template <typename Field>
Percentiles PercentilesOfField(const std::vector<const StepBreakdown*>& rows, Field field) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const StepBreakdown* row : rows) values.push_back(static_cast<double>(FieldOf(*row, field)));
  return PercentilesOf(std::move(values));
}

template <typename Field>
double Sum(const std::vector<const StepBreakdown*>& rows, Field field) {
  double sum = 0;
  for (const StepBreakdown* row : rows) sum += static_cast<double>(FieldOf(*row, field));
  return sum;
}

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Of each step, over the ranks that have a loss: in a pipeline those of the last stage. Steps in
// which no token counts have none.
std::map<int32_t, double> MeanLosses(const std::vector<const StepBreakdown*>& rows) {
  struct OfStep {
    double loss = 0;
    int count = 0;
  };
  std::map<int32_t, OfStep> sums;
  for (const StepBreakdown* row : rows) {
    if (row->tokens == 0) continue;
    OfStep& sum = sums[row->step];
    sum.loss += row->loss;
    ++sum.count;
  }
  std::map<int32_t, double> losses;
  for (const auto& [step, sum] : sums) {
    if (sum.loss != 0) losses[step] = sum.loss / sum.count;
  }
  return losses;
}

// Steps that all `num_ranks` ranks finished, ascending.
std::vector<int32_t> CompleteSteps(const std::vector<const StepBreakdown*>& rows, int num_ranks) {
  std::map<int32_t, int> ranks_of_step;
  for (const StepBreakdown* row : rows) ++ranks_of_step[row->step];
  std::vector<int32_t> steps;
  for (const auto& [step, ranks] : ranks_of_step) {
    if (ranks == num_ranks) steps.push_back(step);
  }
  return steps;
}

}  // namespace

int32_t TimedFrom(const query::Snapshot& snapshot) {
  if (snapshot.IsImported()) return std::numeric_limits<int32_t>::min();
  const std::optional<ResumedFrom> resumed = ResumedFromOf(snapshot);
  if (!resumed) return kWarmUpSteps;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::clamp<int64_t>(resumed->step, 0, kMost - kWarmUpSteps)) +
         kWarmUpSteps;
}

std::vector<StepBreakdown> Breakdowns(const query::Snapshot& snapshot) {
  if (snapshot.derived) return DerivedBreakdowns(snapshot);
  std::vector<int32_t> steps;  // finished by any rank
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Step& row : rows.steps) steps.push_back(row.step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  const int32_t timed_from = TimedFrom(snapshot);
  std::vector<StepBreakdown> result;
  for (size_t first = 0; first < steps.size(); first += kStepsAtATime) {
    const int last_step = steps[std::min(first + kStepsAtATime, steps.size()) - 1];
    BreakdownCache part;
    part.timed_from_ = timed_from;
    for (const query::RankRows& rows : snapshot.ranks) {
      rows.op_runs.ForEachOfSteps(steps[first], last_step, [&](const query::OpRun& run, size_t) {
        const query::PlanOp* op = snapshot.FindPlanOp(run.plan_op);
        if (op != nullptr) part.TakeOpRun(snapshot, run, *op);
      });
      rows.steps.ForEachOfSteps(steps[first], last_step,
                                [&](const query::Step& row, size_t) { part.TakeStep(row); });
    }
    part.ComputeChanged();
    result.insert(result.end(), part.result_.begin(), part.result_.end());
  }
  return result;
}

double TokensPerSecond(double tokens, double step_ns) {
  return shardscope::TokensPerSecond(tokens, step_ns);
}

double TokensPerSecond(const StepBreakdown& row) {
  return TokensPerSecond(static_cast<double>(row.tokens), static_cast<double>(row.step_ns));
}

namespace {

double PositionOf(double share, size_t num_values) {
  return share * static_cast<double>(num_values - 1);
}

// At a place between two of the values in order. Those in front of `sorted_from` are smaller than
// what is asked for, and no value behind is smaller than they are.
double ValueAt(double position, size_t sorted_from, std::vector<double>* values) {
  // Only these two have to be in their place: sorting millions takes a second.
  const auto below = values->begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(values->begin() + static_cast<std::ptrdiff_t>(sorted_from), below,
                   values->end());
  const auto above = std::min_element(below + 1, values->end());
  if (above == values->end()) return *below;
  return *below + (position - std::floor(position)) * (*above - *below);
}

// Of non-negative values, whose bits are in their order: by exponent and the first bits of the
// mantissa.
constexpr int kDroppedBits = 44;
constexpr size_t kNumBuckets = size_t{1} << (63 - kDroppedBits);
size_t BucketOf(double value) {
  return std::bit_cast<uint64_t>(value + 0.0) >> kDroppedBits;  // -0 becomes 0
}

// `counts`: of the values, by bucket. Looks at each value once more, and only then at those near
// the place that is asked for: nth_element() looks at all several times, which takes most of a
// search's time where millions are found.
double PercentileOfMany(double share, const std::vector<uint32_t>& counts,
                        const std::vector<double>& values) {
  const double position = PositionOf(share, values.size());
  const auto first = static_cast<size_t>(position);
  size_t before = 0;
  size_t low = 0;
  while (before + counts[low] <= first) before += counts[low++];
  size_t high = low;
  for (size_t end = before + counts[low]; end <= first + 1 && end < values.size();) {
    end += counts[++high];
  }
  std::vector<double> near;
  for (const double value : values) {
    const size_t bucket = BucketOf(value);
    if (bucket >= low && bucket <= high) near.push_back(value);
  }
  return ValueAt(position - static_cast<double>(before), 0, &near);
}

}  // namespace

double Percentile(std::vector<double> values, double share) {
  return values.empty() ? 0 : ValueAt(PositionOf(share, values.size()), 0, &values);
}

Percentiles PercentilesOf(std::vector<double> values) {
  constexpr size_t kMany = 100'000;
  if (values.empty()) return {};
  if (values.size() >= kMany && *std::min_element(values.begin(), values.end()) >= 0) {
    std::vector<uint32_t> counts(kNumBuckets);
    for (const double value : values) ++counts[BucketOf(value)];
    return {PercentileOfMany(0.5, counts, values), PercentileOfMany(0.95, counts, values)};
  }
  const double p50 = ValueAt(PositionOf(0.5, values.size()), 0, &values);
  // The larger half holds the other.
  return {p50, ValueAt(PositionOf(0.95, values.size()), (values.size() - 1) / 2, &values)};
}

Summary SummarizeRange(const std::vector<StepBreakdown>& steps, int first_step, int last_step) {
  std::vector<const StepBreakdown*> in_range;
  std::vector<const StepBreakdown*> rows;  // without warm-up
  std::set<int32_t> ranks;
  for (const StepBreakdown& row : steps) {
    ranks.insert(row.rank);
    if (row.step < first_step || row.step > last_step) continue;
    in_range.push_back(&row);
    if (!IsWarmUp(row)) rows.push_back(&row);
  }
  if (rows.empty()) rows = in_range;

  Summary summary;
  summary.num_ranks = static_cast<int>(ranks.size());
  if (rows.empty()) return summary;
  summary.num_steps = static_cast<int>(CompleteSteps(rows, summary.num_ranks).size());
  summary.step_ns = PercentilesOfField(rows, &StepBreakdown::step_ns);
  summary.exposed_ns = PercentilesOfField(rows, &TimeSplit::exposed_ns);
  summary.idle_ns = PercentilesOfField(rows, &TimeSplit::idle_ns);
  summary.compute_ns = PercentilesOfField(rows, &TimeSplit::compute_ns);
  summary.communication_ns = PercentilesOfField(rows, &TimeSplit::communication_ns);
  summary.exposed_share = Ratio(summary.exposed_ns.p50, summary.step_ns.p50);
  const double communication_ns = Sum(rows, &TimeSplit::communication_ns);
  summary.communicates = communication_ns > 0;
  summary.overlap_ratio = Ratio(Sum(rows, &TimeSplit::overlap_ns), communication_ns);
  const double tokens_per_step =
      Sum(rows, &StepBreakdown::tokens) / static_cast<double>(rows.size()) * summary.num_ranks;
  summary.tokens_per_second = TokensPerSecond(tokens_per_step, summary.step_ns.p50);

  // Losses are no timings: warm-up steps count.
  const std::map<int32_t, double> losses = MeanLosses(in_range);
  for (const int32_t step : CompleteSteps(in_range, summary.num_ranks)) {
    const auto loss = losses.find(step);
    if (loss == losses.end()) continue;
    if (summary.first_loss == 0) summary.first_loss = loss->second;
    summary.last_loss = loss->second;
  }
  return summary;
}

}  // namespace shardscope::analysis
