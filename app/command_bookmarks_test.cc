#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "app/command_test_util.h"
#include "app/commands.h"
#include "trace/analysis/derived.h"
#include "trace/bookmarks/bookmarks.h"
#include "trace/query/summary.h"
#include "trace/query/trace_test_util.h"
#include "trace/store/finisher.h"

namespace shardscope::app {
namespace {

using testing::HasSubstr;

class BookmarksCommandTest : public testing::Test {
 protected:
  BookmarksCommandTest() {
    const auto recorder = query::OpenRecorder(folder_.path());
    const query::PlanOpId op = query::AddPlanOp(recorder.get(), "f", "forward", "compute");
    recorder->Record(query::OpAt(op, 0, 0, 1'000'000, 9'000'000));
  }

  Outcome Run(const std::string& arguments) const {
    return RunCommand(AddBookmarksCommand, "bookmarks " + folder_.path() + " " + arguments);
  }
  std::string Report() const {
    return RunCommand(AddReportCommand, "report " + folder_.path()).out;
  }
  nlohmann::json List() const { return nlohmann::json::parse(Run("--json").out)["bookmarks"]; }

  query::TestFolder folder_;
};

TEST_F(BookmarksCommandTest, AddsListsAndRemoves) {
  EXPECT_EQ(List().size(), 0u);
  EXPECT_THAT(Report(), testing::Not(HasSubstr("bookmark")));
  const Outcome added = Run("--add 'step=0&rank=0' --note 'slow here'");
  EXPECT_EQ(added.exit_code, 0) << added.error;
  const std::string id = added.out.substr(0, added.out.find('\n'));
  EXPECT_EQ(Run("--add '" + folder_.path() + "#t=0ns..5ms'").exit_code, 0);
  ASSERT_EQ(List().size(), 2u);
  EXPECT_EQ(List()[0]["id"], id);
  EXPECT_EQ(List()[0]["note"], "slow here");
  EXPECT_EQ(List()[1]["link"], "t=0ns..5ms");
  EXPECT_THAT(Run("").out, HasSubstr("2 bookmarks in "));
  EXPECT_THAT(Run("").out, HasSubstr("slow here"));
  EXPECT_THAT(Report(), HasSubstr("2 bookmarks (shardscope bookmarks " + folder_.path()));
  EXPECT_EQ(Run("--remove " + id).exit_code, 0);
  EXPECT_EQ(List().size(), 1u);
}

TEST_F(BookmarksCommandTest, SaysWhatIsWrongAndChangesNothing) {
  const auto error_of = [&](const std::string& arguments) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << arguments;
    EXPECT_EQ(outcome.out, "");
    return outcome.error;
  };
  EXPECT_THAT(error_of("--add color=red"), HasSubstr("--add: color=red: a link has no such part"));
  EXPECT_THAT(error_of("--add '/elsewhere#step=1'"), HasSubstr("a link to another run"));
  EXPECT_THAT(error_of("--add step=99"), HasSubstr("--add: step=99: there is no such step"));
  EXPECT_THAT(error_of("--add rank=7"), HasSubstr("--add: rank=7: "));
  EXPECT_THAT(error_of("--add 'step=0&rank=0&op=G'"), HasSubstr("--add: op=G: "));
  EXPECT_THAT(error_of("--note x"), HasSubstr("say where it is with --add LINK"));
  EXPECT_THAT(error_of("--remove abc"), HasSubstr("has no such bookmark"));
  const std::string file = bookmarks::FileOf(folder_.path(), folder_.path());
  EXPECT_FALSE(std::ifstream(file).is_open());
  std::ofstream(file) << "damaged";
  EXPECT_THAT(error_of(""), HasSubstr("no whole JSON"));
  EXPECT_THAT(error_of("--add step=1"), HasSubstr("no whole JSON"));
}

// As a script gives it whose variable is empty. A line that CLI11 takes apart has no such word.
TEST_F(BookmarksCommandTest, AnEmptyValueIsNoListing) {
  const auto error_of = [&](const char* option) {
    const std::string folder = folder_.path();
    const std::array words = {"shardscope", "bookmarks", folder.c_str(), option, ""};
    int exit_code = -1;
    CLI::App app;
    AddBookmarksCommand(app, &exit_code);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    app.parse(static_cast<int>(words.size()), words.data());
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_EQ(exit_code, 1);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(error_of("--add"), HasSubstr("--add '': say where it is"));
  EXPECT_THAT(error_of("--remove"), HasSubstr("--remove '': say which"));
}

// A finished step; behind it a batch of an evaluation, a step that was not finished and memory.
void RecordMoreThanSteps(const std::string& folder) {
  constexpr int64_t kMs = 1'000'000;
  const auto recorder = query::OpenRecorder(folder);
  const query::PlanOpId op = query::AddPlanOp(recorder.get(), "f", "forward", "compute");
  for (int64_t rank = 0; rank < 2; ++rank) {
    schema::RankRow of_rank;
    of_rank.rank = rank;
    recorder->Add(of_rank);
    recorder->Record(query::OpAt(op, rank, 0, kMs, 9 * kMs));
    schema::StepRow step;
    step.rank = rank;
    step.start_ns = kMs;
    step.end_ns = 9 * kMs;
    recorder->Record(step);
    recorder->Record(query::OpAt(op, rank, -2, 10 * kMs, 20 * kMs));
    recorder->Record(query::OpAt(op, rank, 1, 21 * kMs, 25 * kMs));
    schema::MemoryEventRow memory;
    memory.rank = rank;
    memory.issued_ns = memory.executed_ns = 40 * kMs;
    memory.bytes = 1;
    memory.category = "other";
    memory.step = -1;
    recorder->Record(memory);
  }
  ASSERT_TRUE(recorder->Finish().ok());
}

// Its summary, which is read first, ends with the last finished step.
TEST(BookmarksOfSummedRunTest, TakesPlacesThatAreInNoFinishedStep) {
  const query::TestFolder folder;
  query::DeriveWhileFinishing(analysis::MakeDeriver());
  RecordMoreThanSteps(folder.path());
  store::SetDerive({});
  const query::SnapshotPtr summary = query::ReadSummary(folder.path()).value();
  ASSERT_NE(summary, nullptr);
  ASSERT_EQ(summary->end_ns - summary->start_ns, 8'000'000);
  const auto add = [&](const std::string& link) {
    return RunCommand(AddBookmarksCommand, "bookmarks " + folder.path() + " --add '" + link + "'");
  };
  for (const char* link : {"step=0", "step=1", "step=0..1", "t=2ms..3ms", "t=12ms..18ms",
                           "t=30ms..39.5ms", "area=35ms..39ms&rank=1"}) {
    const Outcome added = add(link);
    EXPECT_EQ(added.exit_code, 0) << link << ": " << added.error;
  }
  EXPECT_THAT(add("step=2").error, HasSubstr("there is no such step"));
  EXPECT_EQ(add("t=41ms..42ms").exit_code, 1);
}

}  // namespace
}  // namespace shardscope::app
