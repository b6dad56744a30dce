#include "ui/palette.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "engine/config/config.h"
#include "ui/actions.h"

namespace shardscope::ui {
namespace {

std::vector<std::string> TitlesOf(const std::string& query,
                                  Language language = Language::kEnglish) {
  Context context;
  context.language = language;
  std::vector<std::string> titles;
  for (const PaletteEntry& entry : PaletteEntries(context, query)) titles.push_back(entry.title);
  return titles;
}

template <typename Kind>
const Kind* FirstCommand(const std::string& query) {
  static std::vector<PaletteEntry> entries;
  entries = PaletteEntries({}, query);
  if (entries.empty() || entries.front().commands.empty()) return nullptr;
  return std::get_if<Kind>(&entries.front().commands.front());
}

TEST(Palette, WordsAreFoundAtStartsInsideAndAsLettersInOrder) {
  EXPECT_GT(MatchScore("reset layout", "reset"), MatchScore("reset layout", "eset"));
  EXPECT_GT(MatchScore("reset layout", "ayou"), MatchScore("reset layout", "rlt"));
  EXPECT_GT(MatchScore("reset layout", "rlt"), 0);
  EXPECT_GT(MatchScore("reset layout", "lay res"), 0);
  EXPECT_EQ(MatchScore("reset layout", "tlr"), 0);
  EXPECT_EQ(MatchScore("reset layout", "reset gone"), 0);
  EXPECT_GT(MatchScore("anything", ""), 0);
}

TEST(Palette, FindsEveryCommandByItsTitleInEitherLanguage) {
  for (const Action& action : AllActions()) {
    const std::string title = Tr(Language::kEnglish, action.title);
    EXPECT_THAT(TitlesOf(title), testing::Contains(title));
    EXPECT_THAT(TitlesOf(Tr(Language::kChinese, action.title)), testing::Contains(title));
  }
  EXPECT_EQ(TitlesOf("reset layout").front(), "Reset layout");
  EXPECT_EQ(TitlesOf("恢复默认").front(), "Reset layout");
  EXPECT_EQ(TitlesOf("rst lyt").front(), "Reset layout");
  EXPECT_TRUE(TitlesOf("no such command").empty());
}

TEST(Palette, FindsEveryKeyByItsName) {
  for (const config::KeyInfo& key : config::AllKeys()) {
    const std::vector<PaletteEntry> entries = PaletteEntries({}, key.name);
    const bool found = std::ranges::any_of(entries, [&](const PaletteEntry& entry) {
      const auto* shown =
          entry.commands.empty() ? nullptr : std::get_if<ShowKey>(&entry.commands[0]);
      return shown != nullptr && shown->key == key.name;
    });
    EXPECT_EQ(found, key.settable) << key.name;
  }
  ASSERT_NE(FirstCommand<ShowKey>("link.bandwidth"), nullptr);
  EXPECT_EQ(FirstCommand<ShowKey>("link.bandwidth")->key, "link.bandwidth");
  EXPECT_FALSE(TitlesOf("带宽", Language::kChinese).empty());
}

TEST(Palette, HasTheSettings) {
  ASSERT_NE(FirstCommand<SetLanguage>("中文"), nullptr);
  ASSERT_NE(FirstCommand<SetTheme>("theme light"), nullptr);
  EXPECT_EQ(FirstCommand<SetTheme>("theme light")->theme, ThemeName::kLight);
  ASSERT_NE(FirstCommand<SetScale>("size 150"), nullptr);
  EXPECT_FLOAT_EQ(FirstCommand<SetScale>("size 150")->scale, 1.5F);
  // Without a query commands and settings only: there are more keys than anybody reads.
  EXPECT_LT(TitlesOf("").size(), AllActions().size() + 20);
}

TEST(Palette, SaysHowToDoWhatIsNoCommand) {
  for (const auto& [query, title, key] :
       {std::tuple("zoom", "Zoom at the cursor (Ctrl fine, Shift coarse)", "Wheel"),
        {"pan", "Pan", "Drag, A, D, arrows"},
        {"double click", "Fit the span", "Double click"},
        {"run the query", "In SQL: run the query", "Ctrl+Enter"}}) {
    const std::vector<PaletteEntry> entries = PaletteEntries({}, query);
    const auto found = std::ranges::find(entries, title, &PaletteEntry::title);
    ASSERT_NE(found, entries.end()) << query;
    EXPECT_EQ(found->key, key);
    ASSERT_EQ(found->commands.size(), 1U);
    EXPECT_EQ(std::get<ShowOverlay>(found->commands[0]).overlay, Overlay::kKeys);
  }
}

TEST(Palette, HasScopesAndSpeedsOfTheLensOfARun) {
  Context context;
  EXPECT_TRUE(PaletteEntries(context, "last 20").empty());
  context.snapshot = std::make_shared<query::Snapshot>();
  const auto first = [&](const std::string& query) {
    const std::vector<PaletteEntry> entries = PaletteEntries(context, query);
    return entries.empty() ? PaletteEntry{} : entries.front();
  };
  EXPECT_EQ(first("last 20").title, "Figures: last 20 steps");
  EXPECT_EQ(first("since change").title, "Figures: since the last change");
  EXPECT_EQ(first("最近 20").title, "Figures: last 20 steps");
  const PaletteEntry last = first("last 20");
  const auto& scope = std::get<SetScope>(last.commands.at(0)).scope;
  ASSERT_TRUE(scope.has_value());
  EXPECT_EQ(scope->kind, analysis::ScopeKind::kLastSteps);
  // The lens is opened first.
  EXPECT_EQ(first("1/1000").title, "Time lens: 1/1000");
  ASSERT_EQ(first("1/1000").commands.size(), 2U);
  EXPECT_EQ(std::get<SetLensSlowness>(first("1/1000").commands[1]).slowness, 1'000);
  context.lens.is_on = true;
  EXPECT_EQ(first("1/1000").commands.size(), 1U);
}

}  // namespace
}  // namespace shardscope::ui
