// The panel SQL over a run on disk: tables, a statement, its rows, the way to the timeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>

#include "tests/ui/harness.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::ui_test {
namespace {

using ::testing::HasSubstr;

constexpr double kSqlSeconds = 60;  // of the worst machine
constexpr int64_t kSqlMs = 1'000'000;

// Two ranks, three steps of one op of 4 ms each, its name "F block0".
class SqlTest : public testing::Test {
 protected:
  SqlTest() {
    const auto recorder = query::OpenRecorder(folder_.path());
    for (int64_t rank = 0; rank < 2; ++rank) {
      schema::RankRow row;
      row.rank = rank;
      recorder->Add(row);
    }
    std::vector<schema::TrackId> tracks;
    for (int64_t rank = 0; rank < 2; ++rank) {
      schema::TrackRow row;
      row.rank = rank;
      row.name = row.role = "compute";
      tracks.push_back(recorder->Add(row));
    }
    const auto op = query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
    for (int64_t step = 0; step < 3; ++step) {
      for (int64_t rank = 0; rank < 2; ++rank) {
        const int64_t start_ns = (100 + 10 * step) * kSqlMs;
        record::OpRecord run = query::OpAt(op, rank, step, start_ns, start_ns + 4 * kSqlMs);
        run.run.track = tracks[static_cast<size_t>(rank)];
        recorder->Record(run);
        schema::StepRow row;
        row.rank = rank;
        row.step = step;
        row.start_ns = start_ns;
        row.end_ns = start_ns + 9 * kSqlMs;
        recorder->Record(row);
      }
    }
    SHARDSCOPE_CHECK(recorder->Finish().ok());
    SHARDSCOPE_CHECK(harness_.shell().Open(folder_.path()).ok());
    EXPECT_TRUE(
        harness_.Until([this] { return !harness_.context().snapshot->loading; }, kSqlSeconds));
    harness_.Frames(4);
  }

  const ui::DrawnItem* Drawn(const char* id) const { return harness_.log().Find("sql", id); }
  bool Shown(const char* id) {
    return harness_.Until([&] { return Drawn(id) != nullptr; }, kSqlSeconds);
  }
  void Click(const std::string& id) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(PlaceOf(harness_, "sql", id));
      test->MouseClick();
    }));
  }

  const query::TestFolder folder_;
  Harness harness_;
};

TEST_F(SqlTest, AClickOnAViewListsItsRowsAndOneOnARowShowsItsOp) {
  EXPECT_TRUE(
      harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_4); }));
  ASSERT_TRUE(Shown("table:v_op_run"));
  EXPECT_NE(Drawn("hint"), nullptr);
  Click("table:v_op_run");
  ASSERT_TRUE(Shown("row:5"));
  EXPECT_EQ(Drawn("hint"), nullptr);
  EXPECT_EQ(std::get<int64_t>(Drawn("rows")->value), 6);
  EXPECT_THAT(Drawn("rows")->text, ::testing::StartsWith("6 rows, "));
  EXPECT_EQ(Drawn("row:6"), nullptr);
  EXPECT_THAT(Drawn("row:5")->text, HasSubstr("F block0"));
  EXPECT_EQ(harness_.context().sql.history.size(), 1u);

  Click("row:5");
  harness_.Frames(4);
  EXPECT_EQ(harness_.context().selection.rank, 1);
  EXPECT_EQ(harness_.context().selection.op_run,
            harness_.context().snapshot->ranks[1].op_runs[2].id);
  EXPECT_TRUE(harness_.Until([this] { return Drawn("rows") == nullptr; }, kSqlSeconds));
  EXPECT_LT(harness_.context().view.end_ns - harness_.context().view.start_ns, 10 * kSqlMs);
}

TEST_F(SqlTest, ColumnsAreAsWideAsTheirRowsAndNotOnlyTheFirst) {
  EXPECT_TRUE(
      harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_4); }));
  harness_.shell().Post(ui::RunSql{
      "SELECT rank, substr('123456789', 1, 1 + 8 * (id > 1)) + 0 AS n, step FROM op_run"});
  ASSERT_TRUE(Shown("cell:5:1"));
  harness_.Frames(4);
  for (const char* id : {"cell:0:1", "cell:5:1"}) {
    const ui::DrawnItem* cell = Drawn(id);
    ASSERT_NE(cell, nullptr) << id;
    // In the mono font no digit is narrower than 5 pixels.
    EXPECT_GE(cell->box.x1 - cell->box.x0, 9 * 5) << id;
  }
  EXPECT_EQ(Drawn("cell:0:1")->text, "1");
  EXPECT_EQ(Drawn("cell:5:1")->text, "123456789");
}

TEST_F(SqlTest, OneRowIsCountedAsOne) {
  EXPECT_TRUE(
      harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_4); }));
  harness_.shell().Post(ui::RunSql{"SELECT 7"});
  ASSERT_TRUE(Shown("rows"));
  EXPECT_THAT(Drawn("rows")->text, ::testing::StartsWith("1 row, "));
}

TEST_F(SqlTest, SaysWhatIsWrongAndKeepsWhatWasTyped) {
  EXPECT_TRUE(
      harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_4); }));
  ASSERT_TRUE(Shown("table:v_step"));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###sql");
    test->ItemInput("**/##statement");
    test->KeyCharsReplace("SELECT rank FROM v_steps");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_1);  // away while it is typed, and back
  }));
  EXPECT_TRUE(harness_.Until([this] { return Drawn("table:v_step") == nullptr; }, kSqlSeconds));
  EXPECT_TRUE(
      harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_4); }));
  ASSERT_TRUE(Shown("table:v_step"));
  EXPECT_EQ(Drawn("error"), nullptr);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###sql");
    test->ItemInput("**/##statement");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter);
  }));
  ASSERT_TRUE(Shown("error"));
  EXPECT_THAT(Drawn("error")->text, HasSubstr("did you mean v_step?"));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###sql");
    test->ItemInput("**/##statement");
    test->KeyCharsReplace("DROP TABLE op_run");
    test->ItemClick("**/run");
  }));
  EXPECT_TRUE(harness_.Until(
      [this] {
        const ui::DrawnItem* error = Drawn("error");
        return error != nullptr && error->text.find("only read") != std::string::npos;
      },
      kSqlSeconds));
  EXPECT_EQ(harness_.context().sql.history.size(), 2u);
}

TEST_F(SqlTest, AStatementThatGoesOnIsCancelled) {
  EXPECT_TRUE(
      harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_4); }));
  harness_.shell().Post(ui::RunSql{
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"});
  ASSERT_TRUE(Shown("running"));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###sql");
    test->ItemClick("**/cancel");
  }));
  EXPECT_TRUE(Shown("cancelled"));
  // Its tooltip would stand over that.
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###sql");
    test->MouseMove("**/run");
    test->SleepNoSkip(1, 1.0F / 30);
    const ImGuiWindow* tooltip = ImGui::FindWindowByName("##Tooltip_00");
    EXPECT_TRUE(tooltip == nullptr || !tooltip->Active);
  }));
}

TEST_F(SqlTest, WhileAStatementRunsTheRowsOfTheOneBeforeAreNotClicked) {
  const auto is_disabled = [&] {
    bool is = false;
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      ImGuiTestItemList items;
      test->GatherItems(&items, test->GetID("//###sql"), 9);
      for (const ImGuiTestItemInfo& item : items) {
        if (std::string_view(item.DebugLabel) != "##row") continue;
        is = (item.ItemFlags & ImGuiItemFlags_Disabled) != 0;
      }
    }));
    return is;
  };
  harness_.shell().Post(ui::FocusPanel{"sql"});
  harness_.shell().Post(ui::RunSql{"SELECT id AS op_run FROM op_run"});
  ASSERT_TRUE(Shown("row:5"));
  EXPECT_FALSE(is_disabled());
  harness_.shell().Post(ui::RunSql{
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"});
  ASSERT_TRUE(Shown("running"));
  EXPECT_TRUE(is_disabled());
  harness_.shell().Post(ui::CancelSql{});
  EXPECT_TRUE(Shown("cancelled"));
}

TEST_F(SqlTest, TheFieldKeepsTheKeyboardWhenItsStatementIsRun) {
  harness_.shell().Post(ui::FocusPanel{"sql"});
  ASSERT_TRUE(Shown("table:v_step"));
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->SetRef("//###sql");
    test->ItemInput("**/##statement");
    test->KeyCharsReplace("SELECT rank FROM v_step");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter);
    test->Yield(6);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
    test->KeyChars(" LIMIT 1");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter);
    test->Yield(6);
  }));
  ASSERT_EQ(harness_.context().sql.history.size(), 2u);
  EXPECT_EQ(harness_.context().sql.history.back(), "SELECT rank FROM v_step LIMIT 1");
}

TEST_F(SqlTest, ItsKeyPutsTheCaretIntoTheFieldAndOthersGoPastIt) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const auto wait = [&](const std::function<bool()>& is_there) {
      for (int i = 0; i < 2000 && !is_there(); ++i) {
        test->Yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      EXPECT_TRUE(is_there());
    };
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_4);
    test->Yield(8);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
    test->KeyChars("SELECT rank FROM v_step");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter);
    wait([this] { return Drawn("row:5") != nullptr; });
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_E);
    wait([this] { return harness_.context().notice.text.find("sql-1.csv") != std::string::npos; });
    test->KeyChars(" LIMIT 1");
    test->KeyPress(ImGuiKey_Escape);
    test->Yield(4);
    EXPECT_FALSE(ImGui::GetIO().WantTextInput);
    test->SetRef("//###sql");
    test->ItemClick("**/run");
    test->Yield(4);
  }));
  ASSERT_EQ(harness_.context().sql.history.size(), 2u);
  EXPECT_EQ(harness_.context().sql.history.back(), "SELECT rank FROM v_step LIMIT 1");
}

TEST_F(SqlTest, TheChartDrawsNumbersAndAClickShowsTheRow) {
  harness_.shell().Post(ui::FocusPanel{"sql"});
  harness_.shell().Post(ui::RunSql{"SELECT op FROM v_op_run"});
  ASSERT_TRUE(Shown("row:5"));
  const auto click_segment = [&] {
    EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
      test->SetRef("//###sql");
      test->ItemClick("**/Chart");
    }));
    harness_.Frames(4);
  };
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###sql");
    EXPECT_FALSE(test->ItemExists("**/Chart"));  // no number
  }));
  harness_.shell().Post(ui::RunSql{"SELECT step, id AS op_run, started_ns FROM op_run"});
  ASSERT_TRUE(Shown("cell:5:2"));
  click_segment();
  ASSERT_NE(Drawn("chart"), nullptr);
  EXPECT_EQ(Drawn("row:5"), nullptr);
  EXPECT_EQ(Drawn("chart")->text, "step");
  EXPECT_EQ(std::get<int64_t>(Drawn("chart")->value), 6);
  ASSERT_NE(Drawn("series:op_run"), nullptr);
  ASSERT_NE(Drawn("series:started_ns"), nullptr);
  EXPECT_EQ(std::get<int64_t>(Drawn("series:started_ns")->value), 3);  // of two ranks each
  EXPECT_EQ(Drawn("series:step"), nullptr);

  const ui::Box part = Drawn("series:op_run")->box;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos({part.x1 - 3, part.y0 + 2});
    test->Yield(2);
    ASSERT_NE(Drawn("tooltip"), nullptr);
    EXPECT_THAT(Drawn("tooltip")->text, HasSubstr("step  2"));
    test->MouseClick();
  }));
  harness_.Frames(4);
  EXPECT_EQ(harness_.context().selection.op_run,
            harness_.context().snapshot->ranks[1].op_runs[2].id);
}

}  // namespace
}  // namespace shardscope::ui_test
