#include "ui/palette.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
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

}  // namespace
}  // namespace shardscope::ui
