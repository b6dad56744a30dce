// The start page, the palette and what they lead to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/places.h"
#include "tests/ui/harness.h"
#include "trace/query/trace_test_util.h"
#include "ui/panels/runs/start_cards.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

class StartPageTest : public testing::Test {
 protected:
  StartPageTest() : harness_({}, BinDir()) {
    harness_.shell().Post(ui::FocusPanel{"runs"});
    harness_.Frames(8);
  }
  const ui::DrawnItem* Drawn(const char* panel, const std::string& id) const {
    return harness_.log().Find(panel, id);
  }
  // Opens the palette, types, and chooses what is marked.
  void Choose(ImGuiTestContext* test, const char* query) const {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_P);
    test->Yield(3);
    test->KeyChars(query);
    test->Yield(2);
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(8);
  }

  Harness harness_;
};

TEST_F(StartPageTest, HasACardForEachPresetItNames) {
  for (const panels::StartCard& card : panels::StartCards()) {
    const std::string id = *card.preset == '\0' ? "trace" : card.preset;
    EXPECT_NE(Drawn("runs", "card:" + id), nullptr) << id;
    if (*card.preset == '\0') continue;
    const std::string file = PresetFileOf(card, harness_.context().places);
    EXPECT_TRUE(std::filesystem::exists(file)) << id;
  }
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 8, 4));
  harness_.shell().Post(ui::FocusPanel{"runs"});
  harness_.Frames(8);
  EXPECT_EQ(Drawn("runs", "cards"), nullptr);  // only where no run is open
  EXPECT_NE(Drawn("runs", "new_run"), nullptr);
}

TEST_F(StartPageTest, NoLineOfAChineseCardBeginsWithAComma) {
  harness_.shell().Post(ui::SetLanguage{ui::Language::kChinese});
  harness_.Frames(8);
  size_t num_lines = 0;
  for (const panels::StartCard& card : panels::StartCards()) {
    const std::string id = *card.preset == '\0' ? "trace" : card.preset;
    const ui::DrawnItem* what = Drawn("runs", "card_what:" + id);
    ASSERT_NE(what, nullptr) << id;
    for (const char* closing : {"\n，", "\n。", "\n：", "\n）"}) {
      EXPECT_THAT(what->text, testing::Not(HasSubstr(closing))) << id;
    }
    num_lines += static_cast<size_t>(std::ranges::count(what->text, '\n')) + 1;
  }
  EXPECT_GT(num_lines, panels::StartCards().size());  // some have several
}

TEST_F(StartPageTest, TheCardOfATracePutsTheKeyboardIntoTheField) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "runs", "card:trace"));
    test->MouseClick();
    test->Yield(3);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
    test->KeyChars("/no/such/trace");
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(8);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);  // what is typed on is no key command
  }));
  ASSERT_NE(Drawn("runs", "error"), nullptr);
  EXPECT_THAT(Drawn("runs", "error")->text, HasSubstr("/no/such/trace"));
}

TEST_F(StartPageTest, AKeyOfThePaletteLeadsToItsFieldAndHelp) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_1);
    test->Yield(5);
    Choose(test, "model.layers");
    test->SetRef("//###runs");
    EXPECT_TRUE(test->ItemExists("**/model.layers/##value"));
  }));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kNone);
  EXPECT_NE(Drawn("runs", "help:model.layers"), nullptr);
}

TEST_F(StartPageTest, ThePaletteIsDrivenByKeysAlone) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Choose(test, "theme light");
    EXPECT_EQ(harness_.context().theme_name, ui::ThemeName::kLight);
    Choose(test, "size 125");
    EXPECT_FLOAT_EQ(harness_.context().scale, 1.25F);
    Choose(test, "language english");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_P);  // as before
    test->Yield(3);
    EXPECT_EQ(harness_.context().overlay, ui::Overlay::kPalette);
    // The marked one stays in sight however far down it is.
    for (int i = 0; i < 30; ++i) test->KeyPress(ImGuiKey_DownArrow);
    test->Yield(3);
    const auto marked = [&]() -> const ui::DrawnItem* {
      const auto& items = harness_.log().items();
      const auto found = std::ranges::find_if(items, [](const ui::DrawnItem& item) {
        return item.panel == "palette" && item.id.starts_with("marked:");
      });
      return found == items.end() ? nullptr : &*found;
    };
    ASSERT_NE(marked(), nullptr);
    const ImGuiWindow* window = ImGui::FindWindowByName("##palette");
    ASSERT_NE(window, nullptr);
    EXPECT_GE(marked()->box.y0, window->Pos.y);
    EXPECT_LE(marked()->box.y1, window->Pos.y + window->Size.y);
    const auto marked_after = [&](ImGuiKey key) {
      test->KeyPress(key);
      test->Yield(2);
      return marked() == nullptr ? std::string() : marked()->id;
    };
    const std::string low = marked()->id;
    const std::string over_it = marked_after(ImGuiKey_UpArrow);
    EXPECT_NE(over_it, low);
    EXPECT_EQ(marked_after(ImGuiKey_DownArrow), low);
    const std::string a_page_up = marked_after(ImGuiKey_PageUp);
    EXPECT_NE(a_page_up, low);
    EXPECT_NE(a_page_up, over_it);
    EXPECT_EQ(marked_after(ImGuiKey_PageDown), low);
    test->KeyPress(ImGuiKey_Escape);
  }));
}

// Two steps of 10 ms, the second with 2 ms more of compute.
void RecordTwoSteps(const std::string& folder) {
  const auto recorder = query::OpenRecorder(folder);
  recorder->Add(schema::RankRow{0, "host", 1, "cpu"});
  const schema::TrackId track = recorder->Add(schema::TrackRow{{}, 0, "compute", "compute", 1});
  const auto op = query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  for (int64_t step = 0; step < 2; ++step) {
    const int64_t start_ns = (100 + 10 * step) * 1'000'000;
    record::OpRecord run =
        query::OpAt(op, 0, step, start_ns, start_ns + (4 + 2 * step) * 1'000'000);
    run.run.track = track;
    recorder->Record(run);
    schema::StepRow row;
    row.step = step;
    row.start_ns = start_ns;
    row.end_ns = start_ns + 10'000'000;
    recorder->Record(row);
  }
  SHARDSCOPE_CHECK(recorder->Finish().ok());
}

TEST(StatementsTest, AreThereInTheNextSession) {
  const query::TestFolder folder;
  RecordTwoSteps(folder.path());
  const query::TestFolder settings;
  const std::string statement = "SELECT step FROM v_step";
  {
    Harness harness(settings.path());
    ASSERT_TRUE(harness.shell().Open(folder.path()).ok());
    ASSERT_TRUE(harness.Until([&] { return !harness.context().snapshot->loading; }, 60));
    harness.shell().Post(ui::RunSql{statement});
    EXPECT_TRUE(harness.Until([&] { return harness.context().sql.answer != nullptr; }, 60));
  }
  const Harness again(settings.path());
  EXPECT_EQ(again.context().sql.history, std::vector<std::string>{statement});
}

TEST_F(StartPageTest, ARunThatWasOpenIsListedWithAPictureOfItsSteps) {
  const query::TestFolder folder;
  RecordTwoSteps(folder.path());
  ASSERT_TRUE(harness_.shell().Open(folder.path() + "/.").ok());  // another name of it
  const std::string path = harness_.context().path;
  ASSERT_TRUE(harness_.Until([&] { return harness_.context().report != nullptr; }, 60));
  harness_.shell().Post(ui::FocusPanel{"runs"});
  harness_.Frames(8);
  EXPECT_EQ(Drawn("runs", "picture:" + path), nullptr);  // it may still change
  ASSERT_NE(Drawn("runs", "open_run"), nullptr);
  EXPECT_EQ(Drawn("runs", "open_run")->text, path);
  harness_.shell().Post(ui::CloseRun{});
  harness_.Frames(8);
  EXPECT_EQ(Drawn("runs", "open_run"), nullptr);
  const ui::DrawnItem* picture = Drawn("runs", "picture:" + path);
  ASSERT_NE(picture, nullptr);
  EXPECT_EQ(std::get<int64_t>(picture->value), 2);
  const std::vector<ui::RunEntry>& runs = harness_.context().places.runs;
  const auto run = std::ranges::find(runs, path, &ui::RunEntry::path);
  ASSERT_NE(run, runs.end());
  EXPECT_EQ(run->picture.front(), (ui::PictureBar{4e6, 0, 6e6}));
  EXPECT_EQ(run->picture.back(), (ui::PictureBar{6e6, 0, 4e6}));
  // Its row opens it.
  ASSERT_EQ(harness_.context().snapshot, nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "runs", "run:" + path));
    test->MouseClick();
    test->Yield(4);
  }));
  EXPECT_EQ(harness_.context().path, path);
  EXPECT_NE(harness_.context().snapshot, nullptr);
}

}  // namespace
}  // namespace shardscope::ui_test
