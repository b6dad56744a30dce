// The app around the panels: palette, keys, the form of a new run, layout, frames, settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <filesystem>
#include <string>

#include "tests/ui/harness.h"
#include "trace/analysis/lesson_snapshot.h"

namespace shardscope::ui_test {
namespace {

class AppTest : public testing::Test {
 protected:
  Harness harness_;
};

TEST_F(AppTest, PaletteRunsACommandByName) {
  EXPECT_EQ(harness_.context().theme_name, ui::ThemeName::kDark);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_P);
    test->Yield(2);
    test->KeyChars("dark or light");
    test->KeyPress(ImGuiKey_Enter);
  }));
  EXPECT_EQ(harness_.context().theme_name, ui::ThemeName::kLight);
  EXPECT_FALSE(harness_.context().show_palette);
}

TEST_F(AppTest, QuestionMarkListsTheKeysAndEscapeClosesThem) {
  EXPECT_TRUE(harness_.Drive(
      [](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Shift | ImGuiKey_Slash); }));
  EXPECT_TRUE(harness_.context().show_keys);
  ASSERT_NE(harness_.log().Find("keys", "key:Ctrl+P"), nullptr);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Escape); }));
  EXPECT_FALSE(harness_.context().show_keys);
}

TEST_F(AppTest, FormOfANewRunValidatesWhileTyping) {
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_2);
    test->Yield(3);
    test->SetRef("//###runs");
    test->ItemInputValue("**/##search", "train.steps");
    test->ItemInputValue("**/train.steps/##value", "many");
  }));
  const ui::DrawnItem* error = harness_.log().Find("runs", "error:train.steps");
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(error->text, testing::HasSubstr("train.steps"));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###runs");
    test->ItemInputValue("**/train.steps/##value", "50");
  }));
  EXPECT_EQ(harness_.log().Find("runs", "error:train.steps"), nullptr);
}

TEST_F(AppTest, OpeningWhatIsNoRunSaysSo) {
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_O);
    test->Yield(3);
    test->SetRef("//###runs");
    test->ItemInputValue("**/##path", "/no/such/run");
    test->ItemClick("**/open");
  }));
  ASSERT_NE(harness_.log().Find("runs", "error"), nullptr);
  EXPECT_THAT(harness_.log().Find("runs", "error")->text, testing::HasSubstr("/no/such/run"));
}

TEST_F(AppTest, ResetLayoutBringsThePanelsBackToTheirPlaces) {
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
  harness_.Frames(8);
  const ui::Box before = harness_.log().Find("memory", "rank:0") != nullptr
                             ? harness_.log().Find("memory", "rank:0")->box
                             : ui::Box{};
  harness_.shell().Post(ui::ResetLayout{});
  harness_.Frames(6);
  const ui::DrawnItem* after = harness_.log().Find("memory", "rank:0");
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->box.x0, before.x0);
  EXPECT_EQ(after->box.y0, before.y0);
}

TEST(FramesTest, APanelThatHasMoreToShowGetsTheNextFrameAndThenRestComes) {
  Harness harness;
  harness.Frames(3);
  EXPECT_GT(harness.shell().SecondsUntilPoll(), 1);
  harness.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 60, 12));
  harness.Frames(8);
  EXPECT_GT(harness.shell().SecondsUntilPoll(), 1);
  // Stalls of so many steps are not found in one frame.
  const query::Snapshot& run = *harness.context().snapshot;
  harness.shell().Post(ui::SetView{run.start_ns, run.end_ns, false, false});
  harness.Frames(2);
  EXPECT_EQ(harness.shell().SecondsUntilPoll(), 0);
  harness.Frames(60);
  EXPECT_GT(harness.shell().SecondsUntilPoll(), 1);
}

TEST(SettingsTest, LanguageThemeAndScaleAreRemembered) {
  const std::string folder = testing::TempDir() + "/shardscope_settings_test";
  std::filesystem::remove_all(folder);
  {
    Harness harness(folder);
    harness.shell().Post(ui::SetLanguage{ui::Language::kChinese});
    harness.shell().Post(ui::SetTheme{ui::ThemeName::kLight});
    harness.shell().Post(ui::SetScale{1.5f});
    harness.Frames(3);
  }
  Harness again(folder);
  EXPECT_EQ(again.context().language, ui::Language::kChinese);
  EXPECT_EQ(again.context().theme_name, ui::ThemeName::kLight);
  EXPECT_FLOAT_EQ(again.context().scale, 1.5f);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shardscope::ui_test
