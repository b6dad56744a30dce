#include "app/commands.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/command_test_util.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::app {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Outcome RunReport(const std::string& arguments) {
  return RunCommand(AddReportCommand, "report " + arguments);
}

// Two ranks, three steps of 10 ms: 4 ms of all-gather, of which 1 ms is under the forward's 7 ms.
void RecordRun(record::Recorder* recorder) {
  schema::TrackRow track;
  track.name = track.role = "compute";
  recorder->Add(track);
  const schema::PlanOpId gather =
      query::AddPlanOp(recorder, "F m0 block0 all_gather", "all_gather", "communication");
  const schema::PlanOpId forward =
      query::AddPlanOp(recorder, "F m0 block0.mlp forward", "forward", "compute");
  constexpr int64_t kMs = 1'000'000;
  for (int64_t step = 0; step < 3; ++step) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      const int64_t start_ns = (1000 + 10 * step) * kMs;
      recorder->Record(query::OpAt(gather, rank, step, start_ns, start_ns + 4 * kMs));
      recorder->Record(query::OpAt(forward, rank, step, start_ns + 3 * kMs, start_ns + 10 * kMs));
      schema::StepRow row;
      row.rank = rank;
      row.step = step;
      row.start_ns = start_ns;
      row.end_ns = start_ns + 10 * kMs;
      row.tokens = 100;
      row.loss = 2.5;
      recorder->Record(row);
    }
  }
}

class ReportCommand : public testing::Test {
 protected:
  void SetUp() override {
    recorder_ = query::OpenRecorder(folder_.path());
    for (int64_t rank = 0; rank < 2; ++rank) {
      schema::RankRow row;
      row.rank = rank;
      recorder_->Add(row);
    }
    RecordRun(recorder_.get());
  }
  query::TestFolder folder_;
  std::unique_ptr<record::Recorder> recorder_;
};

TEST_F(ReportCommand, JsonOfAFinishedRun) {
  ASSERT_TRUE(recorder_->Finish().ok());
  const Outcome outcome = RunReport(folder_.path() + " --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["state"], "finished");
  ASSERT_EQ(json["steps"].size(), 6u);
  for (const nlohmann::json& row : json["steps"]) {
    EXPECT_EQ(row["step_ns"], 10'000'000);
    EXPECT_EQ(row["compute_ns"], 7'000'000);
    EXPECT_EQ(row["communication_ns"], 4'000'000);
    EXPECT_EQ(row["exposed_ns"], 3'000'000);
    EXPECT_EQ(row["idle_ns"], 0);
    EXPECT_EQ(row["tokens_per_second"], 10'000);
  }
}

TEST_F(ReportCommand, TextWhileTheRunIsLive) {
  ASSERT_TRUE(recorder_->Flush().ok());
  const Outcome outcome = RunReport(folder_.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("live, 2 ranks, 3 steps"));
  EXPECT_THAT(outcome.out, HasSubstr("overlap ratio 25%, exposed 30% of the step"));
  EXPECT_THAT(outcome.out, HasSubstr("0 records dropped"));
}

TEST_F(ReportCommand, FiguresAreOfTheStepsThatAreAskedFor) {
  schema::MarkerRow marker;
  marker.time_ns = 1'020'000'000;
  marker.step = 2;
  marker.kind = "change";
  marker.key = "prefetch.forward";
  marker.old_value = "0";
  marker.new_value = "1";
  recorder_->Add(marker);
  ASSERT_TRUE(recorder_->Flush().ok());
  const auto json = [this](const std::string& options) {
    const Outcome outcome = RunReport(folder_.path() + " --json" + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json live = json("");
  EXPECT_EQ(live["scope"]["kind"], "since_change");
  EXPECT_EQ(live["scope"]["first_step"], 2);
  EXPECT_EQ(live["summary"]["num_steps"], 1);
  EXPECT_EQ(live["steps"].size(), 2u);
  EXPECT_EQ(json(" --since-change"), live);
  EXPECT_EQ(json(" --whole-run")["steps"].size(), 6u);
  EXPECT_EQ(json(" --last 2")["scope"]["first_step"], 1);
  const nlohmann::json part = json(" --steps 0:2");
  EXPECT_EQ(part["scope"]["last_step"], 1);
  EXPECT_EQ(part["steps"].size(), 4u);
  EXPECT_THAT(RunReport(folder_.path() + " --steps 1:2").out,
              HasSubstr("Over 1 step of 2 ranks: step 1, all of it warm-up\n"));
  ASSERT_TRUE(recorder_->Finish().ok());
  EXPECT_EQ(json("")["scope"]["kind"], "whole_run");
  EXPECT_EQ(json(" --since-change")["summary"], live["summary"]);
}

TEST_F(ReportCommand, AScopeThatCannotBeIsRefused) {
  ASSERT_TRUE(recorder_->Finish().ok());
  const Outcome none = RunReport(folder_.path() + " --steps 7:9");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.error, HasSubstr("no steps 7 to 8: this trace has the steps 0 to 2"));
  for (const char* wrong :
       {" --steps 5", " --steps 3:3", " --last 0", " --last 2 --since-change"}) {
    EXPECT_NE(RunReport(folder_.path() + wrong).exit_code, 0) << wrong;
  }
}

TEST_F(ReportCommand, SaysWhyTheRunFailedBeforeAllNumbers) {
  schema::MarkerRow marker;
  marker.time_ns = 1'050'000'000;
  marker.step = 3;
  marker.kind = "error";
  marker.new_value = "rank 1 did not arrive at F m0 block0 all_gather within comm.timeout";
  recorder_->Add(marker);
  ASSERT_TRUE(recorder_->Finish().ok());
  const Outcome text = RunReport(folder_.path());
  const size_t failed = text.out.find("The run failed at step 3: " + marker.new_value);
  ASSERT_NE(failed, std::string::npos) << text.out;
  EXPECT_LT(failed, text.out.find("overlap ratio"));
  const nlohmann::json json = nlohmann::json::parse(RunReport(folder_.path() + " --json").out);
  ASSERT_EQ(json["errors"].size(), 1u);
  EXPECT_EQ(json["errors"][0]["new_value"], marker.new_value);
  EXPECT_EQ(json["errors"][0]["step"], 3);
}

// A folder in the place of the file that finishing writes: that cannot succeed.
TEST_F(ReportCommand, TellsThatTheFileIsBeingFinishedAndWhyItCouldNotBe) {
  ASSERT_TRUE(recorder_->Flush().ok());
  std::string stem;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string name = entry.path().string();
    if (name.ends_with(".live.db")) stem = name.substr(0, name.size() - 8);
  }
  ASSERT_FALSE(stem.empty());
  std::filesystem::create_directories(stem + ".finishing/x");
  EXPECT_FALSE(recorder_->Finish().ok());
  const Outcome finishing = RunReport(folder_.path());
  EXPECT_THAT(finishing.out, HasSubstr("test: finishing, 2 ranks")) << finishing.error;
  recorder_.reset();  // as if its process had died
  const Outcome left = RunReport(folder_.path());
  EXPECT_EQ(left.exit_code, 0) << left.error;
  EXPECT_THAT(left.out, HasSubstr("test: cut, 2 ranks, 3 steps"));
  EXPECT_THAT(left.out, HasSubstr("Its file stays as it was left: "));
  EXPECT_THAT(left.out, HasSubstr(stem));
  std::filesystem::remove_all(stem + ".finishing");
  const Outcome mended = RunReport(folder_.path());
  EXPECT_THAT(mended.out, HasSubstr("test: finished, 2 ranks, 3 steps"));
  EXPECT_EQ(mended.out.find("stays as it was left"), std::string::npos) << mended.out;
}

TEST(ReportCommandErrors, AreOneClearLine) {
  query::TestFolder folder;
  std::ofstream(folder.path() + "/notes.db") << "no trace";
  for (const std::string& path :
       {folder.path() + "/missing", folder.path(), folder.path() + "/notes.db"}) {
    const Outcome outcome = RunReport(path);
    EXPECT_EQ(outcome.exit_code, 1) << path;
    EXPECT_EQ(outcome.out, "") << path;
    EXPECT_THAT(outcome.error, StartsWith("shardscope report: ")) << path;
    EXPECT_THAT(outcome.error, HasSubstr(path));
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
  }
}

}  // namespace
}  // namespace shardscope::app
