#include "trace/analysis/steps/step_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

constexpr size_t kMostEventColumns = 160;

bool IsSame(const query::Marker& a, const query::Marker& b) {
  return std::tie(a.kind, a.key, a.old_value, a.new_value) ==
         std::tie(b.kind, b.key, b.old_value, b.new_value);
}

// Sums first; Finish() makes means of them.
void Add(const StepBreakdown& one, StepRow* row) {
  if (row->num_ranks == 0 || one.step_ns > row->step_ns) {
    row->step_ns = one.step_ns;
    row->slowest_rank = one.rank;
    row->slowest_exposed_ns = one.time.exposed_ns;
  }
  row->start_ns = row->num_ranks == 0 ? one.start_ns : std::min(row->start_ns, one.start_ns);
  ++row->num_ranks;
  row->mean_step_ns += static_cast<double>(one.step_ns);
  row->compute_ns += static_cast<double>(one.time.compute_ns);
  row->communication_ns += static_cast<double>(one.time.communication_ns);
  row->exposed_ns += static_cast<double>(one.time.exposed_ns);
  row->exposed_copy_ns += static_cast<double>(one.time.exposed_copy_ns);
  row->idle_ns += static_cast<double>(one.time.idle_ns);
  AddCapped(std::max<int64_t>(one.tokens, 0), &row->tokens);
  if (one.tokens > 0) row->loss += one.loss * static_cast<double>(one.tokens);
  if (std::isnan(row->grad_norm)) row->grad_norm = one.grad_norm;
  row->is_warm_up = IsWarmUp(one);
}

void Finish(StepRow* row) {
  for (double* sum : {&row->mean_step_ns, &row->compute_ns, &row->communication_ns,
                      &row->exposed_ns, &row->exposed_copy_ns, &row->idle_ns}) {
    *sum /= row->num_ranks;
  }
  // A step in which no token counts has 0.
  row->loss = row->tokens > 0 && row->loss != 0 ? row->loss / static_cast<double>(row->tokens)
                                                : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::vector<StepRow> MakeStepTable(const std::vector<StepBreakdown>& steps,
                                   const std::vector<query::Marker>& markers) {
  std::vector<StepRow> rows;
  for (const StepBreakdown& one : steps) {  // by step
    if (rows.empty() || rows.back().step != one.step) rows.push_back({.step = one.step});
    Add(one, &rows.back());
  }
  for (StepRow& row : rows) Finish(&row);
  for (const query::Marker& marker : markers) {
    const auto row = std::lower_bound(rows.begin(), rows.end(), marker.step,
                                      [](const StepRow& a, int32_t step) { return a.step < step; });
    if (row == rows.end() || row->step != marker.step) continue;
    const bool is_known =
        std::any_of(row->events.begin(), row->events.end(),
                    [&](const query::Marker& other) { return IsSame(marker, other); });
    if (!is_known) row->events.push_back(marker);
  }
  for (StepRow& row : rows) {
    std::stable_sort(
        row.events.begin(), row.events.end(),
        [](const query::Marker& a, const query::Marker& b) { return a.time_ns < b.time_ns; });
  }
  return rows;
}

std::string EventText(const query::Marker& event) {
  const bool is_change = event.kind == Name(query::MarkerKind::kChange);
  std::string text = is_change ? "" : event.kind;
  const auto add = [&text](const std::string& part) {
    if (!text.empty() && !part.empty()) text += ' ';
    text += part;
  };
  add(event.key);
  if (!event.old_value.empty()) {
    add(fmt::format("{} -> {}", event.old_value, event.new_value));
  } else if (is_change) {
    add(fmt::format("-> {}", event.new_value));
  } else {
    add(event.new_value);
  }
  return Printable(text, "");
}

std::string PrintStepTable(const std::vector<StepRow>& rows) {
  if (rows.empty()) return "";
  TextTable table({"step", "ranks", "time", "slowest", "compute", "communication", "exposed",
                   "idle", "tokens/s", "loss", "grad norm", "at this step"},
                  0);
  std::vector<std::string> all_events;
  size_t width = 0;  // of the longest: texts stand at the left
  for (const StepRow& row : rows) {
    std::vector<std::string> events;
    for (const query::Marker& event : row.events) events.push_back(EventText(event));
    all_events.push_back(Shortened(Join(events, ", "), kMostEventColumns));
    width = std::max(width, all_events.back().size());
  }
  for (size_t at = 0; at < rows.size(); ++at) {
    const StepRow& row = rows[at];
    table.Add({std::to_string(row.step), std::to_string(row.num_ranks), FormatDuration(row.step_ns),
               fmt::format("rank {}", row.slowest_rank), FormatDuration(row.compute_ns),
               FormatDuration(row.communication_ns), FormatDuration(row.exposed_ns),
               FormatDuration(row.idle_ns),
               row.tokens > 0 ? FormatCount(row.tokens_per_second()) : "-",
               std::isnan(row.loss) ? "-" : fmt::format("{:.4f}", row.loss),
               std::isnan(row.grad_norm) ? "-" : fmt::format("{:.3g}", row.grad_norm),
               fmt::format("{:<{}}", all_events[at], width)});
  }
  return "\nSteps over all ranks: time is the slowest rank's, the other times are means of "
         "ranks\n" +
         table.Print();
}

}  // namespace shardscope::analysis
