#include "ui/actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ui/panel_list.h"

namespace shardscope::ui {
namespace {

TEST(Actions, KeysAreUniqueAndNamed) {
  std::set<ImGuiKeyChord> seen;
  for (const Action& action : AllActions()) {
    EXPECT_EQ(action.chord == 0, std::string(action.key_name).empty());
    for (const ImGuiKeyChord chord : {action.chord, action.also}) {
      EXPECT_TRUE(chord == 0 || seen.insert(chord).second) << action.key_name;
    }
    const bool names_two = std::string(action.key_name).find(", ") != std::string::npos;
    EXPECT_EQ(action.also != 0, names_two) << action.key_name;
  }
}

// As FindsEveryCommandByItsTitleInEitherLanguage has it, they are in the palette, too.
TEST(Actions, EveryPanelIsShownByAnAction) {
  for (const PanelInfo& panel : kPanelList) {
    const auto shows = [&](const Action& action) {
      for (const Command& command : action.make(Context())) {
        const auto* focus = std::get_if<FocusPanel>(&command);
        if (focus != nullptr && focus->panel == panel.id && action.title == panel.command) {
          EXPECT_EQ(focus->types, panel.types) << panel.id;
          return true;
        }
      }
      return false;
    };
    EXPECT_EQ(std::ranges::count_if(AllActions(), shows), panel.command ? 1 : 0) << panel.id;
  }
}

// Panels are asked for together, and what is done with them stands after them.
TEST(Actions, PanelsStandBetweenTheOthersInTheOrderOfTheirKeys) {
  std::vector<Text> titles;
  for (const Action& action : AllActions()) titles.push_back(action.title);
  const auto place = [&](Text title) { return std::ranges::find(titles, title) - titles.begin(); };
  EXPECT_EQ(place(Text::kCommandTimeline), place(Text::kCommandClear) + 1);
  EXPECT_EQ(place(Text::kCommandRuns), place(Text::kCommandTimeline) + 1);
  EXPECT_EQ(place(Text::kCommandDetails), place(Text::kCommandAdvice) + 1);
  EXPECT_EQ(place(Text::kCommandSchedule), place(Text::kCommandDetails) + 1);
  EXPECT_EQ(place(Text::kCommandSteps), place(Text::kCommandSchedule) + 1);
  EXPECT_EQ(place(Text::kCommandCompare), place(Text::kCommandSteps) + 1);
  EXPECT_EQ(place(Text::kCommandSaveTable), place(Text::kCommandOverlap) + 1);
  EXPECT_EQ(titles.back(), Text::kCommandQuit);
}

// Keys that panels listen for themselves are in the list, too.
TEST(Actions, TheListHasTheKeysOfPanels) {
  for (const std::string key : {"Alt+Up, Alt+Down", "Ctrl+Enter", "Tab", "Shift+Left, Right"}) {
    EXPECT_TRUE(std::ranges::any_of(AxisKeys(), [&](const AxisKey& listed) {
      return Tr(Language::kEnglish, listed.key) == key;
    })) << key;
  }
}

TEST(Actions, WithoutATrainingNothingIsSteered) {
  const Context context;
  for (const Action& action : AllActions()) {
    for (const Command& command : action.make(context)) {
      EXPECT_FALSE(std::holds_alternative<DoAction>(command));
    }
  }
}

}  // namespace
}  // namespace shardscope::ui
