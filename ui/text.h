// Text: every sentence and label of the app in English and Chinese. The strings stand in
// texts.inc of each panel and in ui/catalogue/; `{}` are fmt placeholders, the same number in both
// languages. Op names and keys are never translated.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "trace/base/words.h"
#include "ui/language.h"

namespace shardscope::config {
struct KeyInfo;
}

namespace shardscope::ui {

enum class Text : uint16_t {
#define SHARDSCOPE_TEXT(name, english, chinese) name,
#include "ui/catalogue/all.inc"
#undef SHARDSCOPE_TEXT
};
inline constexpr int kNumTexts = 0
#define SHARDSCOPE_TEXT(name, english, chinese) +1
#include "ui/catalogue/all.inc"
#undef SHARDSCOPE_TEXT
    ;

// Never null; UTF-8.
const char* Tr(Language language, Text text);

// With the placeholders filled in.
template <typename... Args>
std::string TrFormat(Language language, Text text, const Args&... args) {
  return fmt::format(fmt::runtime(Tr(language, text)), args...);
}

// `english` in the language, where it is the English of one of `texts`; else as it is.
std::string Translated(Language language, std::string_view english,
                       std::initializer_list<Text> texts);

// In Chinese why a stall was, from its cause and the name that the cause gives; may be empty.
std::string ChineseStallSentence(words::StallCause cause, std::string_view cause_object);

// Why an analysis::Stall or StallGroup was, "all-gather queued behind RS block2": in English the
// sentence of the report.
template <typename Stall>
std::string StallSentence(Language language, const Stall& stall) {
  if (language == Language::kEnglish) return stall.sentence;
  return ChineseStallSentence(stall.cause, stall.cause_object);
}

// The label of a key ("prefetch.backward" -> "Backward prefetch"); the key itself if it has none.
std::string KeyLabel(Language language, std::string_view key);

// "Undo Depth: 2 → 1": takes a knob back from one value to another; "none" for an empty one.
std::string UndoText(Language language, std::string_view key, std::string_view from,
                     std::string_view to);

// The unit of a key's value ("steps") in the language; symbols as "B/s" stay as they are.
std::string UnitLabel(Language language, std::string_view unit);

// Why a source of a trace is off or partial. What names files and errors is English in any
// language.
std::string ReasonText(Language language, std::string_view reason);

// The message of an error of a run. One that does not say that memory is out is English in any
// language.
std::string ErrorText(Language language, std::string_view message);

// The name of a track; names that a program gave stay as they are.
std::string TrackText(Language language, std::string_view name);

// One sentence on a key, in both languages.
std::string KeyHelp(Language language, const config::KeyInfo& key);

const char* MemoryCategoryName(Language language, words::MemoryCategory category);

}  // namespace shardscope::ui
