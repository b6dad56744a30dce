#include "ui/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/config/config.h"
#include "trace/base/letter_case.h"
#include "trace/base/text.h"
#include "ui/actions.h"
#include "ui/lens.h"
#include "ui/scope.h"
#include "ui/text.h"

namespace shardscope::ui {
namespace {

constexpr int kAtStart = 8;
constexpr int kInside = 4;
constexpr int kInOrder = 1;
constexpr size_t kLeastInOrder = 3;
constexpr float kPaletteScales[] = {1.0F, 1.25F, 1.5F, 2.0F, 3.0F};

bool IsStart(std::string_view text, size_t at) {
  return at == 0 || Contains(" .-_(/", text.substr(at - 1, 1));
}

// The first of its letters at the start of a word.
bool HasInOrder(std::string_view text, std::string_view word) {
  size_t found = 0;
  for (size_t at = 0; at < text.size() && found < word.size(); ++at) {
    if (text[at] == word[found] && (found > 0 || IsStart(text, at))) ++found;
  }
  return found == word.size();
}

int ScoreOfWord(std::string_view text, std::string_view word) {
  bool inside = false;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (IsStart(text, at)) return kAtStart;
    inside = true;
  }
  if (inside) return kInside;
  return word.size() >= kLeastInOrder && HasInOrder(text, word) ? kInOrder : 0;
}

struct Scored {
  int score = 0;
  PaletteEntry entry;
};

std::string InBothLanguages(Text text) {
  return Lower(Tr(Language::kEnglish, text)) + " " + Lower(Tr(Language::kChinese, text));
}

class PaletteList {
 public:
  explicit PaletteList(std::string_view query) : query_(Lower(Trim(query))) {}

  bool has_query() const { return !query_.empty(); }
  // `found_by`: in small letters; `less`: what counts less.
  void Add(PaletteEntry entry, std::string_view found_by, std::string_view less = {}) {
    int score = MatchScore(found_by, query_);
    if (score == 0 && !less.empty() && HasWords(less)) score = 1;
    if (score > 0) scored_.push_back({score, std::move(entry)});
  }
  std::vector<PaletteEntry> Take() {
    std::ranges::stable_sort(scored_, std::greater<>(), &Scored::score);
    std::vector<PaletteEntry> entries;
    for (Scored& one : scored_) entries.push_back(std::move(one.entry));
    return entries;
  }

 private:
  bool HasWords(std::string_view text) const {
    const std::vector<std::string_view> words = Split(query_, ' ');
    return std::ranges::all_of(words,
                               [text](std::string_view word) { return Contains(text, word); });
  }

  std::string query_;
  std::vector<Scored> scored_;
};

void AddSettings(const Context& context, PaletteList* list) {
  const auto add = [&](Text kind, const std::string& value, Command command) {
    const std::string title = fmt::format("{}: {}", Tr(context.language, kind), value);
    list->Add({title, "", {std::move(command)}}, InBothLanguages(kind) + " " + Lower(value));
  };
  add(Text::kMenuLanguage, "English", SetLanguage{Language::kEnglish});
  add(Text::kMenuLanguage, "中文", SetLanguage{Language::kChinese});
  add(Text::kMenuTheme, Tr(context.language, Text::kMenuDark), SetTheme{ThemeName::kDark});
  add(Text::kMenuTheme, Tr(context.language, Text::kMenuLight), SetTheme{ThemeName::kLight});
  for (const float scale : kPaletteScales) {
    add(Text::kMenuSize, fmt::format("{:.0f} %", std::round(scale * 100)), SetScale{scale});
  }
}

// Scopes of the figures and speeds of the time lens, which is opened for them.
void AddChoicesOfRun(const Context& context, PaletteList* list) {
  if (context.snapshot == nullptr) return;
  const auto title_of = [&](Text kind, const std::string& value) {
    return fmt::format("{}: {}", Tr(context.language, kind), value);
  };
  const std::vector<std::string> shown = ScopeOptions(context, context.language);
  const std::vector<std::string> english = ScopeOptions(context, Language::kEnglish);
  const std::vector<std::string> chinese = ScopeOptions(context, Language::kChinese);
  for (size_t at = 0; at < shown.size(); ++at) {
    list->Add({title_of(Text::kScopeFigures, shown[at]), "", {ScopeOption(static_cast<int>(at))}},
              InBothLanguages(Text::kScopeFigures) + " " + Lower(english[at] + " " + chinese[at]));
  }
  for (const int slowness : kLensSlowness) {
    const std::string speed = fmt::format("1/{}", slowness);
    Commands commands;
    if (!context.lens.is_on) commands.push_back(OpenLens{std::max(context.focus.step, 0)});
    commands.push_back(SetLensSlowness{slowness});
    list->Add({title_of(Text::kLensSpeedKind, speed), "", std::move(commands)},
              InBothLanguages(Text::kLensSpeedKind) + " " + speed);
  }
}

// What is no command, such as zooming: its keys, and of choosing it the list of all.
void AddAxisKeys(const Context& context, PaletteList* list) {
  for (const AxisKey& key : AxisKeys()) {
    list->Add({Tr(context.language, key.what),
               Tr(context.language, key.key),
               {ShowOverlay{Overlay::kKeys}}},
              InBothLanguages(key.what) + " " + InBothLanguages(key.key));
  }
}

void AddKeys(const Context& context, PaletteList* list) {
  for (const config::KeyInfo& key : config::AllKeys()) {
    if (!key.settable) continue;
    const std::string english = KeyLabel(Language::kEnglish, key.name);
    const std::string chinese = KeyLabel(Language::kChinese, key.name);
    const std::string& title = context.language == Language::kChinese ? chinese : english;
    list->Add({title, title == key.name ? "" : key.name, {ShowKey{.key = key.name}}},
              Lower(key.name + " " + english + " " + chinese),
              Lower(key.help + " " + KeyHelp(Language::kChinese, key)));
  }
}

}  // namespace

int MatchScore(std::string_view text, std::string_view query) {
  int score = kAtStart;
  for (const std::string_view word : Split(query, ' ')) {
    if (!word.empty()) score = std::min(score, ScoreOfWord(text, word));
  }
  return score;
}

std::vector<PaletteEntry> PaletteEntries(const Context& context, std::string_view query) {
  PaletteList list(query);
  for (const Action& action : AllActions()) {
    list.Add({Tr(context.language, action.title), action.key_name, action.make(context)},
             InBothLanguages(action.title));
  }
  AddSettings(context, &list);
  AddChoicesOfRun(context, &list);
  if (list.has_query()) {
    AddAxisKeys(context, &list);
    AddKeys(context, &list);
  }
  return list.Take();
}

}  // namespace shardscope::ui
