#include "ui/text.h"

#include <array>
#include <utility>

#include "engine/config/config.h"
#include "trace/base/reasons.h"
#include "trace/base/text.h"
#include "ui/out_of_memory.h"
#include "ui/terms.h"
#include "ui/value_label.h"

namespace shardscope::ui {
namespace {

struct Entry {
  const char* english;
  const char* chinese;
};

constexpr std::array<Entry, kNumTexts> kEntries = {{
#define SHARDSCOPE_TEXT(name, english, chinese) {english, chinese},
#include "ui/catalogue/all.inc"
#undef SHARDSCOPE_TEXT
}};

// The English sentences stand with the keys (engine/config); a key that is missing here shows
// those.
constexpr std::pair<std::string_view, const char*> kChineseKeyHelp[] = {
#define SHARDSCOPE_KEY_HELP(key, chinese) {key, chinese},
#define SHARDSCOPE_KEY_LABEL(key, english, chinese)
#include "ui/catalogue/key_help.inc"
#undef SHARDSCOPE_KEY_HELP
#undef SHARDSCOPE_KEY_LABEL
};

constexpr std::pair<std::string_view, Entry> kKeyLabels[] = {
#define SHARDSCOPE_KEY_HELP(key, chinese)
#define SHARDSCOPE_KEY_LABEL(key, english, chinese) {key, {english, chinese}},
#include "ui/catalogue/key_help.inc"
#undef SHARDSCOPE_KEY_HELP
#undef SHARDSCOPE_KEY_LABEL
};

constexpr std::pair<std::string_view, const char*> kChineseReasons[] = {
#define SHARDSCOPE_REASON(name, chinese) {reasons::name, chinese},
#include "ui/catalogue/reasons.inc"
#undef SHARDSCOPE_REASON
};

// With the name that the cause gives, and without one.
std::pair<const char*, const char*> ChineseStall(words::StallCause cause) {
  switch (cause) {
#define SHARDSCOPE_STALL(name, chinese, unnamed) \
  case words::StallCause::name:                  \
    return {chinese, unnamed};
#include "ui/catalogue/stalls.inc"
#undef SHARDSCOPE_STALL
  }
  return {"", ""};
}

const char* InLanguage(Language language, const Entry& entry) {
  return language == Language::kEnglish ? entry.english : entry.chinese;
}

}  // namespace

const char* Tr(Language language, Text text) {
  return InLanguage(language, kEntries[static_cast<size_t>(text)]);
}

std::string Translated(Language language, std::string_view english,
                       std::initializer_list<Text> texts) {
  for (const Text text : texts) {
    if (english == Tr(Language::kEnglish, text)) return Tr(language, text);
  }
  return std::string(english);
}

std::string ChineseStallSentence(words::StallCause cause, std::string_view cause_object) {
  const auto [named, unnamed] = ChineseStall(cause);
  return cause_object.empty() ? unnamed : fmt::format(fmt::runtime(named), cause_object);
}

std::string KeyLabel(Language language, std::string_view key) {
  if (const auto dimension = config::DimensionOfLink(key)) {
    const char* of_all = key.ends_with("bandwidth") ? "link.bandwidth" : "link.latency";
    return KeyLabel(language, of_all) + ", " + std::string(Name(*dimension));
  }
  for (const auto& [name, label] : kKeyLabels) {
    if (name == key) return InLanguage(language, label);
  }
  return std::string(key);
}

std::string UndoText(Language language, std::string_view key, std::string_view from,
                     std::string_view to) {
  const std::string none = Tr(language, Text::kNone);
  return TrFormat(language, Text::kAdviceUndo, KeyLabel(language, key),
                  from.empty() ? none : ValueLabel(from), to.empty() ? none : ValueLabel(to));
}

std::string UnitLabel(Language language, std::string_view unit) {
  return Translated(
      language, unit,
      {Text::kUnitUnits, Text::kUnitOps, Text::kUnitRanks, Text::kUnitBlocks, Text::kUnitSamples,
       Text::kUnitBytes, Text::kUnitSteps, Text::kUnitTimes, Text::kUnitElements, Text::kUnitTokens,
       Text::kUnitCheckpoints, Text::kUnitBatches});
}

std::string ReasonText(Language language, std::string_view reason) {
  if (language == Language::kChinese) {
    for (const auto& [english, text] : kChineseReasons) {
      if (english == reason) return text;
    }
  }
  return std::string(reason);
}

std::string ErrorText(Language language, std::string_view message) {
  if (language == Language::kEnglish) return std::string(message);
  return Join(ErrorSentences(language, message), "。");
}

std::string TrackText(Language language, std::string_view name) {
  const auto gpu = FilledIn(reasons::kRangesWhileRecorded, name);
  if (language == Language::kEnglish || !gpu) return std::string(name);
  return TrFormat(language, Text::kTrackRangesWhileRecorded, gpu->front());
}

std::string KeyHelp(Language language, const config::KeyInfo& key) {
  if (language == Language::kChinese) {
    for (const auto& [name, text] : kChineseKeyHelp) {
      if (name == key.name) return text;
    }
  }
  return key.help;
}

const char* MemoryCategoryName(Language language, words::MemoryCategory category) {
  return Tr(language, kMemoryTerms[static_cast<size_t>(category)].name);
}

}  // namespace shardscope::ui
