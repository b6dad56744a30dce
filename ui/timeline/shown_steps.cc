#include "ui/timeline/shown_steps.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "trace/query/find_op_run.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {
namespace {

struct StepRange {
  int32_t first = 0;
  int32_t last = -1;

  bool empty() const { return last < first; }
  void Take(int32_t step) {
    if (step < 0) return;
    first = empty() ? step : std::min(first, step);
    last = std::max(last, step);
  }
};

int64_t Centre(const ui::View& view) { return view.start_ns + (view.end_ns - view.start_ns) / 2; }

// Whole steps of every rank; ranks keep step, so that this is one range.
StepRange StepsInView(const query::Snapshot& snapshot, const ui::View& view) {
  StepRange range{0, INT32_MAX};
  for (const query::RankRows& rows : snapshot.ranks) {
    const auto begin = std::partition_point(
        rows.steps.begin(), rows.steps.end(),
        [&](const query::Step& step) { return step.start_ns < view.start_ns; });
    const auto end = std::partition_point(begin, rows.steps.end(), [&](const query::Step& step) {
      return step.end_ns <= view.end_ns;
    });
    if (begin == end) return {};
    range.first = std::max(range.first, begin->step);
    range.last = std::min(range.last, (end - 1)->step);
  }
  return snapshot.ranks.empty() ? StepRange{} : range;
}

struct Selected {
  int32_t step = -1;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

std::optional<Selected> SelectedRun(const query::Snapshot& snapshot, const ui::SelectedOp& op) {
  const auto run = query::FindOpRun(snapshot, op.rank, op.op_run);
  if (!run) return std::nullopt;
  return Selected{run->step, run->started_ns, run->ended_ns};
}

// As StepAt(), of one rank alone.
int32_t StepOfRankAt(const query::Snapshot& snapshot, const query::RankRows& rows,
                     int64_t time_ns) {
  if (rows.steps.empty()) return -1;
  const auto after =
      std::partition_point(rows.steps.begin(), rows.steps.end(),
                           [&](const query::Step& step) { return step.start_ns <= time_ns; });
  const query::Step& step = after == rows.steps.begin() ? *after : *(after - 1);
  const bool running = snapshot.state == query::TraceState::kLive && after == rows.steps.end() &&
                       time_ns > step.end_ns;
  return running ? step.step + 1 : step.step;
}

// Work that is of no op is of the step that its rank was in.
std::optional<Selected> SelectedWork(const query::Snapshot& snapshot,
                                     const ui::Selection& selection) {
  const query::RankRows* rows = snapshot.FindRank(selection.rank);
  const uint32_t row =
      rows == nullptr || selection.span.is_none() ? kNoRow : FindWorkRow(*rows, selection.span);
  if (row == kNoRow) return std::nullopt;
  const query::GpuWork& work = rows->gpu_work[row];
  const int32_t step = work.step >= 0 ? work.step : StepOfRankAt(snapshot, *rows, work.start_ns);
  return Selected{step, work.start_ns, work.end_ns};
}

std::vector<Selected> SelectedOf(const query::Snapshot& snapshot, const ui::Selection& selection) {
  std::vector<Selected> all;
  if (const auto run = SelectedRun(snapshot, {selection.op_run, selection.rank})) {
    all.push_back(*run);
  }
  for (const ui::SelectedOp& op : selection.also) {
    if (const auto run = SelectedRun(snapshot, op)) all.push_back(*run);
  }
  if (const auto work = SelectedWork(snapshot, selection)) all.push_back(*work);
  return all;
}

}  // namespace

int32_t StepAt(const query::Snapshot& snapshot, int64_t time_ns) {
  int32_t found = -1;
  for (const query::RankRows& rows : snapshot.ranks) {
    found = std::max(found, StepOfRankAt(snapshot, rows, time_ns));
  }
  return found;
}

analysis::Scope WantedScope(const ui::Context& context) {
  using analysis::ScopeKind;
  const query::Snapshot& snapshot = *context.snapshot;
  analysis::Scope scope = context.focus.scope.value_or(analysis::DefaultScope(snapshot.state));
  StepRange range{scope.first, scope.last};
  if (scope.kind == ScopeKind::kInView) {
    range = StepsInView(snapshot, context.view);
    if (range.empty()) {
      range = {};
      range.Take(StepAt(snapshot, Centre(context.view)));
    }
  } else if (scope.kind == ScopeKind::kSelection) {
    range = {};
    for (const Selected& selected : SelectedOf(snapshot, context.selection)) {
      range.Take(selected.step);
    }
  }
  scope.first = range.first;
  scope.last = range.last;
  return scope;
}

int32_t FocusedStep(const ui::Context& context) {
  const query::Snapshot& snapshot = *context.snapshot;
  for (const Selected& selected : SelectedOf(snapshot, context.selection)) {
    if (selected.start_ns < context.view.end_ns && selected.end_ns > context.view.start_ns) {
      return selected.step;
    }
  }
  return StepAt(snapshot, Centre(context.view));
}

}  // namespace shardscope::timeline
