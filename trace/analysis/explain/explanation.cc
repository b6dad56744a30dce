#include "trace/analysis/explain/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trace/base/trace_keys.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

constexpr size_t kListedPathGroups = 8;

RunTraits TraitsOf(const query::Snapshot& snapshot) {
  RunTraits traits;
  traits.imported = snapshot.IsImported();
  traits.on_gpu =
      std::ranges::any_of(snapshot.ranks, [](const auto& rows) { return !rows.gpu_work.empty(); });
  traits.gathers = std::ranges::any_of(snapshot.plan_ops, [&traits](const auto& entry) {
    const query::PlanOp& op = entry.second;
    if (op.op_class != query::OpClass::kAllGather) return false;
    // Not what ZeRO gathers behind the optimizer, or ranks that share the sequence.
    return traits.imported || (op.phase != Name(words::Phase::kOptimizer) && !op.unit.empty());
  });
  return traits;
}

// Importers say where a file marks no steps.
bool HasStepMarks(const query::Snapshot& snapshot) {
  const auto marked = snapshot.meta.find(std::string(trace_keys::kStepsMarked));
  return marked == snapshot.meta.end() || marked->second != "0";
}

std::string AdviceText(const std::vector<Advice>& advice) {
  if (advice.empty()) return "";
  std::string text = "\nWhat would help, dearest first\n";
  for (const Advice& item : advice) {
    text += fmt::format("  {}: saves {} a step at most\n    try: {}\n    seen: {}\n", item.title,
                        FormatDuration(item.saving_ns_per_step), item.remedy, item.evidence);
  }
  return text;
}

std::string DelaysText(const Front& front) {
  if (front.delays.empty()) return "";
  std::string text = "\nRanks that held up the others (along the front of each step)\n";
  for (const RankDelay& delay : front.delays) {
    const std::string where = delay.stage.empty() ? "all over the step" : "in " + delay.stage;
    if (delay.is_lasting) {
      text += fmt::format("  rank {} {}: {} a step ({}), worst {} in step {}\n", delay.rank, where,
                          FormatDuration(delay.ns_per_step), FormatPercent(delay.share),
                          FormatDuration(delay.worst_ns), delay.worst_step);
    } else {
      text +=
          fmt::format("  rank {} {}, once: {} in step {} ({} of it)\n", delay.rank, where,
                      FormatDuration(delay.worst_ns), delay.worst_step, FormatPercent(delay.share));
    }
  }
  return text;
}

std::string PathText(const std::vector<PathGroup>& path) {
  if (path.empty()) return "";
  std::string text =
      "\nCritical path over all ranks, per step (nothing else can make a step shorter)\n";
  double rest_ns = 0;
  double rest_share = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i >= kListedPathGroups) {
      rest_ns += path[i].ns_per_step;
      rest_share += path[i].share;
      continue;
    }
    text += fmt::format("  {:<10} {:<24} {:>9} {:>6}\n", Name(path[i].kind), path[i].name,
                        FormatDuration(path[i].ns_per_step), FormatPercent(path[i].share));
  }
  if (rest_ns > 0) {
    text += fmt::format("  {:<35} {:>9} {:>6}\n", "the rest", FormatDuration(rest_ns),
                        FormatPercent(rest_share));
  }
  return text;
}

}  // namespace

Explanation Explain(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                    Grounds grounds, int first_step, int last_step) {
  Explanation explanation;
  explanation.recognised = RecognisedIn(snapshot);
  explanation.front = MakeFront(std::move(grounds.front));
  explanation.path = GroupPath(grounds.path);
  std::vector<StepBreakdown> rows;
  for (const StepBreakdown& row : steps) {
    if (row.step >= first_step && row.step <= last_step) rows.push_back(row);
  }
  explanation.losses = MakeLosses(rows, grounds.stalls, explanation.front, HasStepMarks(snapshot));
  for (const PathGroup& group : explanation.path) {
    if (group.name == Name(query::OpClass::kRecompute)) {
      explanation.losses.recomputed += group.share;
    }
  }
  const RunTraits traits = TraitsOf(snapshot);
  explanation.verdict = MakeVerdict(explanation.losses, traits);
  explanation.advice = MakeAdvice(explanation.losses, traits);
  return explanation;
}

std::string PrintExplanation(const Explanation& explanation) {
  return AdviceText(explanation.advice) + DelaysText(explanation.front) +
         PathText(explanation.path);
}

}  // namespace shardscope::analysis
