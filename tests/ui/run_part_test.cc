// A run that does not fit into memory: other steps are loaded when they are asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/ui/harness.h"
#include "trace/base/text.h"
#include "trace/bookmarks/bookmarks.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::ui_test {
namespace {

constexpr double kSeconds = 60;  // of the worst machine
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSteps = 64;

class LongRun {
 public:
  explicit LongRun(const std::string& folder, int64_t num_ranks = 1)
      : recorder_(query::OpenRecorder(folder)) {
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      recorder_->Add(schema::RankRow{rank, "host", 1, "cpu"});
      tracks_.push_back(recorder_->Add(schema::TrackRow{{}, rank, "compute", "compute", 1}));
    }
    op_ = query::AddPlanOp(recorder_.get(), "F block0", "forward", "compute");
  }
  void Record(int64_t step) {
    const int64_t start_ns = (100 + 10 * step) * kMs;
    for (size_t rank = 0; rank < tracks_.size(); ++rank) {
      const auto of_rank = static_cast<int64_t>(rank);
      record::OpRecord run = query::OpAt(op_, of_rank, step, start_ns, start_ns + 4 * kMs);
      run.run.track = tracks_[rank];
      recorder_->Record(run);
      schema::StepRow row;
      row.rank = of_rank;
      row.step = step;
      row.start_ns = start_ns;
      row.end_ns = start_ns + 10 * kMs;
      recorder_->Record(row);
    }
  }
  void Flush() { SHARDSCOPE_CHECK(recorder_->Flush().ok()); }
  void Finish() { SHARDSCOPE_CHECK(recorder_->Finish().ok()); }

 private:
  std::unique_ptr<record::Recorder> recorder_;
  std::vector<schema::TrackId> tracks_;  // by rank
  query::PlanOpId op_;
};

// The step is loaded and in view.
bool ShowsStep(Harness* harness, int step) {
  return harness->Until(
      [&] {
        const query::Snapshot& snapshot = *harness->context().snapshot;
        return !snapshot.loading && snapshot.part && snapshot.part->Contains(step) &&
               harness->log().Find("timeline", "step:" + std::to_string(step)) != nullptr;
      },
      kSeconds);
}

class RunPartTest : public testing::Test {
 protected:
  RunPartTest() {
    LongRun run(folder_.path());
    for (int64_t step = 0; step < kSteps; ++step) run.Record(step);
    run.Finish();
    SHARDSCOPE_CHECK(harness_.shell().Open(folder_.path()).ok());
  }

  bool Shows(int step) { return ShowsStep(&harness_, step); }
  void GoTo(int step) { harness_.shell().Post(ui::GoToLink{{.step = step}}); }

  const query::TestFolder folder_;
  Harness harness_{{}, {}, false, 1};  // bytes of memory
};

TEST_F(RunPartTest, StepsOfOtherPartsAreLoadedOneAfterTheOther) {
  ASSERT_TRUE(Shows(kSteps - 1));
  const std::string path = harness_.context().path;
  EXPECT_EQ(path, std::filesystem::weakly_canonical(folder_.path()));
  for (const int step : {47, 5, 0, 63}) {
    GoTo(step);
    ASSERT_TRUE(Shows(step)) << step;
    const query::Snapshot& snapshot = *harness_.context().snapshot;
    EXPECT_EQ(snapshot.part->last_step - snapshot.part->first_step, 15);
    EXPECT_EQ(snapshot.ranks.at(0).op_runs.size(), 16u);
    EXPECT_EQ(harness_.context().path, path);
    EXPECT_NE(harness_.log().Find("banner", "part"), nullptr);
  }
  GoTo(64);  // there is none: what is loaded stays
  EXPECT_TRUE(harness_.Until([this] { return !harness_.context().notice.text.empty(); }, kSeconds));
  EXPECT_TRUE(harness_.context().snapshot->part->Contains(63));
}

// Times are told from the start of the run, not of what is loaded.
TEST_F(RunPartTest, TimesLeadToOtherParts) {
  ASSERT_TRUE(Shows(kSteps - 1));
  const auto type = [this](const char* moment) {
    harness_.shell().Post(ui::ShowOverlay{ui::Overlay::kGoTo});
    harness_.Frames(3);
    EXPECT_TRUE(harness_.Drive([moment](ImGuiTestContext* test) {
      test->KeyCharsReplaceEnter(moment);
      test->Yield(2);
    }));
  };
  const auto is_in_view = [this](int64_t time_ns) {
    return harness_.Until(
        [&] {
          const ui::View& view = harness_.context().view;
          return view.start_ns <= time_ns && time_ns <= view.end_ns;
        },
        kSeconds);
  };
  type("123ms");  // the first row is that of step 0, at 100 ms
  ASSERT_TRUE(Shows(12));
  EXPECT_TRUE(is_in_view(223 * kMs));
  type("step=50+2ms");
  ASSERT_TRUE(Shows(50));
  EXPECT_TRUE(is_in_view(602 * kMs));
}

// The view stays where it was.
TEST_F(RunPartTest, AllStepsAreLoadedWhereTheyFit) {
  ASSERT_TRUE(Shows(kSteps - 1));
  GoTo(5);
  ASSERT_TRUE(Shows(5));
  harness_.shell().Post(ui::LoadAllSteps{});
  ASSERT_TRUE(harness_.Until(
      [this] {
        const query::Snapshot& snapshot = *harness_.context().snapshot;
        return !snapshot.loading && !snapshot.part &&
               harness_.log().Find("timeline", "step:5") != nullptr;
      },
      kSeconds));
  EXPECT_EQ(harness_.context().snapshot->ranks.at(0).op_runs.size(), size_t{kSteps});
  EXPECT_EQ(harness_.log().Find("banner", "part"), nullptr);

  harness_.shell().Post(ui::LoadAllSteps{});  // as the palette may, at any time
  const auto notice = [this] { return harness_.log().Find("notice", "done"); };
  ASSERT_TRUE(harness_.Until([&] { return notice() != nullptr; }, kSeconds));
  EXPECT_EQ(notice()->text, "No steps are left to load.");
}

TEST_F(RunPartTest, BookmarksInOtherPartsSaySo) {
  const std::string file = bookmarks::FileOf(folder_.path(), folder_.path());
  const bookmarks::Bookmark early = bookmarks::NewBookmark("step=5", "");
  const bookmarks::Bookmark late = bookmarks::NewBookmark("step=63", "");
  const bookmarks::Bookmark never = bookmarks::NewBookmark("step=64", "");
  ASSERT_TRUE(bookmarks::Apply(file, {{early}, {late}, {never}}).ok());
  ASSERT_TRUE(Shows(kSteps - 1));
  harness_.shell().Post(ui::FocusPanel{"bookmarks"});
  const auto text = [this](const bookmarks::Bookmark& bookmark) {
    const ui::DrawnItem* item = harness_.log().Find("bookmarks", "bookmark:" + bookmark.id);
    return item == nullptr ? std::string() : item->text;
  };
  ASSERT_TRUE(harness_.Until([&] { return Contains(text(late), "630.000 ms"); }, kSeconds));
  EXPECT_TRUE(Contains(text(early), "not loaded")) << text(early);
  EXPECT_TRUE(Contains(text(never), "not in this run")) << text(never);
}

TEST(RunPartOfRanks, RanksStayAsTheyWereArranged) {
  using testing::ElementsAre;
  const query::TestFolder folder;
  LongRun run(folder.path(), 6);
  for (int64_t step = 0; step < kSteps; ++step) run.Record(step);
  run.Finish();
  Harness harness({}, {}, false, 1);  // bytes of memory
  const ui::Lanes& lanes = harness.context().lanes;
  ASSERT_TRUE(harness.shell().Open(folder.path()).ok());
  ASSERT_TRUE(ShowsStep(&harness, kSteps - 1));
  harness.shell().Post(ui::FoldRanks{false});
  harness.shell().Post(ui::ToggleRank{0});
  harness.shell().Post(ui::ToggleRank{3});
  harness.shell().Post(ui::PlaceRanks{{2}, ui::RankPlace::kPinned});
  harness.shell().Post(ui::PlaceRanks{{1}, ui::RankPlace::kHidden});
  harness.shell().Post(ui::GoToLink{{.step = 5}});
  ASSERT_TRUE(ShowsStep(&harness, 5));
  EXPECT_THAT(lanes.folded_ranks, ElementsAre(0, 3));
  EXPECT_THAT(lanes.pinned_ranks, ElementsAre(2));
  EXPECT_THAT(lanes.hidden_ranks, ElementsAre(1));
  ASSERT_TRUE(harness.shell().Open(folder.path()).ok());  // as if it had not been open
  ASSERT_TRUE(ShowsStep(&harness, kSteps - 1));
  EXPECT_FALSE(lanes.folded_ranks.contains(0));
  EXPECT_THAT(lanes.pinned_ranks, ElementsAre());
  EXPECT_THAT(lanes.hidden_ranks, ElementsAre());
}

// A run that goes on has its last steps; earlier ones are there again once it is over.
TEST(LiveRunPart, HasTheLastStepsWhileTheRunGoesOn) {
  const query::TestFolder folder;
  LongRun run(folder.path());
  run.Record(0);
  run.Flush();
  Harness harness({}, {}, false, 1);  // bytes of memory
  ASSERT_TRUE(harness.shell().Open(folder.path()).ok());
  const auto shows = [&](int64_t step) {
    return harness.Until(
        [&] { return harness.log().Find("timeline", "step:" + std::to_string(step)) != nullptr; },
        kSeconds);
  };
  for (int64_t step = 1; step < kSteps; ++step) {
    run.Record(step);
    run.Flush();
    ASSERT_TRUE(shows(step)) << step;
  }
  ASSERT_TRUE(
      harness.Until([&] { return harness.context().snapshot->part.has_value(); }, kSeconds));
  EXPECT_GT(harness.context().snapshot->part->first_step, 8);
  EXPECT_LT(harness.context().snapshot->ranks.at(0).op_runs.size(), size_t{kSteps - 8});
  EXPECT_THAT(harness.log().Find("banner", "part")->text,
              testing::StartsWith("The last steps are loaded, from "));

  const std::vector<ui::Command> commands = {ui::GoToLink{{.step = 0}}, ui::LoadAllSteps{}};
  for (const ui::Command& command : commands) {
    harness.shell().Post(ui::Command(command));
    ASSERT_TRUE(harness.Until([&] { return !harness.context().notice.text.empty(); }, kSeconds));
    EXPECT_THAT(harness.context().notice.text, testing::HasSubstr("no longer in memory"));
    EXPECT_FALSE(harness.context().snapshot->part->Contains(0));
  }

  run.Finish();
  const auto is_over = [&] { return !query::MayGrow(harness.context().snapshot->state); };
  ASSERT_TRUE(harness.Until(is_over, kSeconds));
  harness.shell().Post(ui::GoToLink{{.step = 0}});
  EXPECT_TRUE(shows(0));
}

}  // namespace
}  // namespace shardscope::ui_test
