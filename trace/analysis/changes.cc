#include "trace/analysis/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "trace/analysis/capped_sum.h"
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

std::string Times(const char* name, const Percentiles& before, const Percentiles& after,
                  ComparisonVerdict verdict) {
  const bool is_noise = verdict == ComparisonVerdict::kWithinNoise;
  return fmt::format("{} {} -> {}{}", name, FormatDuration(before.p50), FormatDuration(after.p50),
                     is_noise ? " (within noise)" : Relative(before.p50, after.p50));
}

// What all ranks took in a step together.
struct SumsOfStep {
  int64_t step_ns = 0;
  int64_t exposed_ns = 0;
  int num_ranks = 0;
};
using SumsByStep = std::map<int32_t, SumsOfStep>;

// Of steps that all ranks finished.
SumsByStep SumsOf(const std::vector<StepBreakdown>& steps, int num_ranks) {
  SumsByStep sums;
  for (const StepBreakdown& row : steps) {
    SumsOfStep& sum = sums[row.step];
    AddCapped(row.step_ns, &sum.step_ns);
    AddCapped(row.time.exposed_ns, &sum.exposed_ns);
    ++sum.num_ranks;
  }
  std::erase_if(sums, [num_ranks](const auto& sum) { return sum.second.num_ranks != num_ranks; });
  return sums;
}

// The steps of one side of a change.
struct StepsOfSide {
  StepsOfSide(const SumsByStep& sums, int32_t first, int32_t end) {
    for (auto at = sums.lower_bound(first); at != sums.end() && at->first < end; ++at) {
      step_ns.push_back(at->second.step_ns);
      exposed_ns.push_back(at->second.exposed_ns);
    }
    middle = MiddleSteps(step_ns);
  }

  std::vector<int64_t> step_ns;
  std::vector<int64_t> exposed_ns;
  std::vector<int32_t> middle;
};

double TokensOfStep(const Summary& summary) {
  return summary.tokens_per_second * summary.step_ns.p50 / 1e9;
}

// Of one that has the figures of both sides.
void MeasureEffect(const SumsByStep& sums, int num_ranks, ChangeEffect* effect) {
  const StepsOfSide before(sums, effect->first, effect->step);
  const StepsOfSide after(sums, effect->step, effect->end);
  if (before.step_ns.empty() || after.step_ns.empty()) return;
  const SideTimes a{before.step_ns, before.middle, num_ranks};
  const SideTimes b{after.step_ns, after.middle, num_ranks};
  effect->step_ns = DeltaOf(a, b);
  const double a_tokens = TokensOfStep(effect->before);
  const double b_tokens = TokensOfStep(effect->after);
  if (DifferInTokens(a_tokens, b_tokens)) {
    effect->token_ns = TimeOfTokens(effect->step_ns, PerRank(a), PerRank(b), a_tokens / b_tokens);
  }
  effect->exposed_ns = DeltaOf({before.exposed_ns, before.middle, num_ranks},
                               {after.exposed_ns, after.middle, num_ranks});
}

}  // namespace

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
  std::set<int32_t> ranks;
  for (const StepBreakdown& row : steps) ranks.insert(row.rank);
  const auto num_ranks = static_cast<int>(ranks.size());
  const SumsByStep sums = effects.empty() ? SumsByStep() : SumsOf(steps, num_ranks);
  for (size_t i = 0; i < effects.size(); ++i) {
    ChangeEffect& effect = effects[i];
    const bool is_newest = i + 1 == effects.size();
    const int32_t from = std::max(i == 0 ? 0 : effects[i - 1].step, timed_from);
    const int32_t to = is_newest ? end : std::min(effects[i + 1].step, end);
    // A damaged file may have any step.
    const int64_t first_of_most = int64_t{effect.step} - kMaxChangeSteps;
    const int64_t end_of_most = int64_t{effect.step} + kMaxChangeSteps;
    effect.first =
        std::min(static_cast<int32_t>(std::max<int64_t>(from, first_of_most)), effect.step);
    effect.end = std::max(static_cast<int32_t>(std::min<int64_t>(to, end_of_most)), effect.step);
    if (const int32_t behind = std::min(effect.step, end); effect.first < behind) {
      effect.before = SummarizeRange(steps, effect.first, behind - 1);
    }
    // Of a change in warm-up the steps behind that count.
    if (const int32_t first = std::max(effect.step, timed_from); first < effect.end) {
      effect.after = SummarizeRange(steps, first, effect.end - 1);
    }
    effect.may_complete = effect.before.num_steps >= kLeastChangeSteps && is_newest;
    MeasureEffect(sums, num_ranks, &effect);
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
  std::string text =
      fmt::format("\nChanges, p50 of up to {} steps before and after each\n", kMaxChangeSteps);
  for (const ChangeEffect& effect : effects) {
    std::vector<std::string> changes;
    for (const query::Marker& marker : effect.markers) {
      changes.push_back(query::ChangeText(marker));
    }
    text += fmt::format("  step {}: {}\n", effect.step, Join(changes, ", "));
    const Summary& before = effect.before;
    const Summary& after = effect.after;
    const std::string counts =
        fmt::format("{} before, {} after", Counted(before.num_steps, "step"), after.num_steps);
    if (!effect.complete()) {
      text += fmt::format(
          "    too few steps beside it to tell a difference from noise: {}, {} needed on each "
          "side\n",
          counts, kLeastChangeSteps);
      continue;
    }
    text += fmt::format(
        "    {}: {}, {}, overlap ratio {} -> {}, {} -> {} tokens/s\n", counts,
        Times("step", before.step_ns, after.step_ns, effect.step_verdict()),
        Times(exposed.c_str(), before.exposed_ns, after.exposed_ns, effect.exposed_verdict()),
        FormatPercent(before.overlap_ratio), FormatPercent(after.overlap_ratio),
        FormatCount(before.tokens_per_second), FormatCount(after.tokens_per_second));
  }
  return text;
}

}  // namespace shardscope::analysis
