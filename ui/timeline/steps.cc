#include "ui/timeline/steps.h"

#include <algorithm>

namespace shardscope::timeline {
namespace {

void Extend(const StepSpan& by, StepSpan* span) {
  span->start_ns = std::min(span->start_ns, by.start_ns);
  span->end_ns = std::max(span->end_ns, by.end_ns);
}

bool IsBefore(const StepSpan& span, int32_t step) { return span.step < step; }
bool RowIsBefore(const query::Step& row, int32_t step) { return row.step < step; }

}  // namespace

std::vector<StepSpan> FinishedSteps(const query::Snapshot& snapshot) {
  std::vector<StepSpan> spans;
  for (const query::RankRows& rank : snapshot.ranks) {
    for (const query::Step& row : rank.steps) {
      const StepSpan span{row.step, row.start_ns, row.end_ns};
      const auto at = std::lower_bound(spans.begin(), spans.end(), row.step, IsBefore);
      if (at == spans.end() || at->step != row.step) {
        spans.insert(at, span);
      } else {
        Extend(span, &*at);
      }
    }
  }
  return spans;
}

std::optional<StepSpan> UnfinishedStep(const query::RankRows& rows) {
  const int32_t finished = rows.steps.empty() ? -1 : rows.steps.back().step;
  std::optional<StepSpan> unfinished;
  // Rows of one step come from several threads: those of two steps mix, not those of three.
  for (size_t at = rows.op_runs.size(); at-- > 0;) {
    const query::OpRun& run = rows.op_runs[at];
    // Without steps, as while a run's first rows are read, there may be very many rows.
    if (run.step < finished || (unfinished && run.step < unfinished->step - 1)) break;
    if (run.step == finished || (unfinished && run.step < unfinished->step)) continue;
    const StepSpan span{run.step, std::min(run.issued_ns, run.started_ns), run.ended_ns};
    if (!unfinished || run.step > unfinished->step) unfinished = span;
    Extend(span, &*unfinished);
  }
  return unfinished;
}

std::optional<StepSpan> FindStep(const query::Snapshot& snapshot, int32_t step) {
  std::optional<StepSpan> found;
  const auto add = [&found](const StepSpan& span) {
    if (!found) found = span;
    Extend(span, &*found);
  };
  for (const query::RankRows& rank : snapshot.ranks) {
    const auto row = std::lower_bound(rank.steps.begin(), rank.steps.end(), step, RowIsBefore);
    if (row != rank.steps.end() && row->step == step) {
      add({step, row->start_ns, row->end_ns});
    } else if (row == rank.steps.end()) {
      const std::optional<StepSpan> unfinished = UnfinishedStep(rank);
      if (unfinished && unfinished->step == step) add(*unfinished);
    }
  }
  return found;
}

std::optional<std::pair<int32_t, int32_t>> RecordedSteps(const query::Snapshot& snapshot) {
  std::optional<std::pair<int32_t, int32_t>> range;
  const auto add = [&range](int32_t step) {
    if (!range) range = {step, step};
    range = {std::min(range->first, step), std::max(range->second, step)};
  };
  for (const query::RankRows& rank : snapshot.ranks) {
    if (!rank.steps.empty()) {
      add(rank.steps[0].step);
      add(rank.steps.back().step);
    }
    if (const std::optional<StepSpan> unfinished = UnfinishedStep(rank)) add(unfinished->step);
  }
  return range;
}

}  // namespace shardscope::timeline
