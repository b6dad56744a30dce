#include "ui/out_of_memory.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "trace/base/reasons.h"
#include "trace/base/text.h"
#include "trace/base/words.h"
#include "ui/text.h"

namespace shardscope::ui {
namespace {

using Values = std::vector<std::string>;

constexpr std::string_view kGap = "{}";
constexpr std::string_view kOutOfMemory = "out of memory: ";
// How the sentences behind the first begin; "No key" in older traces.
constexpr std::string_view kFurther[] = {". At the peak", ". What fits", ". Of the options tried",
                                         ". None of the options", ". No key"};

// What stands before that which is filled in.
std::string_view Before(std::string_view pattern) { return pattern.substr(0, pattern.find(kGap)); }

std::string_view English(Text text) { return Tr(Language::kEnglish, text); }

// In Chinese.
std::string FillIn(Text text, const Values& values) {
  fmt::dynamic_format_arg_store<fmt::format_context> filled;
  for (const std::string& value : values) filled.push_back(value);
  return fmt::vformat(Tr(Language::kChinese, text), filled);
}

// What the English of `text` is filled in with in `message`, if that is nothing else.
std::optional<Values> ValuesOf(Text text, std::string_view message) {
  std::optional<Values> values = FilledIn(English(text), message);
  if (!values) return std::nullopt;
  const std::string rest = std::move(values->back());
  values->pop_back();
  if (English(text).ends_with(kGap)) {
    values->back() = rest;
  } else if (!rest.empty()) {
    return std::nullopt;
  }
  return values;
}

// At the separators that stand in no parentheses.
std::vector<std::string_view> SplitOutside(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')') --depth;
    if (depth > 0 || !text.substr(at).starts_with(separator)) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string InChinese(std::string_view english, std::initializer_list<Text> texts) {
  return ui::Translated(Language::kChinese, english, texts);
}

// "block3.mlp 1.0 MB", "3 more".
std::string HolderText(std::string_view holder) {
  if (const auto more = ValuesOf(Text::kErrorMoreHolders, holder)) {
    return FillIn(Text::kErrorMoreHolders, *more);
  }
  return InChinese(holder, {Text::kErrorWithCopy});
}

// "activation 12.3 MB (head 2.1 MB, 3 more)".
std::string CategoryText(std::string_view part) {
  const size_t open = part.find(" (");
  std::string_view amount = part.substr(0, open);
  std::string name;
  for (int at = 0; at < words::kNumMemoryCategories; ++at) {
    const auto category = static_cast<words::MemoryCategory>(at);
    std::string word(words::Name(category));
    std::ranges::replace(word, '_', ' ');
    // What stands behind is a number: "gradient" does not begin "gradient shard".
    const bool is_named = amount.starts_with(word + " ") && amount.size() > word.size() + 1 &&
                          amount[word.size() + 1] >= '0' && amount[word.size() + 1] <= '9';
    if (!is_named) continue;
    name = MemoryCategoryName(Language::kChinese, category);
    amount.remove_prefix(word.size());
    break;
  }
  std::string text = name + std::string(amount);
  if (open == std::string_view::npos || !part.ends_with(')')) return text;
  Values holders;
  const std::string_view inside = part.substr(open + 2, part.size() - open - 3);
  for (const std::string_view holder : SplitOutside(inside, ", ")) {
    holders.push_back(HolderText(holder));
  }
  return text + "（" + Join(holders, "，") + "）";
}

std::string LiveText(std::string_view live) {
  Values parts;
  for (const std::string_view part : SplitOutside(live, ", ")) parts.push_back(CategoryText(part));
  return Join(parts, "，");
}

// "prefetch.backward=none saves 1.5 MB (2.0 MB, same results)".
std::string RemedyText(std::string_view remedy) {
  std::optional<Values> values = ValuesOf(Text::kErrorRemedy, remedy);
  if (!values) return std::string(remedy);
  values->back() = InChinese(values->back(), {Text::kChoiceSame, Text::kChoiceRounding,
                                              Text::kChoicePrecision, Text::kChoiceTraining});
  return FillIn(Text::kErrorRemedy, *values);
}

// One of the things that can be done.
std::string ActionText(std::string_view action) {
  if (const auto fits = ValuesOf(Text::kErrorFits, action)) {
    return FillIn(Text::kErrorFits, {RemedyText(fits->front())});
  }
  if (const auto none = ValuesOf(Text::kErrorNoneFits, action)) {
    const std::string_view limit = none->front();
    const size_t colon = limit.find(": ");
    std::string text = FillIn(Text::kErrorNoneFits, {std::string(limit.substr(0, colon))});
    if (colon == std::string_view::npos) return text;
    const std::string_view rest = limit.substr(colon + 2);
    const auto most = ValuesOf(Text::kErrorSavesMost, rest);
    return text + "：" +
           (most ? FillIn(Text::kErrorSavesMost, {RemedyText(most->front())}) : std::string(rest));
  }
  const std::string text = InChinese(action, {Text::kErrorChangeModel, Text::kErrorChangeGivenModel,
                                              Text::kErrorNoneBeside, Text::kErrorNoEvaluation});
  return text == action ? RemedyText(action) : text;
}

// Of a program that was recorded.
std::optional<std::string> RecordedText(std::string_view message) {
  auto values = ValuesOf(Text::kErrorTorchOutOfMemory, message);
  if (!values) return std::nullopt;
  const std::string asked = (*values)[2];  // " in layers.0, 1.0 MB are free"
  const size_t comma = std::min(asked.rfind(", "), asked.size());
  const auto free = ValuesOf(Text::kErrorGpuBytesFree, std::string_view(asked).substr(comma));
  if (!free) return std::nullopt;
  const auto range = FilledIn(reasons::kAskedForIn, std::string_view(asked).substr(0, comma));
  (*values)[2] = (range ? FillIn(Text::kErrorInRange, {range->back()}) : "") +
                 FillIn(Text::kErrorGpuBytesFree, *free);
  return FillIn(Text::kErrorTorchOutOfMemory, *values);
}

// Of a memory snapshot.
std::optional<std::string> SnapshotText(std::string_view message) {
  auto values = FilledIn(English(Text::kErrorGpuOutOfMemory), message);
  if (!values) return std::nullopt;
  const std::string all_behind = std::move(values->back());
  std::string_view behind = all_behind;
  values->pop_back();
  if (const auto free = ValuesOf(Text::kErrorGpuBytesFree, (*values)[2])) {
    (*values)[2] = FillIn(Text::kErrorGpuBytesFree, *free);
  }
  std::string text = FillIn(Text::kErrorGpuOutOfMemory, *values);
  const std::string_view asked_for = Before(English(Text::kErrorAskedForBy));
  const size_t asked = behind.find(asked_for);
  std::string_view range = behind.substr(0, asked);
  const std::string_view in = Before(English(Text::kErrorInRange));
  if (range.starts_with(in) && range.ends_with(')')) {
    range.remove_prefix(in.size());
    range.remove_suffix(1);
    text += FillIn(Text::kErrorInRange, {std::string(range)});
  }
  if (asked != std::string_view::npos) {
    text += FillIn(Text::kErrorAskedForBy, {std::string(behind.substr(asked + asked_for.size()))});
  }
  return text;
}

std::string SentenceText(std::string_view sentence) {
  if (const auto text = RecordedText(sentence)) return *text;
  if (const auto text = SnapshotText(sentence)) return *text;
  for (const Text text :
       {Text::kErrorMemoryOfSchedule, Text::kErrorMemoryOfStateMove, Text::kErrorMemoryOfPool}) {
    if (const auto values = ValuesOf(text, sentence)) return FillIn(text, *values);
  }
  for (const Text text : {Text::kErrorPeakOfOp, Text::kErrorPeak}) {
    auto values = ValuesOf(text, sentence);
    if (!values) continue;
    values->back() = LiveText(values->back());
    return FillIn(text, *values);
  }
  if (const size_t at = sentence.find(kOutOfMemory); at != std::string_view::npos && at > 0) {
    for (const Text text : {Text::kErrorChangeRefused, Text::kErrorChangeAtStep}) {
      auto values = ValuesOf(text, sentence);
      if (!values) continue;
      values->back() = SentenceText(values->back());
      return FillIn(text, *values);
    }
    return std::string(sentence.substr(0, at)) + SentenceText(sentence.substr(at));
  }
  Values actions;
  for (const std::string_view action : SplitOutside(sentence, "; ")) {
    actions.push_back(ActionText(action));
  }
  return Join(actions, Join(actions, "; ") == sentence ? "; " : "；");
}

}  // namespace

std::vector<std::string> ErrorSentences(Language language, std::string_view message) {
  std::vector<std::string> sentences;
  const bool is_told = Contains(message, kOutOfMemory);
  const auto add = [&](std::string_view sentence) {
    const bool is_english = language == Language::kEnglish || !is_told;
    sentences.push_back(is_english ? std::string(sentence) : SentenceText(sentence));
  };
  for (const std::string_view further : kFurther) {
    const size_t end = message.find(further);
    if (!is_told || end == std::string_view::npos) continue;
    add(message.substr(0, end));
    message.remove_prefix(end + 2);
  }
  add(message);
  return sentences;
}

}  // namespace shardscope::ui
