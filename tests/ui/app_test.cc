// The app around the panels: palette, keys, the form of a new run, layout, frames, settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "ui/panel_list.h"

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
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kNone);
}

TEST_F(AppTest, QuestionMarkListsTheKeysAndEscapeClosesThem) {
  EXPECT_TRUE(harness_.Drive(
      [](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Shift | ImGuiKey_Slash); }));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kKeys);
  ASSERT_NE(harness_.log().Find("keys", "key:Ctrl+Shift+P, Ctrl+P"), nullptr);
  for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
    harness_.shell().Post(ui::SetLanguage{language});
    harness_.Frames(4);
    const ImGuiWindow* window = ImGui::FindWindowByName("##keys");
    ASSERT_NE(window, nullptr);
    for (const ui::DrawnItem& item : harness_.log().items()) {
      if (item.panel != "keys") continue;
      EXPECT_LE(item.box.x1, window->ContentRegionRect.Max.x) << item.id;
    }
  }
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Escape); }));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kNone);
}

TEST_F(AppTest, EndFollowsTheRunAndHomeShowsAllOfItAndNeitherScrollsThePanelThatHasTheKeyboard) {
  harness_.Resize(1200, 420);
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 8, 4));
  harness_.shell().Post(ui::FocusPanel{"run_control"});
  harness_.Frames(8);
  const ImGuiWindow* panel = PartOf("run_control", "knobs");
  ASSERT_NE(panel, nullptr);
  ASSERT_GT(panel->ScrollMax.y, 0);
  const auto press = [&](ImGuiKey key) {
    EXPECT_TRUE(harness_.Drive([key](ImGuiTestContext* test) {
      test->KeyPress(key);
      test->SleepNoSkip(0.5F, 1.0F / 60);  // the view moves
    }));
    EXPECT_EQ(panel->Scroll.y, 0);
  };
  const ui::View& view = harness_.context().view;
  ASSERT_FALSE(view.follow);
  press(ImGuiKey_End);
  EXPECT_TRUE(view.follow);
  press(ImGuiKey_Home);
  EXPECT_FALSE(view.follow);
  EXPECT_LE(view.start_ns, harness_.context().snapshot->start_ns);
  EXPECT_GE(view.end_ns, harness_.context().snapshot->end_ns);
}

TEST_F(AppTest, ASmallerWindowLeavesTheTimelineItsPartAndALargerOneGivesItBack) {
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 8, 4));
  harness_.Frames(8);
  const auto width = [](const char* panel) { return ImGui::FindWindowByName(panel)->Size.x; };
  const float left = width("###run_control");
  const float right = width("###overlap");
  harness_.Resize(700, 450);
  harness_.Frames(8);
  EXPECT_GT(width("###timeline"), 700 * 0.4F);
  EXPECT_LT(width("###run_control"), 700 * 0.3F);
  harness_.Resize(1600, 900);
  harness_.Frames(8);
  EXPECT_NEAR(width("###run_control"), left, 8);
  EXPECT_NEAR(width("###overlap"), right, 8);
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

TEST_F(AppTest, FormShowsAndListsWhatWasChangedWhileTheSearchHidesIt) {
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_2);
    test->Yield(3);
    test->SetRef("//###runs");
    test->ItemInputValue("**/##search", "train.steps");
    test->ItemInputValue("**/train.steps/##value", "many");
    test->ItemInputValue("**/##search", "bandwidth");
  }));
  EXPECT_NE(harness_.log().Find("runs", "error:train.steps"), nullptr);
  ASSERT_NE(harness_.log().Find("runs", "changed"), nullptr);
  EXPECT_THAT(harness_.log().Find("runs", "changed")->text, testing::HasSubstr("1 key"));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###runs");
    test->ItemClick("**/changed");
    test->Yield(2);
    EXPECT_TRUE(test->ItemExists("**/train.steps/##value"));
    EXPECT_FALSE(test->ItemExists("**/link.bandwidth/##value"));
    test->ItemClick("**/changed");
    test->Yield(2);
    EXPECT_TRUE(test->ItemExists("**/link.bandwidth/##value"));
  }));
}

TEST_F(AppTest, TheMenuHasLanguageThemeAndSizeAndClosesByItsButton) {
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//##top_bar");
    test->ItemClick("menu");
    test->Yield(2);
    test->SetRef("//##menu");
    test->ItemClick("Language/中文");
    test->ItemClick("Theme/浅色");
    test->ItemClick("Size/A +");
  }));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kMenu);
  EXPECT_EQ(harness_.context().language, ui::Language::kChinese);
  EXPECT_EQ(harness_.context().theme_name, ui::ThemeName::kLight);
  EXPECT_GT(harness_.context().scale, 1);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//##top_bar");
    test->ItemClick("menu");
  }));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kNone);
}

TEST_F(AppTest, TheMenuLeadsToHelpAndHelpNamesTheDocumentation) {
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//##top_bar");
    test->ItemClick("menu");
    test->Yield(2);
    test->SetRef("//##menu");
    test->ItemClick("Help");
  }));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kHelp);
  const auto& items = harness_.log().items();
  EXPECT_TRUE(std::any_of(items.begin(), items.end(), [](const ui::DrawnItem& item) {
    return item.panel == "help" && item.text.find("README.md") != std::string::npos;
  }));
  std::string help;
  for (const ui::DrawnItem& item : items) {
    if (item.panel == "help") help += item.text;
  }
  for (const ui::PanelInfo& panel : ui::kPanelList) {
    const std::string gap = *panel.key_name == '\0' ? "" : " ";
    EXPECT_THAT(help, testing::HasSubstr(ui::Tr(ui::Language::kEnglish, panel.title) + gap +
                                         panel.key_name));
  }
}

TEST_F(AppTest, AClickOnAChangeShowsItsStep) {
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 24, 12));
  harness_.Frames(8);
  const query::Snapshot& run = *harness_.context().snapshot;
  harness_.shell().Post(ui::SetView{run.start_ns, run.start_ns + 1'000'000, false, false});
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_C);
    test->Yield(2);
    test->MouseMoveToPos(PlaceOf(harness_, "changes", "change:12"));
    test->MouseClick();
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kNone);
  const int64_t changed_ns = harness_.context().change.time_ns;
  EXPECT_LT(harness_.context().view.start_ns, changed_ns);
  EXPECT_GT(harness_.context().view.end_ns, changed_ns);
}

TEST_F(AppTest, LongLinesOfTheLogAreWrapped) {
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 8, 4));
  const std::string path(400, 'x');
  harness_.shell().Post(ui::OpenRun{"/no/" + path});
  harness_.shell().Post(ui::FocusPanel{"log"});
  harness_.Frames(4);
  harness_.shell().Post(ui::FocusPanel{"log"});
  harness_.Frames(6);
  const ui::DrawnItem* line = harness_.log().Find("log", "line");
  ASSERT_NE(line, nullptr);
  EXPECT_THAT(line->text, testing::HasSubstr(path));
  EXPECT_LE(line->box.x1, 1600);
  EXPECT_GT(line->box.y1 - line->box.y0, 2 * 11);
}

// What `shardscope open RUN` does with a layout in which another tab was left in front.
TEST(OpenTest, ShowsTheRunAndNotTheTabThatWasLastOpen) {
  const std::string folder = testing::TempDir() + "/shardscope_layout_test";
  std::filesystem::remove_all(folder);
  const auto frame = [](shell::Shell* shell, shell::NullSurface* surface) {
    surface->BeginFrame();
    ImGui::NewFrame();
    shell->Frame();
    ImGui::Render();
    surface->EndFrame();
  };
  for (const bool again : {false, true}) {
    shell::Gui gui;
    shell::NullSurface surface(1600, 900);
    shell::ShellOptions options;
    options.settings_folder = folder;
    options.log_drawing = true;
    shell::Shell shell(std::move(options), gui.fonts().fonts);
    shell.OpenSnapshot(analysis::MakeLessonSnapshot(2, 8, 4));
    for (int i = 0; i < 8; ++i) frame(&shell, &surface);
    EXPECT_NE(shell.draw_log().Find("timeline", "rank:0"), nullptr) << again;
    EXPECT_EQ(shell.draw_log().Find("runs", "new_run"), nullptr) << again;
    shell.Post(ui::FocusPanel{"runs"});
    for (int i = 0; i < 8; ++i) frame(&shell, &surface);
    EXPECT_NE(shell.draw_log().Find("runs", "new_run"), nullptr);
    EXPECT_GT(shell.SecondsUntilPoll(), 1);
    ImGui::SaveIniSettingsToDisk(ImGui::GetIO().IniFilename);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(AppTest, TheKeyToOpenARunPutsTheKeyboardIntoTheField) {
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 8, 4));
  harness_.Frames(8);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_O);
    test->Yield(8);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
    test->KeyChars("/no/such/run");
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(8);
  }));
  ASSERT_NE(harness_.log().Find("runs", "error"), nullptr);
  EXPECT_THAT(harness_.log().Find("runs", "error")->text, testing::HasSubstr("/no/such/run"));
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
