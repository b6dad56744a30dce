// Bookmarks, driven as a user would: set one, see its flag and its note, go there, change, remove.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/bookmarks/bookmarks.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

class BookmarksUiTest : public testing::Test {
 protected:
  void OpenLesson() {
    harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
    harness_.Frames(8);
  }
  const ui::BookmarkList* List() const { return harness_.context().bookmarks.list.get(); }
  bool UntilCount(size_t count) {
    return harness_.Until([&] { return List() != nullptr && List()->all.size() == count; }, 20);
  }
  const ui::DrawnItem* Drawn(const char* panel, const std::string& id) const {
    return harness_.log().Find(panel, id);
  }
  bool Add(const std::string& note) {
    return harness_.Drive([&](ImGuiTestContext* test) {
      test->KeyPress(ImGuiKey_B);
      test->Yield(3);
      test->KeyChars(note.c_str());
      test->KeyPress(ImGuiKey_Enter);
      test->Yield(3);
    });
  }

  Harness harness_;
};

TEST_F(BookmarksUiTest, BMarksTheSelectedOpAndItsFlagLeadsBack) {
  OpenLesson();
  const query::RankRows& rows = harness_.context().snapshot->ranks[1];
  query::OpRunId op = query::OpRunId::None();
  rows.op_runs.ForEachOfSteps(5, 5, [&](const query::OpRun& run, size_t) { op = run.id; });
  harness_.shell().Post(ui::SelectOp{op, 1});
  harness_.shell().Post(ui::FitSelection{});
  harness_.Frames(30);
  EXPECT_TRUE(Add("look here"));
  ASSERT_TRUE(UntilCount(1));
  const bookmarks::Bookmark bookmark = List()->all.front();
  EXPECT_EQ(bookmark.note, "look here");
  EXPECT_THAT(bookmark.link, HasSubstr("step=5&rank=1&op="));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kNone);
  harness_.Frames(3);
  ASSERT_NE(Drawn("timeline", "flag:" + bookmark.id), nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "flag:" + bookmark.id));
    test->Yield(2);
    const ui::DrawnItem* note = Drawn("timeline", "flag_note");
    ASSERT_NE(note, nullptr);
    EXPECT_EQ(note->text, "look here");
    test->KeyPress(ImGuiKey_Escape);  // clears the selection
    EXPECT_TRUE(harness_.context().selection.op_run.is_none());
    test->MouseClick();
    test->SleepNoSkip(0.3F, 1.0F / 60);
  }));
  EXPECT_EQ(harness_.context().selection.op_run, op);
}

TEST_F(BookmarksUiTest, ThePanelListsGoesChangesAndRemoves) {
  OpenLesson();
  harness_.shell().Post(ui::SelectOp{});
  harness_.shell().Post(ui::ShowStep{3});
  harness_.Frames(30);
  EXPECT_TRUE(Add("first"));
  ASSERT_TRUE(UntilCount(1));
  const std::string id = List()->all.front().id;
  EXPECT_THAT(List()->all.front().link, HasSubstr("step="));
  harness_.shell().Post(ui::ShowStep{20});
  harness_.Frames(30);
  const int64_t elsewhere_ns = harness_.context().view.start_ns;
  const auto click = [&](ImGuiTestContext* test, const char* ref) {
    test->SetRef("//###bookmarks");
    test->ItemClick((std::string("**/") + ref + ":" + id).c_str());
    test->Yield(2);
  };
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_8);
    test->Yield(5);
    ASSERT_NE(Drawn("bookmarks", "bookmark:" + id), nullptr);
    EXPECT_THAT(Drawn("bookmarks", "bookmark:" + id)->text, HasSubstr("first"));
    click(test, "edit");
    ASSERT_NE(Drawn("bookmark", "title"), nullptr);
    test->KeyChars("changed");
    test->KeyPress(ImGuiKey_Enter);
  }));
  ASSERT_TRUE(harness_.Until(
      [&] { return List()->all.front().note.find("changed") != std::string::npos; }, 20));
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_8);
    test->Yield(5);
    click(test, "copy");
    EXPECT_THAT(ImGui::GetClipboardText(), HasSubstr("#" + List()->all.front().link));
    test->MouseMoveToPos(PlaceOf(harness_, "bookmarks", "bookmark:" + id));
    test->MouseClick();
    test->SleepNoSkip(0.3F, 1.0F / 60);
    EXPECT_LT(harness_.context().view.start_ns, elsewhere_ns);
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_8);
    test->Yield(5);
    click(test, "remove");
    EXPECT_EQ(List()->all.size(), 1u);  // it asks first
    click(test, "remove");
  }));
  ASSERT_TRUE(UntilCount(0));
  harness_.Frames(3);
  EXPECT_NE(Drawn("bookmarks", "empty"), nullptr);
}

TEST_F(BookmarksUiTest, EscapeKeepsNothingAndWithoutARunItIsSaid) {
  harness_.Frames(3);
  harness_.shell().Post(ui::AddBookmark{});
  harness_.Frames(3);
  EXPECT_NE(Drawn("notice", "error"), nullptr);
  OpenLesson();
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_B);
    test->Yield(3);
    EXPECT_NE(Drawn("bookmark", "place"), nullptr);
    test->KeyChars("no");
    test->KeyPress(ImGuiKey_Escape);
    test->Yield(3);
  }));
  EXPECT_EQ(harness_.context().overlay, ui::Overlay::kNone);
  ASSERT_TRUE(UntilCount(0));
}

// Of a run on disk, beside what another program writes.
TEST_F(BookmarksUiTest, AreKeptInTheRunAndFollowItsFile) {
  const query::TestFolder folder;
  {
    const auto recorder = query::OpenRecorder(folder.path());
    const query::PlanOpId op = query::AddPlanOp(recorder.get(), "f", "forward", "compute");
    recorder->Record(query::OpAt(op, 0, 0, 1'000'000, 9'000'000));
  }
  const std::string file = bookmarks::FileOf(folder.path(), folder.path());
  ASSERT_TRUE(harness_.shell().Open(folder.path()).ok());
  ASSERT_TRUE(UntilCount(0));
  ASSERT_TRUE(bookmarks::Apply(file, {{bookmarks::NewBookmark("t=0ns..1ms", "of a script")}}).ok());
  ASSERT_TRUE(UntilCount(1));
  harness_.Until([&] { return harness_.context().view.end_ns > 0; }, 5);
  EXPECT_TRUE(Add("of the app"));
  ASSERT_TRUE(UntilCount(2));
  ASSERT_TRUE(harness_.Until([&] { return bookmarks::Read(file).value().size() == 2; }, 20));
  std::ofstream(file) << "damaged";
  ASSERT_TRUE(harness_.Until([&] { return !List()->problem.empty(); }, 20));
  harness_.Frames(2);
  ASSERT_NE(Drawn("notice", "error"), nullptr);
  EXPECT_THAT(Drawn("notice", "error")->text, HasSubstr(file));
  EXPECT_EQ(List()->all.size(), 2u);  // what was read before
}

}  // namespace
}  // namespace shardscope::ui_test
