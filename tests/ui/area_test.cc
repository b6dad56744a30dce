// A stretch of time, marked and measured as a user would; and the keys that lead along spans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/find/area.h"
#include "trace/analysis/find/neighbours.h"
#include "trace/analysis/names.h"

namespace shardscope::ui_test {
namespace {

using analysis::HitKind;

class AreaPanelTest : public testing::Test {
 protected:
  AreaPanelTest() : snapshot_(analysis::MakeLessonSnapshot(4, 24, 12)) {
    harness_.shell().OpenSnapshot(snapshot_);
    harness_.Frames(8);
  }

  const ui::DrawnItem* Drawn(const char* panel, const std::string& id) const {
    return harness_.log().Find(panel, id);
  }
  int64_t Value(const char* panel, const std::string& id) const {
    const ui::DrawnItem* item = Drawn(panel, id);
    return item == nullptr ? -1 : std::get<int64_t>(item->value);
  }
  const std::optional<analysis::AreaQuery>& query() const { return harness_.context().area.query; }

  // The ruler is between minimap and lanes, as wide as the minimap.
  ui::Box Ruler() const {
    const ui::Box minimap = Drawn("timeline", "minimap")->box;
    return {minimap.x0, minimap.y1 + 4, minimap.x1, minimap.y1 + 24};
  }
  // `share`: of its width.
  ImVec2 InRuler(float share) const {
    const ui::Box ruler = Ruler();
    return {ruler.x0 + share * (ruler.x1 - ruler.x0), (ruler.y0 + ruler.y1) / 2};
  }
  // The time there, as the view has it now.
  int64_t TimeAt(float x) const {
    const ui::Box ruler = Ruler();
    const ui::View& view = harness_.context().view;
    const double share = static_cast<double>((x - ruler.x0) / (ruler.x1 - ruler.x0));
    return view.start_ns + std::llround(share * static_cast<double>(view.end_ns - view.start_ns));
  }
  int64_t PixelNs() const {
    const ui::View& view = harness_.context().view;
    return static_cast<int64_t>(static_cast<float>(view.end_ns - view.start_ns) /
                                (Ruler().x1 - Ruler().x0)) +
           1;
  }

  static void Drag(ImGuiTestContext* test, ImVec2 from, ImVec2 to) {
    test->MouseMoveToPos(from);
    test->MouseDown();
    test->MouseMoveToPos({(from.x + to.x) / 2, (from.y + to.y) / 2});
    test->MouseMoveToPos(to);
    test->MouseUp();
    test->Yield(2);
  }

  bool Measured() {
    return harness_.Until(
        [this] {
          const auto& area = harness_.context().area;
          return area.query && area.measured != nullptr && area.measured->query == *area.query &&
                 area.measured->has_causes && Drawn("details", "area_length") != nullptr &&
                 Drawn("details", "area_state") == nullptr;
        },
        20);
  }

  static void Press(ImGuiTestContext* test, ImGuiKeyChord chord) {
    test->KeyPress(chord);
    test->SleepNoSkip(0.3F, 1.0F / 60);  // the view moves
  }

  query::SnapshotPtr snapshot_;
  Harness harness_;
};

TEST_F(AreaPanelTest, ADragInTheRulerMeasuresWhatIsBetweenItsEdges) {
  int64_t from_ns = 0, to_ns = 0;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    from_ns = TimeAt(InRuler(0.7F).x);
    to_ns = TimeAt(InRuler(0.3F).x);
    Drag(test, InRuler(0.7F), InRuler(0.3F));  // to the left as well
  }));
  ASSERT_TRUE(query().has_value());
  EXPECT_NEAR(static_cast<double>(query()->time.start_ns), static_cast<double>(to_ns),
              2.0 * static_cast<double>(PixelNs()));
  EXPECT_NEAR(static_cast<double>(query()->time.end_ns), static_cast<double>(from_ns),
              2.0 * static_cast<double>(PixelNs()));
  EXPECT_THAT(query()->ranks, testing::IsEmpty());
  EXPECT_TRUE(harness_.context().selection.op_run.is_none());
  ASSERT_TRUE(Measured());
  const int64_t length_ns = query()->time.end_ns - query()->time.start_ns;
  EXPECT_EQ(Value("timeline", "area"), length_ns);  // the distance of the two cursors
  EXPECT_EQ(Value("timeline", "area_lanes"), 4);
  // Details say what the function says, and the identity holds in what is drawn.
  const analysis::Area expected = MeasureArea(*snapshot_, *query());
  EXPECT_EQ(Value("details", "area_length"), length_ns);
  for (const analysis::AreaRank& rank : expected.ranks) {
    const std::string suffix = ":" + std::to_string(rank.rank);
    EXPECT_EQ(Value("details", "area_compute" + suffix), rank.compute.union_ns);
    EXPECT_EQ(Value("details", "area_exposed" + suffix), rank.exposed_ns);
    EXPECT_EQ(
        Value("details", "area_compute" + suffix) + Value("details", "area_exposed" + suffix) +
            Value("details", "area_exposed_copy" + suffix) + Value("details", "area_idle" + suffix),
        length_ns);
  }
  const auto over_ranks = [&](auto time_of) {
    int64_t sum_ns = 0;
    for (const analysis::AreaRank& rank : expected.ranks) sum_ns += time_of(rank);
    return sum_ns;
  };
  using analysis::AreaRank;
  EXPECT_EQ(Value("details", "area_union:compute"),
            over_ranks([](const AreaRank& rank) { return rank.compute.union_ns; }));
  EXPECT_EQ(Value("details", "area_sum:compute"),
            over_ranks([](const AreaRank& rank) { return rank.compute.sum_ns; }));
  EXPECT_EQ(Value("details", "area_union:communication"),
            over_ranks([](const AreaRank& rank) { return rank.communication.union_ns; }));
  EXPECT_EQ(Value("details", "area_sum:communication"),
            over_ranks([](const AreaRank& rank) { return rank.communication.sum_ns; }));
  EXPECT_EQ(Value("details", "area_union:copy"),
            over_ranks([](const AreaRank& rank) { return rank.copy.union_ns; }));
  EXPECT_EQ(Value("details", "area_sum:copy"),
            over_ranks([](const AreaRank& rank) { return rank.copy.sum_ns; }));
  ASSERT_FALSE(expected.names.empty());
  EXPECT_EQ(Drawn("details", "area_name:0")->text, expected.names[0].name);
  EXPECT_EQ(Value("details", "area_name:0"), expected.names[0].count);
  EXPECT_EQ(Value("details", "area_name_sum:0"), expected.names[0].sum_ns);
  for (const analysis::AreaCause& cause : SumOfCauses(expected.ranks)) {
    EXPECT_EQ(Value("details", "area_cause:" + std::string(analysis::Name(cause.cause))),
              cause.idle_ns);
  }
  for (const analysis::AreaBucket& bucket : expected.histogram) {
    EXPECT_EQ(Value("details", "area_bucket:" + std::to_string(bucket.from_ns)), bucket.count);
  }
}

TEST_F(AreaPanelTest, EdgesCanBeDraggedAndTheViewStays) {
  const ui::View before = harness_.context().view;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Drag(test, InRuler(0.3F), InRuler(0.6F));
    const int64_t start_ns = query()->time.start_ns;
    Drag(test, InRuler(0.6F), InRuler(0.8F));
    EXPECT_EQ(query()->time.start_ns, start_ns);  // the other edge
    EXPECT_NEAR(static_cast<double>(query()->time.end_ns),
                static_cast<double>(TimeAt(InRuler(0.8F).x)), 2.0 * static_cast<double>(PixelNs()));
    Drag(test, InRuler(0.3F), InRuler(0.9F));  // past the other one
    EXPECT_NEAR(static_cast<double>(query()->time.start_ns),
                static_cast<double>(TimeAt(InRuler(0.8F).x)), 2.0 * static_cast<double>(PixelNs()));
  }));
  EXPECT_EQ(harness_.context().view.start_ns, before.start_ns);
  EXPECT_EQ(harness_.context().view.end_ns, before.end_ns);
}

TEST_F(AreaPanelTest, FFitsItAndEscapeOrAClickTakeItAway) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Drag(test, InRuler(0.4F), InRuler(0.5F));
    const Interval time = query()->time;
    Press(test, ImGuiKey_F);
    const ui::View& view = harness_.context().view;
    EXPECT_LT(view.start_ns, time.start_ns);
    EXPECT_GT(view.end_ns, time.end_ns);
    EXPECT_LT(view.end_ns - view.start_ns, 3 * (time.end_ns - time.start_ns));
    EXPECT_EQ(query()->time, time);
    Press(test, ImGuiKey_Escape);
    EXPECT_FALSE(query().has_value());
    EXPECT_EQ(Drawn("timeline", "area"), nullptr);
    EXPECT_EQ(Drawn("details", "area_length"), nullptr);
    Drag(test, InRuler(0.4F), InRuler(0.5F));
    EXPECT_TRUE(query().has_value());
    test->MouseMoveToPos(InRuler(0.8F));
    test->MouseClick();
    test->Yield(2);
    EXPECT_FALSE(query().has_value());
  }));
}

TEST_F(AreaPanelTest, ADoubleClickMeasuresAStep) {
  const query::Step& step = snapshot_->ranks[0].steps[11];
  harness_.shell().ShowStep(11);
  harness_.Frames(3);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(InRuler(0.5F));
    test->MouseDoubleClick();
    test->Yield(2);
  }));
  ASSERT_TRUE(query().has_value());
  EXPECT_EQ(query()->time, analysis::ResolveArea(*snapshot_, {step.step, {}}, {}).value().time);
}

TEST_F(AreaPanelTest, ShiftDragOverLanesMeasuresTheirRanksAndDoesNotPan) {
  const ui::View before = harness_.context().view;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const float y = PlaceOf(harness_, "timeline", "rank:1").y + 10;
    test->KeyDown(ImGuiMod_Shift);
    Drag(test, {InRuler(0.2F).x, y}, {InRuler(0.6F).x, y + 20});
    test->KeyUp(ImGuiMod_Shift);
  }));
  ASSERT_TRUE(query().has_value());
  EXPECT_THAT(query()->ranks, testing::ElementsAre(1));
  EXPECT_EQ(harness_.context().view.start_ns, before.start_ns);
  ASSERT_TRUE(Measured());
  EXPECT_EQ(Value("timeline", "area_lanes"), 1);
  EXPECT_NE(Drawn("details", "area_compute:1"), nullptr);
  EXPECT_EQ(Drawn("details", "area_compute:0"), nullptr);
  // What is clicked then is selected instead.
  harness_.shell().Post(ui::SelectOp{snapshot_->ranks[0].op_runs[3].id, 0});
  harness_.Frames(3);
  EXPECT_FALSE(query().has_value());
  EXPECT_NE(Drawn("details", "title"), nullptr);
}

TEST_F(AreaPanelTest, OfALaterRunNothingIsMarked) {
  EXPECT_TRUE(
      harness_.Drive([&](ImGuiTestContext* test) { Drag(test, InRuler(0.4F), InRuler(0.5F)); }));
  ASSERT_TRUE(query().has_value());
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(1, 3, 2));
  harness_.Frames(4);
  EXPECT_FALSE(query().has_value());
  EXPECT_EQ(Drawn("timeline", "area"), nullptr);
}

TEST_F(AreaPanelTest, OfARunThatGoesOnItSaysWhetherMoreMayCome) {
  auto live = std::make_shared<query::Snapshot>(*snapshot_);
  live->state = query::TraceState::kLive;
  harness_.shell().OpenSnapshot(live);
  harness_.shell().Post(ui::SetFollow{true});
  harness_.Frames(8);
  ASSERT_TRUE(harness_.context().view.follow);
  const auto mark = [&](int32_t step) {
    harness_.shell().Post(ui::SelectArea{analysis::ResolveArea(*live, {step, {}}, {}).value()});
    return harness_.Until(
        [&] {
          const auto& area = harness_.context().area;
          return area.query && area.measured != nullptr && area.measured->query == *area.query;
        },
        20);
  };
  ASSERT_TRUE(mark(5));
  EXPECT_FALSE(harness_.context().view.follow);  // else it would leave the view
  harness_.Frames(2);
  EXPECT_EQ(Drawn("details", "area_state"), nullptr);
  ASSERT_TRUE(mark(23));  // the newest
  harness_.Frames(2);
  EXPECT_NE(Drawn("details", "area_state"), nullptr);
}

TEST_F(AreaPanelTest, KeysStepThroughANameAndAlongArrows) {
  const query::RankRows& rows = snapshot_->ranks[2];
  // An all-gather that something waits for, in the middle of the run.
  size_t row = rows.op_runs.size() / 2;
  while (snapshot_->FindPlanOp(rows.op_runs[row].plan_op)->op_class != query::OpClass::kAllGather) {
    ++row;
  }
  const analysis::SearchHit from = HitOf(rows, HitKind::kOp, row);
  const auto next = OfSameName(*snapshot_, from, 1);
  const auto before = OfSameName(*snapshot_, from, -1);
  const auto use = WaitsFor(*snapshot_, from);
  ASSERT_TRUE(next && before && use);
  harness_.shell().Post(ui::FoldRanks{true});
  harness_.shell().Post(ui::SelectOp{from.op_run, 2});
  harness_.Frames(3);
  const auto is_shown = [&](const analysis::SearchHit& hit) {
    const ui::View& view = harness_.context().view;
    return harness_.context().selection.op_run == hit.op_run &&
           harness_.context().selection.rank == hit.rank && hit.start_ns >= view.start_ns &&
           hit.end_ns <= view.end_ns &&
           Drawn("timeline", "op_run:2:" + std::to_string(hit.op_run.value())) != nullptr;
  };
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Press(test, ImGuiKey_Period);
    EXPECT_TRUE(is_shown(*next));
    EXPECT_FALSE(harness_.context().lanes.folded_ranks.contains(2));
    Press(test, ImGuiKey_Comma);
    Press(test, ImGuiKey_Comma);
    EXPECT_TRUE(is_shown(*before));
    Press(test, ImGuiKey_Period);
    Press(test, ImGuiKey_RightBracket);
    EXPECT_TRUE(is_shown(*use));
    Press(test, ImGuiKey_LeftBracket);
    const auto back = WaitedFor(*snapshot_, *use);
    ASSERT_TRUE(back.has_value());
    EXPECT_TRUE(is_shown(*back));
    // With Shift what was selected stays so; one that is gone to again is selected once.
    Press(test, ImGuiMod_Shift | ImGuiKey_Period);
    Press(test, ImGuiMod_Shift | ImGuiKey_Comma);
    EXPECT_EQ(harness_.context().selection.op_run, back->op_run);
    EXPECT_EQ(harness_.context().selection.also.size(), 1U);
    Press(test, ImGuiKey_Escape);
    Press(test, ImGuiKey_Period);  // nothing is selected
    EXPECT_TRUE(harness_.context().selection.op_run.is_none());
  }));
}

TEST_F(AreaPanelTest, WithoutAMouseAKeyMarksAndArrowsMoveTheEdges) {
  const query::Step& step = snapshot_->ranks[0].steps[11];
  harness_.shell().Post(ui::SetHover{});
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.shell().ShowStep(11);
  harness_.Frames(6);
  ASSERT_EQ(harness_.context().focus.step, 11);
  const ui::View before = harness_.context().view;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Press(test, ImGuiKey_Escape);  // of what is selected; else that is marked
    Press(test, ImGuiKey_E);
    ASSERT_TRUE(query().has_value());
    const Interval marked = query()->time;
    EXPECT_EQ(marked, analysis::ResolveArea(*snapshot_, {step.step, {}}, {}).value().time);
    Press(test, ImGuiMod_Shift | ImGuiKey_LeftArrow);
    EXPECT_LT(query()->time.end_ns, marked.end_ns);
    EXPECT_EQ(query()->time.start_ns, marked.start_ns);
    Press(test, ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_RightArrow);
    EXPECT_GT(query()->time.start_ns, marked.start_ns);
    Press(test, ImGuiMod_Shift | ImGuiKey_RightArrow);
    EXPECT_EQ(query()->time.end_ns, marked.end_ns);
    Press(test, ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_LeftArrow);
    EXPECT_EQ(query()->time, marked);
  }));
  EXPECT_EQ(harness_.context().view.start_ns, before.start_ns);
  EXPECT_EQ(harness_.context().view.end_ns, before.end_ns);
}

TEST_F(AreaPanelTest, ZeroShowsTheWholeRunAndAltArrowsGoBackAndForward) {
  const ui::View before = harness_.context().view;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Press(test, ImGuiKey_0);
    const ui::View whole = harness_.context().view;
    EXPECT_EQ(whole.start_ns, snapshot_->start_ns);
    EXPECT_EQ(whole.end_ns, snapshot_->end_ns);
    Press(test, ImGuiMod_Alt | ImGuiKey_LeftArrow);
    EXPECT_EQ(harness_.context().view.start_ns, before.start_ns);
    Press(test, ImGuiMod_Alt | ImGuiKey_RightArrow);
    EXPECT_EQ(harness_.context().view.start_ns, whole.start_ns);
  }));
}

// With a window of its own, in which what has a tooltip is logged.
TEST(AreaTermsTest, ItsWordsAreExplainedUnderTheMouse) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(4, 24, 12);
  Harness harness({}, {}, /*log_widgets=*/true);
  harness.shell().OpenSnapshot(snapshot);
  harness.shell().Post(ui::SelectArea{analysis::AreaQuery{{0, snapshot->end_ns}, {}}});
  ASSERT_TRUE(harness.Until(
      [&] {
        const auto& area = harness.context().area;
        return area.measured != nullptr && area.measured->has_causes;
      },
      20));
  std::set<std::string> explained;
  for (const char* id : {"area_compute", "area_idle", "area_union:communication", "area_sum:copy",
                         "area_cause:first_gather"}) {
    const ui::DrawnItem* drawn = harness.log().Find("details", id);
    ASSERT_NE(drawn, nullptr) << id;
    const ImVec2 at((drawn->box.x0 + drawn->box.x1) / 2, (drawn->box.y0 + drawn->box.y1) / 2);
    EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(at);
      test->Yield(2);
      const ui::DrawnItem* tip = harness.log().Find("details", "tooltip");
      if (tip != nullptr) explained.insert(tip->text.substr(0, tip->text.find('\n')));
    }));
  }
  EXPECT_THAT(explained, testing::UnorderedElementsAre("compute", "idle", "communication", "copy",
                                                       "first gather of a phase"));
}

}  // namespace
}  // namespace shardscope::ui_test
