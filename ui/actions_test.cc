#include "ui/actions.h"

#include <gtest/gtest.h>

#include <set>

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
