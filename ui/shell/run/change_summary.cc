#include "ui/shell/run/change_summary.h"

#include <algorithm>

#include "trace/analysis/changes/changes.h"
#include "trace/analysis/memory/memory.h"

namespace shardscope::shell {
namespace {

int64_t StartOfStep(const std::vector<analysis::StepBreakdown>& steps, int32_t step) {
  int64_t start = 0;
  for (const analysis::StepBreakdown& row : steps) {
    if (row.step == step && (start == 0 || row.start_ns < start)) start = row.start_ns;
  }
  return start;
}

// Largest live bytes of any rank while it ran the steps [first, last].
int64_t PeakBytes(const query::Snapshot& snapshot, int32_t first, int32_t last) {
  int64_t peak = 0;
  for (const analysis::MemoryPeak& rank : analysis::MemoryPeaksOfSteps(snapshot, first, last)) {
    peak = std::max(peak, rank.peak_bytes);
  }
  return peak;
}

}  // namespace

ui::ChangeSummary SummarizeChange(const query::Snapshot& snapshot,
                                  const std::vector<analysis::StepBreakdown>& steps) {
  ui::ChangeSummary change;
  std::vector<analysis::ChangeEffect> effects = analysis::EffectsOfChanges(steps, snapshot.markers);
  if (effects.empty()) return change;
  analysis::ChangeEffect& newest = effects.back();
  change.valid = true;
  change.step = newest.step;
  change.markers = std::move(newest.markers);
  change.time_ns = StartOfStep(steps, newest.step);
  if (change.time_ns == 0) change.time_ns = change.markers.front().time_ns;
  change.complete = newest.complete();
  change.may_complete = newest.may_complete;
  change.before = newest.before;
  change.after = newest.after;
  if (const int32_t count = newest.num_steps; count > 0) {
    change.peak_before_bytes = PeakBytes(snapshot, newest.step - count, newest.step - 1);
    change.peak_after_bytes = PeakBytes(snapshot, newest.step, newest.step + count - 1);
  }
  return change;
}

}  // namespace shardscope::shell
