// Summaries over ranks and steps: percentiles, shares, losses.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "trace/analysis/breakdown.h"

namespace shardscope::analysis {
namespace {

Percentiles PercentilesOf(const std::vector<const StepBreakdown*>& rows,
                          int64_t StepBreakdown::*field) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const StepBreakdown* row : rows) values.push_back(static_cast<double>(row->*field));
  return {Percentile(values, 0.5), Percentile(values, 0.95)};
}

double Sum(const std::vector<const StepBreakdown*>& rows, int64_t StepBreakdown::*field) {
  double sum = 0;
  for (const StepBreakdown* row : rows) sum += static_cast<double>(row->*field);
  return sum;
}

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double MeanLoss(const std::vector<const StepBreakdown*>& rows, int32_t step) {
  double sum = 0;
  int count = 0;
  for (const StepBreakdown* row : rows) {
    if (row->step != step) continue;
    sum += row->loss;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
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

double TokensPerSecond(const StepBreakdown& row) {
  return Ratio(static_cast<double>(row.tokens), static_cast<double>(row.step_ns) / 1e9);
}

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - std::floor(position)) * (values[above] - values[below]);
}

Summary SummarizeRange(const std::vector<StepBreakdown>& steps, int first_step, int last_step) {
  std::vector<const StepBreakdown*> in_range;
  std::vector<const StepBreakdown*> rows;  // without warm-up
  std::set<int32_t> ranks;
  for (const StepBreakdown& row : steps) {
    ranks.insert(row.rank);
    if (row.step < first_step || row.step > last_step) continue;
    in_range.push_back(&row);
    if (row.step >= kWarmUpSteps) rows.push_back(&row);
  }
  if (rows.empty()) rows = in_range;

  Summary summary;
  summary.num_ranks = static_cast<int>(ranks.size());
  if (rows.empty()) return summary;
  summary.num_steps = static_cast<int>(CompleteSteps(rows, summary.num_ranks).size());
  summary.step_ns = PercentilesOf(rows, &StepBreakdown::step_ns);
  summary.exposed_ns = PercentilesOf(rows, &StepBreakdown::exposed_ns);
  summary.idle_ns = PercentilesOf(rows, &StepBreakdown::idle_ns);
  summary.compute_ns = PercentilesOf(rows, &StepBreakdown::compute_ns);
  summary.communication_ns = PercentilesOf(rows, &StepBreakdown::communication_ns);
  summary.exposed_share = Ratio(summary.exposed_ns.p50, summary.step_ns.p50);
  summary.overlap_ratio =
      Ratio(Sum(rows, &StepBreakdown::overlap_ns), Sum(rows, &StepBreakdown::communication_ns));
  const double tokens_per_step =
      Sum(rows, &StepBreakdown::tokens) / static_cast<double>(rows.size()) * summary.num_ranks;
  summary.tokens_per_second = Ratio(tokens_per_step, summary.step_ns.p50 / 1e9);

  // Losses are no timings: warm-up steps count.
  const std::vector<int32_t> complete = CompleteSteps(in_range, summary.num_ranks);
  if (!complete.empty()) {
    summary.first_loss = MeanLoss(in_range, complete.front());
    summary.last_loss = MeanLoss(in_range, complete.back());
  }
  return summary;
}

}  // namespace shardscope::analysis
