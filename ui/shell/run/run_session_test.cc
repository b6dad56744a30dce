// An open run, and what is made of its rows.
#include "ui/shell/run/run_session.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/query/trace_test_util.h"
#include "ui/panel_ids.h"

namespace shardscope::shell {
namespace {

TEST(RunSessionTest, APictureOfARunHasItsLogOnce) {
  query::TestFolder folder;
  std::ofstream(std::filesystem::path(folder.path()) / "log.txt") << "12:00 began\n12:01 ended\n";
  auto snapshot = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 2, 1));
  snapshot->run_folder = folder.path();
  const auto session = RunSession::OfSnapshot(snapshot);
  ui::Context context;
  for (int frame = 0; frame < 3; ++frame) session->Update(frame, &context);
  EXPECT_EQ(context.log, (std::vector<std::string>{"12:00 began", "12:01 ended"}));
}

// What a view that moves asks for all the time: the report of the same rows is not made anew.
TEST(FindingsMakerTest, OtherFiguresOfTheSameSnapshotShareItsReport) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(2, 12, 6);
  const analysis::Scope part{.kind = analysis::ScopeKind::kSteps, .first = 3, .last = 5};
  FindingsMaker maker;
  const FindingsPtr whole = maker.Make({.snapshot = lesson});
  const FindingsPtr some = maker.Make({.snapshot = lesson, .scope = part});
  EXPECT_EQ(some->report, whole->report);
  EXPECT_EQ(whole->figures->scope.last, 11);
  EXPECT_EQ(some->figures->scope.first, 3);
  EXPECT_EQ(some->figures->scope.last, 5);
  const analysis::Report expected = analysis::MakeReport(*lesson, {.scope = part});
  EXPECT_EQ(some->figures->summary.step_ns.p50, expected.figures.summary.step_ns.p50);
  EXPECT_EQ(some->figures->stalls.size(), expected.figures.stalls.size());
  // Rows that came since are in it.
  auto more = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 14, 6));
  more->generation = lesson->generation + 1;
  EXPECT_EQ(maker.Make({.snapshot = more})->figures->scope.last, 13);
}

// What panels behind others would show is not made.
TEST(FindingsMakerTest, RanksAndCollectivesAreMadeWhereTheyAreAskedFor) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(3, 12, 6, 1);
  const analysis::Scope part{.kind = analysis::ScopeKind::kSteps, .first = 3, .last = 5};
  FindingsMaker maker;
  EXPECT_EQ(maker.Make({.snapshot = lesson})->ranks, nullptr);
  const FindingsPtr ranks = maker.Make({.snapshot = lesson, .ranks = true});
  ASSERT_NE(ranks->ranks, nullptr);
  EXPECT_EQ(ranks->collectives, nullptr);
  EXPECT_EQ(ranks->ranks->scope.last, 11);
  EXPECT_EQ(ranks->ranks->grid->steps.size(), 12u);
  const FindingsPtr both =
      maker.Make({.snapshot = lesson, .scope = part, .ranks = true, .collectives = true});
  EXPECT_EQ(both->ranks->grid, ranks->ranks->grid);  // of the whole run
  EXPECT_EQ(both->ranks->scope.last, 5);
  EXPECT_EQ(both->collectives->scope.last, 5);
  EXPECT_EQ(both->collectives->steps.size(), 3u);
  EXPECT_EQ(maker.Make({.snapshot = lesson, .scope = part, .ranks = true})->ranks, both->ranks);
  auto loading = std::make_shared<query::Snapshot>(*lesson);
  loading->loading = true;  // it lacks rows
  EXPECT_EQ(maker.Make({.snapshot = loading, .ranks = true})->ranks, nullptr);
}

TEST(RunSessionTest, PanelsInFrontHaveWhatTheyShowMade) {
  const auto session = RunSession::OfSnapshot(analysis::MakeLessonSnapshot(2, 12, 6));
  ui::Context context;
  session->Update(0, &context);
  const auto ask = [&](const PanelIds& in_front) {
    session->AskForFigures({}, in_front, &context);
    return std::array{context.ranks != nullptr, context.collectives != nullptr,
                      context.step_table != nullptr};
  };
  EXPECT_EQ(ask({ui::panel_ids::kTimeline}), (std::array{false, false, false}));
  EXPECT_EQ(ask({ui::panel_ids::kSteps}), (std::array{false, false, true}));
  EXPECT_EQ(ask({ui::panel_ids::kTimeline, ui::panel_ids::kRanks}),
            (std::array{true, false, true}));  // what was made stays
  EXPECT_EQ(ask({ui::panel_ids::kCollectives}), (std::array{true, true, true}));
}

}  // namespace
}  // namespace shardscope::shell
