#include "ui/panels/compare/compare_words.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/compare/sentence.h"
#include "trace/analysis/compare/setup.h"
#include "trace/base/enum_count.h"
#include "trace/base/signed_text.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::panels {

using analysis::ComparisonVerdict;
using ui::Text;
using ui::Tr;
using ui::TrFormat;

std::string SignedDuration(double ns) { return SignedText(ns, ui::FormatDuration, "+"); }

std::string WithinWords(ui::Language language, const analysis::Shift& shift) {
  if (!shift.known) return Tr(language, Text::kCompareUnknown);
  return fmt::format("{} .. {}", SignedDuration(static_cast<double>(shift.low_ns)),
                     SignedDuration(static_cast<double>(shift.high_ns)));
}

const char* PartWord(ui::Language language, analysis::StepPart part) {
  static constexpr std::array kWords = {Text::kCompareCompute, Text::kCompareExposed,
                                        Text::kCompareCopy, Text::kCompareIdle};
  static_assert(kWords.size() == analysis::kNumStepParts);
  return Tr(language, kWords[static_cast<size_t>(part)]);
}

const char* FactWord(ui::Language language, analysis::DoneFact fact) {
  static constexpr std::array kWords = {Text::kCompareForwardLead,   Text::kCompareBackwardLead,
                                        Text::kCompareGatheredAgain, Text::kCompareCollectives,
                                        Text::kCompareSent,          Text::kComparePeak,
                                        Text::kCompareDriver};
  static_assert(kWords.size() == kCountOf<analysis::DoneFact>);
  return Tr(language, kWords[static_cast<size_t>(fact)]);
}

std::string PhaseWord(ui::Language language, const std::string& phase) {
  return ui::Translated(language, phase,
                        {Text::kForward, Text::kBackward, Text::kRecompute, Text::kOptimizer,
                         Text::kTimelinePausedEvaluation});
}

std::string WhatWords(ui::Language language, const analysis::RowKey& key) {
  const bool is_exposed =
      key.part == analysis::StepPart::kExposed || key.part == analysis::StepPart::kExposedCopy;
  if (is_exposed) return TrFormat(language, Text::kCompareExposedKind, key.kind);
  // Kinds of compute are called as phases are.
  std::string what = PhaseWord(language, key.kind);
  if (key.part == analysis::StepPart::kIdle) {
    what = key.kind.empty() ? Tr(language, Text::kCompareEnd)
                            : TrFormat(language, Text::kCompareBefore, what);
  }
  return fmt::format("{}, {}", PartWord(language, key.part), what);
}

std::string StateWord(ui::Language language, const analysis::ComparedRow& row) {
  switch (analysis::StateOf(row)) {
    case analysis::RowState::kAlike:
      break;
    case analysis::RowState::kSlower:
      return Tr(language, Text::kCompareRowSlower);
    case analysis::RowState::kFaster:
      return Tr(language, Text::kCompareRowFaster);
    case analysis::RowState::kAdded:
      return Tr(language, Text::kCompareRowAdded);
    case analysis::RowState::kGone:
      return Tr(language, Text::kCompareRowGone);
  }
  return "";
}

std::string ValuesInOrder(ui::Language language, std::string text) {
  const std::string then = Tr(language, Text::kCompareThen);
  for (size_t at = text.find(analysis::kThen); at != std::string::npos;
       at = text.find(analysis::kThen, at + then.size())) {
    text.replace(at, analysis::kThen.size(), then);
  }
  return text;
}

std::string RowName(const analysis::RowKey& key) {
  return fmt::format("{}|{}|{}|{}|{}", Name(key.part), key.kind, key.phase, key.unit,
                     key.communicator);
}

namespace {

// What is done or set up differently: sentences behind the first one; empty: nothing.
std::string OtherwiseWords(ui::Language language, const analysis::Comparison& comparison) {
  const analysis::Otherwise otherwise = analysis::OtherwiseOf(comparison);
  std::vector<std::string> texts;
  const auto add_lead = [&](Text text, const std::optional<analysis::Otherwise::Lead>& lead) {
    if (lead) texts.push_back(TrFormat(language, text, lead->a, lead->b));
  };
  add_lead(Text::kCompareOtherForward, otherwise.forward);
  add_lead(Text::kCompareOtherBackward, otherwise.backward);
  if (!otherwise.gathers_again.empty()) {
    texts.push_back(TrFormat(language, Text::kCompareGathersAgain, otherwise.gathers_again));
  }
  const std::string none = Tr(language, Text::kNone);
  for (const analysis::SettingDifference* setting : otherwise.settings) {
    texts.push_back(TrFormat(language, Text::kCompareSetting, setting->key,
                             setting->a.empty() ? none : setting->a,
                             setting->b.empty() ? none : setting->b));
  }
  if (otherwise.num_others > 0) {
    const Text others = texts.empty() ? Text::kCompareOthersAlone : Text::kCompareOthers;
    texts.push_back(TrFormat(language, others, otherwise.num_others));
  }
  return texts.empty() ? "" : Join(texts, "；") + "。";
}

}  // namespace

std::string CompareSentence(ui::Language language, const analysis::Comparison& comparison) {
  const bool is_english = language == ui::Language::kEnglish;
  const analysis::Delta& step = comparison.step;
  if (step.a_ns <= 0 || step.b_ns <= 0) {
    return is_english ? comparison.sentence : Tr(language, Text::kCompareNotPossible);
  }
  const analysis::SentenceSigns signs{ui::FormatDuration, "→"};
  if (is_english) return SentenceOf(comparison, signs);
  if (comparison.verdict == ComparisonVerdict::kNotComparable) {
    return TrFormat(language, Text::kCompareTooFew, comparison.a.num_steps, comparison.b.num_steps);
  }
  const std::string times =
      fmt::format("{} {} {}{}", signs.duration(std::llround(step.a_ns)), signs.arrow,
                  signs.duration(std::llround(step.b_ns)), TokensIn(comparison, signs));
  if (comparison.verdict == ComparisonVerdict::kWithinNoise || comparison.rows.empty()) {
    return TrFormat(language, Text::kCompareAlike, times) + OtherwiseWords(language, comparison);
  }
  const bool slower = step.ns() > 0;
  const analysis::StepPart part = analysis::LargestPart(comparison);
  const analysis::ComparedRow* largest = &comparison.rows.front();
  for (const analysis::ComparedRow& row : comparison.rows) {
    if (row.key.part != part || (row.on_path.ns() > 0) != slower) continue;
    largest = &row;
    break;
  }
  const std::string what = fmt::format("{} {} {}", WhatWords(language, largest->key),
                                       largest->key.unit, PhaseWord(language, largest->key.phase));
  return TrFormat(language, slower ? Text::kCompareSlower : Text::kCompareFaster,
                  FormatPercent(std::abs(comparison.slower())), times, PartWord(language, part),
                  SignedDuration(comparison.parts[static_cast<size_t>(part)].ns()), what,
                  SignedDuration(largest->on_path.ns())) +
         OtherwiseWords(language, comparison);
}

}  // namespace shardscope::panels
