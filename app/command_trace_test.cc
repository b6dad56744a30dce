// `shardscope sql`, `blocks` and `tail` as programs, on a run that is live and then finished.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/places.h"
#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"
#include "trace/store/remote/pipe_source_test_util.h"

namespace shardscope::app {
namespace {

using query::OpAt;
using query::TestFolder;
using testing::HasSubstr;

const std::string kProgram = BinDir() + "/shardscope";

struct Outcome {
  int exit_code = -1;
  std::string output;  // with errors
};

Outcome RunProgram(const std::string& arguments) {
  Outcome outcome;
  FILE* pipe = popen((kProgram + " " + arguments + " 2>&1").c_str(), "r");
  SHARDSCOPE_CHECK(pipe != nullptr);
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), count);
  }
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

TEST(SqlCommand, AnswersLiveAndFinished) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  const schema::PlanOpId op = query::AddPlanOp(recorder.get(), "F, block0", "forward", "compute");
  recorder->Record(OpAt(op, 0, 0, 0, 2'500'000));
  ASSERT_TRUE(recorder->Flush().ok());
  const std::string query =
      "sql " + folder.path() + " \"SELECT op, rank, duration_ms FROM v_op_run\"";
  EXPECT_EQ(RunProgram(query).output,
            "op         rank  duration_ms\nF, block0     0          2.5\n");
  ASSERT_TRUE(recorder->Finish().ok());
  EXPECT_EQ(RunProgram(query).output,
            "op         rank  duration_ms\nF, block0     0          2.5\n");
  EXPECT_EQ(RunProgram(query + " --csv").output, "op,rank,duration_ms\n\"F, block0\",0,2.5\n");
  EXPECT_EQ(RunProgram(query + " --json").output,
            "[\n{\"op\":\"F, block0\",\"rank\":0,\"duration_ms\":2.5}\n]\n");
  EXPECT_EQ(RunProgram(query).exit_code, 0);
}

TEST(SqlCommand, ChineseAlignsAndNothingSteersTheTerminal) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  ASSERT_TRUE(recorder->Finish().ok());
  const std::string query =
      "sql " + folder.path() +
      " \"SELECT '\u524d\u5411' AS a, 1 AS b UNION SELECT char(27) || 'x', 2\"";
  EXPECT_EQ(RunProgram(query).output, "a     b\n x    2\n\u524d\u5411  1\n");
}

TEST(BlocksCommand, SaysOfWhichRankNothingWasRecorded) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  const schema::PlanOpId op = query::AddPlanOp(recorder.get(), "F, block0", "forward", "compute");
  recorder->Record(OpAt(op, 0, 0, 0, 2'500'000));
  ASSERT_TRUE(recorder->Finish().ok());
  const std::string command = "blocks " + folder.path();
  EXPECT_THAT(RunProgram(command).output, HasSubstr("nothing was recorded of memory"));
  EXPECT_THAT(RunProgram(command + " --rank 0").output,
              HasSubstr("--rank 0: nothing was recorded of its memory"));
  EXPECT_THAT(RunProgram(command + " --rank 7").output, HasSubstr("--rank 7: the run has"));
}

// A table of all rows of a long run is larger than memory: rows come while the statement runs.
TEST(SqlCommand, StreamsItsRows) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  ASSERT_TRUE(recorder->Finish().ok());
  const std::string endless = "sql " + folder.path() +
                              " \"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                              "SELECT i, ";
  EXPECT_EQ(RunProgram(endless + "'x' AS x FROM n\" | head -3").output,
            "   i  x\n   1  x\n   2  x\n");
  // Rows before an error are there, but no half table of a statement that fails at once.
  const auto fails_at = [&endless](int row) {
    return RunProgram(fmt::format(
                          "{}CASE WHEN i = {} THEN abs(-9223372036854775807 - 1) END AS x FROM n\"",
                          endless, row))
        .output;
  };
  const std::string late = fails_at(5000);
  EXPECT_THAT(late, HasSubstr("\n4999\n"));
  EXPECT_THAT(late, HasSubstr("integer overflow"));
  EXPECT_THAT(fails_at(500), testing::StartsWith("shardscope sql: "));
}

// The first thousand rows give the widths; what is wider later keeps all of its text.
TEST(SqlCommand, ALateWideCellPushesItsOwnLineOnly) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  ASSERT_TRUE(recorder->Finish().ok());
  const std::string rows =
      RunProgram("sql " + folder.path() +
                 " \"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1500) "
                 "SELECT CASE WHEN i = 1200 THEN 'wide' ELSE 'w' END AS w, i FROM n\"")
          .output;
  EXPECT_THAT(rows, testing::StartsWith("w     i\nw     1\n"));
  EXPECT_THAT(rows, HasSubstr("\nw  1199\nwide  1200\nw  1201\n"));
  EXPECT_THAT(rows, testing::EndsWith("\nw  1500\n"));
}

TEST(SqlCommand, NeverWritesAndSaysWhatIsWrong) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  ASSERT_TRUE(recorder->Finish().ok());
  const std::string sql = "sql " + folder.path() + " ";
  for (const char* query : {"\"DELETE FROM meta\"", "\"VACUUM INTO '/tmp/x.db'\"",
                            "\"SELECT 1; SELECT 2\"", "\"SELECT x FROM nowhere\"", "\"\""}) {
    const Outcome outcome = RunProgram(sql + query);
    EXPECT_EQ(outcome.exit_code, 1) << query;
    EXPECT_THAT(outcome.output, testing::StartsWith("shardscope sql: ")) << query;
  }
  EXPECT_THAT(RunProgram(sql + "\"SELECT x FROM nowhere\"").output, HasSubstr("nowhere"));
  EXPECT_THAT(RunProgram("sql /nowhere \"SELECT 1\"").output, HasSubstr("/nowhere does not exist"));
  EXPECT_THAT(RunProgram(sql + "\"SELECT count(*) AS n FROM config\"").output, HasSubstr("1"));
}

TEST(SqlCommand, NamesWhatThereIsInsteadOfAnUnknownTableOrColumn) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  ASSERT_TRUE(recorder->Finish().ok());
  const std::string sql = "sql " + folder.path() + " ";
  const std::string table = RunProgram(sql + "\"SELECT * FROM op_runs\"").output;
  EXPECT_THAT(table, HasSubstr("no such table: op_runs; did you mean op_run? There are the views"));
  EXPECT_THAT(table, HasSubstr("v_step"));
  EXPECT_THAT(table, HasSubstr(" marker,"));
  const std::string column = RunProgram(sql + "\"SELECT s.start FROM step AS s\"").output;
  EXPECT_THAT(column, HasSubstr("no such column: s.start; did you mean start_ns? step has "));
  EXPECT_THAT(column, HasSubstr(" start_ns,"));
  EXPECT_THAT(RunProgram(sql + "\"SELECT nothing_alike FROM v_step\"").output,
              HasSubstr("no such column: nothing_alike; v_step has "));
}

TEST(AllCommands, SayWhatAFileIsThatIsNoTrace) {
  TestFolder folder;
  const std::string file = folder.path() + "/report.db";
  std::ofstream(file) << "NVIDIA Tegra Profiler Report";
  std::vector<std::string> commands = {"report " + file, "tail " + file,
                                       "sql " + file + " \"SELECT 1\""};
#ifdef SHARDSCOPE_UI
  commands.push_back("shot " + file + " --json");
#endif
  for (const std::string& command : commands) {
    const Outcome outcome = RunProgram(command);
    EXPECT_EQ(outcome.exit_code, 1) << command;
    EXPECT_THAT(outcome.output, HasSubstr("export it first: nsys export --type sqlite"));
  }
}

TEST(TailCommand, AnotherProcessFollowsOverTheFinish) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  const schema::PlanOpId op = query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  auto source = store::PipeSource::Start({kProgram, "tail", "--stdio", folder.path()});
  ASSERT_TRUE(source.ok()) << source.message();
  auto trace = query::LiveTrace::Follow(std::move(source).value(), "host:run", "run");
  ASSERT_TRUE(trace.ok()) << trace.message();
  constexpr int64_t kRows = 5000;
  for (int64_t i = 0; i < kRows; ++i) {
    recorder->Record(OpAt(op, 0, 0, i, i + 1));
    if (i % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  ASSERT_TRUE(recorder->Finish().ok());
  while (query::MayGrow(trace.value()->Latest()->state) && trace.value()->status().ok()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(trace.value()->status().ok()) << trace.value()->status().message();
  const query::SnapshotPtr snapshot = trace.value()->Latest();
  EXPECT_EQ(snapshot->state, query::TraceState::kFinished);
  ASSERT_EQ(snapshot->ranks.size(), 1u);
  ASSERT_EQ(snapshot->ranks[0].op_runs.size(), static_cast<size_t>(kRows));
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_EQ(snapshot->ranks[0].op_runs[static_cast<size_t>(i)].started_ns, i);
  }
  EXPECT_EQ(snapshot->config.at("run.ranks"), "2");
}

TEST(TailCommand, PrintsStepsForPeople) {
  TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  schema::StepRow step;
  step.end_ns = 12'000'000;
  step.loss = 5.25;
  step.tokens = 64;
  recorder->Record(step);
  ASSERT_TRUE(recorder->Finish().ok());
  EXPECT_EQ(RunProgram("tail " + folder.path()).output,
            "step 0 rank 0: 12.0 ms, loss 5.2500, 64 tokens\nfinished\n");
  EXPECT_EQ(RunProgram("tail /nowhere").exit_code, 1);
}

}  // namespace
}  // namespace shardscope::app
