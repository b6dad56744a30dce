#include "trace/analysis/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "trace/analysis/names.h"
#include "trace/analysis/report/report.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/query/rows.h"

namespace shardscope::analysis {
namespace {

// The newest step that every rank finished; -1 if there is none.
int32_t LastCompleteStep(const std::vector<StepBreakdown>& steps) {
  std::map<int32_t, int32_t> newest;  // of each rank
  for (const StepBreakdown& row : steps) {
    const auto [at, is_first] = newest.try_emplace(row.rank, row.step);
    if (!is_first) at->second = std::max(at->second, row.step);
  }
  int32_t last = newest.empty() ? -1 : newest.begin()->second;
  for (const auto& [rank, step] : newest) last = std::min(last, step);
  return last;
}

std::string Relative(double before, double after) {
  return before > 0 ? fmt::format(" ({:+.0f}%)", 100 * (after - before) / before) : "";
}

std::string Times(const char* name, const Percentiles& before, const Percentiles& after) {
  return fmt::format(
      "{} {} -> {}{}", name, FormatDuration(before.p50), FormatDuration(after.p50),
      IsBeyondNoise(before, after) ? Relative(before.p50, after.p50) : " (within noise)");
}

}  // namespace

bool IsBeyondNoise(const Percentiles& before, const Percentiles& after) {
  const double change = std::abs(after.p50 - before.p50);
  const double spread = std::max(before.p95 - before.p50, after.p95 - after.p50);
  return change > spread && change > kSmallestChange * before.p50;
}

std::vector<ChangeEffect> EffectsOfChanges(const std::vector<StepBreakdown>& steps,
                                           const std::vector<query::Marker>& markers) {
  std::map<int32_t, ChangeEffect> by_step;
  for (const query::Marker& marker : markers) {
    if (!IsKnobChange(marker)) continue;
    ChangeEffect& effect = by_step[marker.step];
    effect.step = marker.step;
    effect.markers.push_back(marker);
  }
  std::vector<ChangeEffect> effects;
  for (auto& [step, effect] : by_step) effects.push_back(std::move(effect));
  const int32_t end = LastCompleteStep(steps) + 1;
  const int32_t timed_from = steps.empty() ? kWarmUpSteps : steps.front().timed_from;
  for (size_t i = 0; i < effects.size(); ++i) {
    ChangeEffect& effect = effects[i];
    const int32_t from = std::max(i == 0 ? 0 : effects[i - 1].step, timed_from);
    effect.may_complete = effect.step - from >= kLeastChangeSteps && i + 1 == effects.size();
    const int32_t to = i + 1 < effects.size() ? std::min(effects[i + 1].step, end) : end;
    effect.num_steps =
        std::max(std::min({effect.step - from, to - effect.step, kMaxChangeSteps}), 0);
    if (effect.num_steps == 0) continue;
    effect.before = SummarizeRange(steps, effect.step - effect.num_steps, effect.step - 1);
    effect.after = SummarizeRange(steps, effect.step, effect.step + effect.num_steps - 1);
  }
  return effects;
}

std::vector<ChangeEffect> ChangesInScope(const Report& report) {
  const ScopedSteps& scope = report.figures.scope;
  std::vector<ChangeEffect> effects = EffectsOfChanges(report.steps, report.markers);
  std::erase_if(effects, [&](const ChangeEffect& effect) {
    // The one that a scope begins with may have no finished step yet.
    const bool begins = scope.kind == ScopeKind::kSinceChange && effect.step == scope.change_step;
    return !scope.whole_run() && !begins && !scope.Contains(effect.step);
  });
  return effects;
}

std::string PrintChanges(const Report& report) {
  const std::vector<ChangeEffect> effects = ChangesInScope(report);
  if (effects.empty()) return "";
  std::string exposed = "exposed communication";
  if (report.truth != query::Truth::kMeasured) exposed += " " + std::string(Name(report.truth));
  std::string text = "\nChanges, p50 of as many steps before as after each\n";
  for (const ChangeEffect& effect : effects) {
    std::vector<std::string> changes;
    for (const query::Marker& marker : effect.markers) {
      changes.push_back(query::ChangeText(marker));
    }
    text += fmt::format("  step {}: {}\n", effect.step, Join(changes, ", "));
    if (!effect.complete()) {
      text += fmt::format("    too few steps beside it to compare: {} of {}\n", effect.num_steps,
                          kLeastChangeSteps);
      continue;
    }
    const Summary& before = effect.before;
    const Summary& after = effect.after;
    text +=
        fmt::format("    {} steps each: {}, {}, overlap ratio {} -> {}, {} -> {} tokens/s\n",
                    effect.num_steps, Times("step", before.step_ns, after.step_ns),
                    Times(exposed.c_str(), before.exposed_ns, after.exposed_ns),
                    FormatPercent(before.overlap_ratio), FormatPercent(after.overlap_ratio),
                    FormatCount(before.tokens_per_second), FormatCount(after.tokens_per_second));
  }
  return text;
}

}  // namespace shardscope::analysis
