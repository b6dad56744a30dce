#include "trace/store/remote/tail_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "trace/base/text.h"
#include "trace/store/remote/pipe_source_test_util.h"

namespace shardscope::store {
namespace {

using testing::HasSubstr;

RowBatch SomeRows() {
  RowBatch batch;
  for (int64_t i = 1; i <= 2500; ++i) {  // more than one line of them
    schema::OpRunRow row;
    row.id = schema::OpRunId(i);
    row.ended_ns = std::numeric_limits<int64_t>::max() - i;
    row.blocking_plan_op = schema::PlanOpId::None();
    row.blocking_kind = "communicator_order";
    batch.Get<schema::OpRunRow>().push_back(row);
  }
  schema::StepRow step;
  step.id = schema::StepId(1);
  step.loss = 0.1;
  step.grad_norm = std::numeric_limits<double>::quiet_NaN();
  batch.Get<schema::StepRow>().push_back(step);
  batch.Get<schema::MetaRow>().push_back({"name", "quotes \" and\nlines, 层"});
  return batch;
}

void ExpectSomeRows(const RowBatch& batch) {
  const auto& ops = batch.Get<schema::OpRunRow>();
  ASSERT_EQ(ops.size(), 2500u);
  for (size_t i = 0; i < ops.size(); ++i) ASSERT_EQ(ops[i].id.value(), static_cast<int64_t>(i) + 1);
  EXPECT_EQ(ops[0].ended_ns, std::numeric_limits<int64_t>::max() - 1);
  EXPECT_EQ(ops[0].blocking_plan_op, schema::PlanOpId::None());
  EXPECT_EQ(ops[0].blocking_kind, "communicator_order");
  ASSERT_EQ(batch.Get<schema::StepRow>().size(), 1u);
  EXPECT_EQ(batch.Get<schema::StepRow>()[0].loss, 0.1);
  EXPECT_TRUE(std::isnan(batch.Get<schema::StepRow>()[0].grad_norm));
  ASSERT_EQ(batch.Get<schema::MetaRow>().size(), 1u);
  EXPECT_EQ(batch.Get<schema::MetaRow>()[0].value, "quotes \" and\nlines, 层");
}

TEST(TailProtocol, RowsComeBack) {
  const std::string text = TailHello("run") + TailGroup(SomeRows(), SourceState::kCut);
  TailDecoder decoder;
  RowBatch batch;
  for (const std::string_view line : Split(text, '\n')) {
    if (line.empty()) continue;
    ASSERT_FALSE(decoder.TakeRows(&batch));  // nothing before the group is complete
    const Status taken = decoder.Take(line);
    ASSERT_TRUE(taken.ok()) << taken.message();
  }
  EXPECT_TRUE(decoder.TakeRows(&batch));
  EXPECT_EQ(decoder.state(), SourceState::kCut);
  EXPECT_EQ(decoder.run_name(), "run");
  ExpectSomeRows(batch);
}

TEST(TailProtocol, RefusesWhatItIsNot) {
  const auto refused = [](const std::vector<std::string>& lines) {
    TailDecoder decoder;
    Status status;
    for (const std::string& line : lines) status = decoder.Take(line);
    return status.message();
  };
  const std::string hello = TailHello("run");
  EXPECT_THAT(refused({"Welcome to host x"}), HasSubstr("no JSON object"));
  EXPECT_THAT(refused({"{}"}), HasSubstr("no greeting"));
  EXPECT_THAT(refused({R"({"shardscope_tail":1,"schema":99})"}), HasSubstr("same version"));
  EXPECT_THAT(refused({hello, R"({"table":"sqlite_schema","rows":[]})"}),
              HasSubstr("unknown table"));
  EXPECT_THAT(refused({hello, R"({"table":"meta","rows":[["only one"]]})"}), HasSubstr("meta"));
  EXPECT_THAT(refused({hello, R"({"table":"meta","rows":[["a","b","c"]]})"}), HasSubstr("meta"));
  EXPECT_THAT(refused({hello, R"({"table":"meta","rows":[[1,2]]})"}), HasSubstr("meta"));
  EXPECT_THAT(refused({hello, R"({"table":"rank","rows":[[18446744073709551615,"h",1,"d"]]})"}),
              HasSubstr("rank"));
  EXPECT_THAT(refused({hello, R"({"state":"sleeping"})"}), HasSubstr("sleeping"));
  EXPECT_THAT(refused({hello, TailError("gone")}), HasSubstr("remote: gone"));
}

// Reads until the run ends or an error.
Result<RowBatch> ReadToEnd(PipeSource* source) {
  RowBatch batch;
  while (source->state() == SourceState::kLive) {
    const Result<bool> more = source->Read(&batch);
    if (!more.ok()) return more.status();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return batch;
}

TEST(PipeSource, ReadsACommandsOutput) {
  const std::string text = TailHello("far") + TailGroup(SomeRows(), SourceState::kFinished);
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("shardscope-tail-" + std::to_string(getpid()));
  std::ofstream(file) << text;
  auto source = PipeSource::Start({"cat", file.string()});
  ASSERT_TRUE(source.ok()) << source.message();
  const Result<RowBatch> batch = ReadToEnd(source.value().get());
  std::filesystem::remove(file);
  ASSERT_TRUE(batch.ok()) << batch.message();
  ExpectSomeRows(batch.value());
  EXPECT_EQ(source.value()->run_name(), "far");
}

TEST(PipeSource, ABrokenConnectionIsAnError) {
  auto source =
      PipeSource::Start({"sh", "-c", "echo '" + TailHello("far") + "' | head -1; exit 3"});
  ASSERT_TRUE(source.ok()) << source.message();
  EXPECT_THAT(ReadToEnd(source.value().get()).message(), HasSubstr("exit 3"));
  EXPECT_THAT(PipeSource::Start({"no-such-command-here"}).message(), HasSubstr("cannot start"));
}

}  // namespace
}  // namespace shardscope::store
