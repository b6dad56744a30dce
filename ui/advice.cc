#include "ui/advice.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "engine/config/config.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/panel_ids.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/verdict.h"

namespace shardscope::ui {
namespace {

using analysis::LossKind;
using analysis::RemedyCase;

// The English remedies stand with the analysis.
struct ChineseRemedy {
  LossKind kind;
  RemedyCase remedy_case;
  const char* text;
};
constexpr ChineseRemedy kChineseRemedies[] = {
#define SHARDSCOPE_REMEDY(kind, remedy_case, chinese) \
  {LossKind::kind, RemedyCase::remedy_case, chinese},
#include "ui/catalogue/remedies.inc"
#undef SHARDSCOPE_REMEDY
};

const analysis::Loss* LossOf(const analysis::Explanation& explanation,
                             const analysis::Advice& advice) {
  for (const analysis::Loss& loss : explanation.losses.losses) {
    if (loss.kind == advice.kind && loss.rank == advice.rank) return &loss;
  }
  return nullptr;
}

// The op that was waited for, else that which waited.
Commands JumpToStall(const analysis::Stall& stall) {
  const query::OpRunId op = stall.blocking_op_run.is_none() ? stall.op_run : stall.blocking_op_run;
  return {FocusPanel{panel_ids::kTimeline}, ShowOp{op, stall.rank}};
}

std::optional<AdvicePlace> WorstPlace(Language language, const analysis::Advice& advice,
                                      const std::string& stage) {
  if (advice.step < 0) return std::nullopt;
  if (advice.rank < 0) {
    return AdvicePlace{TrFormat(language, Text::kStepN, advice.step),
                       {FocusPanel{panel_ids::kTimeline}, ShowStep{advice.step}}};
  }
  AdvicePlace place;
  place.text = TrFormat(language, Text::kAdviceWorst, advice.rank, advice.step);
  if (!stage.empty()) place.text += ", " + stage;
  place.jump = {ShowRank{advice.rank, advice.step}};
  return place;
}

}  // namespace

std::string AdviceTitle(Language language, const analysis::Advice& advice) {
  return language == Language::kEnglish ? advice.title
                                        : LossReason(language, advice.kind, advice.rank);
}

std::string AdviceRemedy(Language language, const analysis::Advice& advice) {
  if (language == Language::kEnglish) return advice.remedy;
  const auto found = std::ranges::find_if(kChineseRemedies, [&](const ChineseRemedy& remedy) {
    return remedy.kind == advice.kind && remedy.remedy_case == advice.remedy_case;
  });
  if (found == std::end(kChineseRemedies)) return advice.remedy;
  if (advice.knobs.empty()) return found->text;
  return found->text + TrFormat(language, Text::kAdviceHere, advice.knobs);
}

std::vector<AdvicePlace> PlacesOf(Language language, const analysis::Explanation& explanation,
                                  const analysis::Advice& advice) {
  std::vector<AdvicePlace> places;
  const analysis::Loss* loss = LossOf(explanation, advice);
  if (loss == nullptr) return places;
  for (const analysis::StallGroup& group : loss->ops) {
    if (group.cause == analysis::StallCause::kSlot) continue;
    places.push_back({fmt::format("{} ({})", group.title,
                                  FormatDuration(static_cast<int64_t>(group.ns_per_step))),
                      JumpToStall(group.worst)});
  }
  if (auto worst = WorstPlace(language, advice, loss->stage)) places.push_back(std::move(*worst));
  return places;
}

std::optional<std::string> AdvisedValue(std::string_view key, std::string_view value) {
  const auto unless = [&](std::string_view wanted) {
    return value == wanted ? std::nullopt : std::optional(std::string(wanted));
  };
  if (key == "prefetch.backward") return unless("pre");
  if (key == "prefetch.limit") return unless("0");
  if (key == "host.run_ahead") return unless("-1");
  if (key == "reshard_after_forward") return unless("false");
  if (key != "prefetch.forward" && key != "prefetch.backward_depth") return std::nullopt;
  int number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  const config::KeyInfo* info = config::FindKey(key);
  if (info == nullptr || number >= info->maximum) return std::nullopt;
  return std::to_string(number + 1);
}

std::vector<AdvisedKnob> AdvisedKnobs(const Context& context, const analysis::Advice& advice) {
  std::vector<AdvisedKnob> knobs;
  for (const std::string_view part : Split(advice.knobs, ',')) {
    const std::string_view key = Trim(part);
    const config::KeyInfo* info = config::FindKey(key);
    if (info == nullptr || !info->live) continue;
    // Without a gather ahead there is no depth.
    const bool is_without_use =
        key == "prefetch.backward_depth" && ValueInForce(context, "prefetch.backward") != "pre";
    const std::string value = ValueInForce(context, key);
    const auto advised = is_without_use ? std::nullopt : AdvisedValue(key, value);
    if (advised) knobs.push_back({info->name, value, *advised});
  }
  return knobs;
}

std::string NoAdvice(Language language, const analysis::Verdict& verdict) {
  if (verdict.recomputed > 0) return VerdictTry(language, verdict);
  const Text why = verdict.bound == analysis::Bound::kUnknown   ? Text::kVerdictUnknown
                   : verdict.bound == analysis::Bound::kCompute ? Text::kAdviceNoneCompute
                                                                : Text::kAdviceNone;
  const double share =
      verdict.bound == analysis::Bound::kCompute ? verdict.share : analysis::kLeastAdvice;
  return TrFormat(language, why, FormatPercent(share));
}

}  // namespace shardscope::ui
