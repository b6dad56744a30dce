// The search, driven as a user would: type, step through what it finds, see it in the lanes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <variant>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/find/search.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

class SearchPanelTest : public testing::Test {
 protected:
  SearchPanelTest() : snapshot_(analysis::MakeLessonSnapshot(4, 24, 12)) {
    harness_.shell().OpenSnapshot(snapshot_);
    harness_.Frames(8);
  }

  // What the search has to show.
  analysis::SearchResult Expected(const std::string& query) const {
    return analysis::Search(*snapshot_,
                            std::get<analysis::SearchQuery>(analysis::ParseSearch(query)));
  }

  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("search", id);
  }

  // Types into the field that has the keyboard and lets the worker end.
  void Type(ImGuiTestContext* test, const std::string& query) {
    test->KeyChars(query.c_str());
    for (int i = 0; i < 2000; ++i) {
      test->Yield();
      const ui::SearchState& search = harness_.context().search;
      if (search.text == query && search.found != nullptr && search.found->text == query) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    test->Yield(2);  // and draws it
  }

  void OpenAndType(ImGuiTestContext* test, const std::string& query) {
    test->KeyPress(ImGuiKey_Slash);
    test->Yield(3);
    Type(test, query);
  }

  static void Press(ImGuiTestContext* test, ImGuiKeyChord chord) {
    test->KeyPress(chord);
    test->SleepNoSkip(0.3F, 1.0F / 60);  // the view moves
  }

  bool IsInView(const analysis::SearchHit& hit) const {
    const ui::View& view = harness_.context().view;
    return hit.start_ns >= view.start_ns && hit.end_ns <= view.end_ns;
  }

  query::SnapshotPtr snapshot_;
  Harness harness_;
};

TEST_F(SearchPanelTest, SaysHowManyAndHowLong) {
  const std::string query = "kind:all_gather rank:1";
  const analysis::SearchResult expected = Expected(query);
  ASSERT_GT(expected.count, 20);
  EXPECT_EQ(Drawn("query"), nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_Slash);
    test->Yield(3);
    EXPECT_NE(Drawn("query"), nullptr);
    EXPECT_NE(Drawn("keys"), nullptr);
    Type(test, query);
  }));
  ASSERT_NE(Drawn("count"), nullptr);
  EXPECT_EQ(Drawn("query")->text, query);
  EXPECT_EQ(std::get<int64_t>(Drawn("count")->value), expected.count);
  EXPECT_EQ(std::get<int64_t>(Drawn("sum")->value), expected.sum_ns);
  EXPECT_EQ(std::get<double>(Drawn("p50")->value), expected.duration_ns.p50);
  EXPECT_EQ(std::get<double>(Drawn("p95")->value), expected.duration_ns.p95);
  ASSERT_NE(Drawn("hit:0"), nullptr);
  EXPECT_EQ(Drawn("hit:0")->text, NameOf(*snapshot_, expected.hits[0]));
  EXPECT_EQ(std::get<int64_t>(Drawn("hit:0")->value),
            expected.hits[0].end_ns - expected.hits[0].start_ns);
}

TEST_F(SearchPanelTest, EnterStepsThroughTheHits) {
  const std::string query = "kind:reduce_scatter rank:2 step:5";  // not in view at first
  const std::vector<analysis::SearchHit> hits = Expected(query).hits;
  ASSERT_GT(hits.size(), 2u);
  ASSERT_FALSE(IsInView(hits[0]));
  const auto is_selected = [&](size_t at) {
    const ui::Selection& selection = harness_.context().selection;
    return selection.op_run == hits[at].op_run && selection.rank == 2 && IsInView(hits[at]) &&
           harness_.log().Find("timeline", "op_run:2:" + std::to_string(hits[at].op_run.value())) !=
               nullptr;
  };
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenAndType(test, query);
    Press(test, ImGuiKey_Enter);  // all are before the view: round the end
    EXPECT_TRUE(is_selected(0));
    ASSERT_NE(Drawn("count"), nullptr);
    EXPECT_THAT(Drawn("count")->text, testing::StartsWith("1 of "));
    Press(test, ImGuiKey_Enter);  // the field still has the keyboard
    EXPECT_TRUE(is_selected(1));
    Press(test, ImGuiKey_F3);
    EXPECT_TRUE(is_selected(2));
    Press(test, ImGuiMod_Shift | ImGuiKey_Enter);
    Press(test, ImGuiMod_Shift | ImGuiKey_F3);
    EXPECT_TRUE(is_selected(0));
    Press(test, ImGuiMod_Shift | ImGuiKey_Enter);
    EXPECT_TRUE(is_selected(hits.size() - 1));
  }));
  EXPECT_EQ(harness_.context().search.text, query);  // no key got into the field
  // Details comes to the front, and leaves the keyboard where it is.
  harness_.shell().Post(ui::AskBlocks{});
  harness_.Frames(8);
  EXPECT_EQ(harness_.log().Find("details", "title"), nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->SetRef("//##search");
    test->ItemClick("##query");
    Press(test, ImGuiKey_Enter);
    test->Yield(4);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
  }));
  EXPECT_NE(harness_.log().Find("details", "title"), nullptr);
}

TEST_F(SearchPanelTest, WithoutTheFieldF3StepsAndEscapeClosesFirst) {
  const std::string query = "kind:all_gather step:3";
  const std::vector<analysis::SearchHit> hits = Expected(query).hits;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenAndType(test, query);
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "minimap"));
    test->MouseClick();  // the keyboard leaves the field, the search stays
    EXPECT_FALSE(ImGui::GetIO().WantTextInput);
    EXPECT_NE(Drawn("count"), nullptr);
    Press(test, ImGuiKey_F3);
    EXPECT_EQ(harness_.context().selection.op_run, hits[0].op_run);
    Press(test, ImGuiMod_Shift | ImGuiKey_F3);
    EXPECT_EQ(harness_.context().selection.op_run, hits.back().op_run);
    Press(test, ImGuiKey_Escape);
    EXPECT_EQ(Drawn("query"), nullptr);
    EXPECT_EQ(harness_.context().selection.op_run, hits.back().op_run);
    Press(test, ImGuiKey_Escape);
    EXPECT_TRUE(harness_.context().selection.op_run.is_none());
    // It comes back with what was typed, and steps on; the field has no part in that.
    Press(test, ImGuiKey_F3);
  }));
  EXPECT_TRUE(harness_.Until([&] { return !harness_.context().selection.op_run.is_none(); }, 20));
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    ASSERT_NE(Drawn("query"), nullptr);
    EXPECT_EQ(Drawn("query")->text, query);
    EXPECT_FALSE(ImGui::GetIO().WantTextInput);
    Press(test, ImGuiKey_Escape);
    EXPECT_EQ(Drawn("query"), nullptr);
  }));
}

TEST_F(SearchPanelTest, HitsAreLitInLanesAndMinimap) {
  const auto lit = [&](const char* id) {
    const ui::DrawnItem* item = harness_.log().Find("timeline", id);
    return item == nullptr ? 0 : std::get<int64_t>(item->value);
  };
  EXPECT_EQ(lit("hits_lit"), 0);
  EXPECT_TRUE(
      harness_.Drive([&](ImGuiTestContext* test) { OpenAndType(test, "kind:forward rank:0"); }));
  const int64_t of_one_rank = lit("hits_lit");
  int64_t in_view = 0;
  for (const analysis::SearchHit& hit : Expected("kind:forward rank:0").hits) {
    const ui::View& view = harness_.context().view;
    in_view += hit.end_ns >= view.start_ns && hit.start_ns < view.end_ns ? 1 : 0;
  }
  EXPECT_GT(of_one_rank, 0);
  EXPECT_LE(of_one_rank, in_view);  // on the same pixels they are one
  EXPECT_GT(lit("minimap_hits"), 20);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Escape); }));
  EXPECT_EQ(lit("hits_lit"), 0);
  EXPECT_EQ(lit("minimap_hits"), 0);
}

TEST_F(SearchPanelTest, AClickOnAHitUnfoldsItsRankAndShowsItsLane) {
  harness_.shell().Post(ui::FoldRanks{true});
  harness_.Frames(4);
  const std::string query = "\"rs block1\" rank:3";
  const std::vector<analysis::SearchHit> hits = Expected(query).hits;
  ASSERT_GT(hits.size(), 3u);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenAndType(test, query);
    test->MouseMoveToPos(PlaceOf(harness_, "search", "hit:3"));
    test->MouseClick();
    test->SleepNoSkip(0.3F, 1.0F / 60);
  }));
  EXPECT_EQ(harness_.context().selection.op_run, hits[3].op_run);
  EXPECT_FALSE(harness_.context().lanes.folded_ranks.contains(3));
  EXPECT_TRUE(harness_.context().lanes.folded_ranks.contains(0));
  EXPECT_NE(harness_.log().Find("timeline", "op_run:3:" + std::to_string(hits[3].op_run.value())),
            nullptr);
}

TEST_F(SearchPanelTest, AMarkerIsShownWithoutASelection) {
  const std::vector<analysis::SearchHit> hits = Expected("kind:change").hits;
  ASSERT_FALSE(hits.empty());
  harness_.shell().Post(ui::ShowStep{2});
  harness_.Frames(30);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenAndType(test, "kind:change");
    Press(test, ImGuiKey_Enter);
  }));
  EXPECT_TRUE(IsInView(hits[0]));
  EXPECT_TRUE(harness_.context().selection.op_run.is_none());
  EXPECT_TRUE(harness_.context().selection.span.is_none());
}

TEST_F(SearchPanelTest, SaysWhatIsWrongWithAQueryInTheLanguage) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenAndType(test, "slower:5");
    ASSERT_NE(Drawn("error"), nullptr);
    EXPECT_THAT(Drawn("error")->text, HasSubstr("slower:5: give a duration"));
    EXPECT_EQ(Drawn("count"), nullptr);
    Press(test, ImGuiKey_Enter);  // leads nowhere
    EXPECT_EQ(Drawn("hit:0"), nullptr);
  }));
  harness_.shell().Post(ui::SetLanguage{ui::Language::kChinese});
  harness_.Frames(3);
  ASSERT_NE(Drawn("error"), nullptr);
  EXPECT_THAT(Drawn("error")->text, HasSubstr("slower:5"));
  EXPECT_THAT(Drawn("error")->text, HasSubstr("时长"));
}

TEST_F(SearchPanelTest, SaysThatNothingFitsAndThatNoRunIsOpen) {
  EXPECT_TRUE(
      harness_.Drive([&](ImGuiTestContext* test) { OpenAndType(test, "no such thing here"); }));
  EXPECT_NE(Drawn("none"), nullptr);
  harness_.shell().Post(ui::CloseRun{});
  harness_.Frames(4);
  EXPECT_NE(Drawn("empty"), nullptr);
  EXPECT_EQ(harness_.context().search.found, nullptr);
  // Of the next run it finds what was typed.
  harness_.shell().OpenSnapshot(snapshot_);
  EXPECT_TRUE(harness_.Until([&] { return Drawn("none") != nullptr; }, 20));
}

// With a window of its own, in which what has a tooltip is logged.
TEST(SearchTermsTest, ItsFiguresAndHeadingsAreExplainedUnderTheMouse) {
  Harness harness({}, {}, /*log_widgets=*/true);
  harness.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
  harness.shell().Post(ui::ShowSearch{true});
  harness.shell().Post(ui::SearchFor{"kind:all_gather"});
  const auto drawn = [&](const char* id) { return harness.log().Find("search", id); };
  ASSERT_TRUE(harness.Until([&] { return drawn("hit:0") != nullptr; }, 20));
  const auto expect_tip = [&](ImVec2 at, const std::string& start) {
    std::string tip;
    EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(at);
      test->Yield(2);
      if (const ui::DrawnItem* item = drawn("tooltip")) tip = item->text;
    }));
    EXPECT_THAT(tip, testing::StartsWith(start));
    EXPECT_GT(tip.size(), start.size() + 10);
  };
  for (const char* id : {"sum", "p50", "p95"}) {
    const ui::Box box = drawn(id)->box;
    expect_tip({(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2}, drawn(id)->text + "\n");
  }
  // The headings stand over the first hit.
  const ui::Box hit = drawn("hit:0")->box;
  expect_tip({hit.x0 + 30, hit.y0 - 13}, "name\n");
  expect_tip({hit.x1 - 130, hit.y0 - 13}, "from start\n");
}

}  // namespace
}  // namespace shardscope::ui_test
