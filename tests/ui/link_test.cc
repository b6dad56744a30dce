// Links, driven as a user would: copy the link to a view, go elsewhere, paste it into Go to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "ui/link.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

class LinkTest : public testing::Test {
 protected:
  LinkTest() {
    harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(8, 24, 12));
    harness_.Frames(8);
  }

  const ui::View& view() const { return harness_.context().view; }
  std::string Error() const {
    const ui::DrawnItem* item = harness_.log().Find("go_to", "error");
    return item == nullptr ? "" : item->text;
  }

  static void Settle(ImGuiTestContext* test) { test->SleepNoSkip(0.4F, 1.0F / 60); }
  static void GoTo(ImGuiTestContext* test, const std::string& text) {
    test->KeyPress(ImGuiKey_G);
    test->Yield(3);
    test->KeyChars(text.c_str());
    test->KeyPress(ImGuiKey_Enter);
    Settle(test);
  }

  Harness harness_;
};

TEST_F(LinkTest, ACopiedLinkLeadsBack) {
  const query::RankRows& rows = harness_.context().snapshot->ranks[6];  // folded, out of sight
  query::OpRunId op = query::OpRunId::None();  // the longest: it can be seen
  int64_t longest_ns = 0;
  rows.op_runs.ForEachOfSteps(4, 4, [&](const query::OpRun& run, size_t) {
    if (run.ended_ns - run.started_ns <= longest_ns) return;
    longest_ns = run.ended_ns - run.started_ns;
    op = run.id;
  });
  harness_.shell().Post(ui::ShowStep{4});
  harness_.shell().Post(ui::SelectOp{op, 6});
  ui::View before;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Settle(test);
    before = view();
    test->KeyPress(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_C);
    test->Yield(3);
    const ui::DrawnItem* notice = harness_.log().Find("notice", "done");
    ASSERT_NE(notice, nullptr);
    EXPECT_THAT(notice->text, HasSubstr("step=4&rank=6&op="));
    test->KeyPress(ImGuiKey_Escape);
    GoTo(test, "20");
    EXPECT_GT(view().start_ns, before.end_ns);
    EXPECT_TRUE(harness_.context().selection.op_run.is_none());
    test->KeyPress(ImGuiKey_G);
    test->Yield(3);
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_V);
    test->KeyPress(ImGuiKey_Enter);
    Settle(test);
  }));
  EXPECT_EQ(harness_.context().selection.op_run, op);
  EXPECT_EQ(harness_.context().selection.rank, 6);
  EXPECT_FALSE(harness_.context().lanes.folded_ranks.contains(6));
  const int64_t a_pixel = (before.end_ns - before.start_ns) / 1000;
  EXPECT_LE(std::abs(view().start_ns - before.start_ns), a_pixel);
  EXPECT_LE(std::abs(view().end_ns - before.end_ns), a_pixel);
  // Its lane has been scrolled to.
  EXPECT_NE(harness_.log().Find("timeline", "op_run:6:" + std::to_string(op.value())), nullptr);
}

TEST_F(LinkTest, GoToSaysWhatIsWrongAndKeepsTheView) {
  const ui::View before = view();
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    GoTo(test, "step=3&color=red");
    EXPECT_THAT(Error(), HasSubstr("color=red: a link has no such part"));
    test->KeyPress(ImGuiKey_Escape);
    GoTo(test, "here");
    EXPECT_THAT(Error(),
                HasSubstr("here: give the number of a step, a time such as 12.5s, or a link"));
    test->KeyPress(ImGuiKey_Escape);
    GoTo(test, "");
    EXPECT_THAT(Error(), testing::StartsWith("Give the number of a step"));
    test->KeyPress(ImGuiKey_Escape);
    // A place that is not in this run is said when it is gone to.
    GoTo(test, "step=99");
    const ui::DrawnItem* notice = harness_.log().Find("notice", "error");
    ASSERT_NE(notice, nullptr);
    EXPECT_THAT(notice->text, HasSubstr("step=99: there is no such step"));
  }));
  EXPECT_EQ(view().start_ns, before.start_ns);
}

TEST_F(LinkTest, AnOpThatIsNotThereLeadsToItsStepAndRank) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    GoTo(test, "step=20&rank=6&op=zzz");
    const ui::DrawnItem* notice = harness_.log().Find("notice", "error");
    ASSERT_NE(notice, nullptr);
    EXPECT_THAT(notice->text, HasSubstr("op=zzz: that rank has no such op in that step"));
    EXPECT_EQ(harness_.context().focus.step, 20);
    EXPECT_FALSE(harness_.context().lanes.folded_ranks.contains(6));
    EXPECT_TRUE(harness_.context().selection.op_run.is_none());
    GoTo(test, "7");
    EXPECT_EQ(harness_.log().Find("notice", "error"), nullptr);
  }));
  EXPECT_EQ(harness_.context().focus.step, 7);
}

// Rows of a run are read some at a time.
TEST_F(LinkTest, OfARunThatIsStillReadItWaitsForItsStep) {
  auto some = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(8, 24, 12));
  some->is_behind = true;
  harness_.shell().OpenSnapshot(some);
  harness_.Frames(8);
  harness_.shell().Post(ui::GoToLink{{.step = 30, .rank = 1}});
  harness_.Frames(8);
  EXPECT_TRUE(harness_.context().notice.text.empty()) << harness_.context().notice.text;
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(8, 40, 12));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { Settle(test); }));
  EXPECT_TRUE(harness_.context().notice.text.empty()) << harness_.context().notice.text;
  EXPECT_EQ(harness_.context().focus.step, 30);
}

TEST_F(LinkTest, OpensTheSearchAndTheScopeOfALink) {
  EXPECT_TRUE(harness_.Drive(
      [&](ImGuiTestContext* test) { GoTo(test, "#step=7&search=kind:forward&scope=5:9"); }));
  EXPECT_TRUE(harness_.context().search.open);
  EXPECT_EQ(harness_.context().search.text, "kind:forward");
  EXPECT_EQ(harness_.context().focus.scope, (analysis::Scope{analysis::ScopeKind::kSteps, 5, 8}));
}

TEST_F(LinkTest, WithoutARunThereIsNothingToCopyOrToGoTo) {
  harness_.shell().Post(ui::CloseRun{});
  harness_.Frames(3);
  harness_.shell().Post(ui::CopyLink{});
  harness_.Frames(3);
  EXPECT_NE(harness_.log().Find("notice", "error"), nullptr);
  harness_.shell().Post(ui::OpenRun{"#step=3"});
  harness_.Frames(8);
  const ui::DrawnItem* error = harness_.log().Find("runs", "error");
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(error->text, HasSubstr("No run is open"));
}

}  // namespace
}  // namespace shardscope::ui_test
