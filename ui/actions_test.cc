#include "ui/actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

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

// Keys that panels listen for themselves are in the list, too.
TEST(Actions, TheListHasTheKeysOfPanels) {
  for (const std::string key : {"Alt+Up, Alt+Down", "Ctrl+Enter", "Tab"}) {
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
