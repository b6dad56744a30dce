// What GpuLog makes of calls and kernels: times of ops, and rows that name plan op, step and track.
#include "engine/cuda/recording/gpu_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/cuda/recording/cupti_log.h"
#include "engine/plan/policy.h"
#include "engine/plan/uniform_model.h"
#include "trace/base/time.h"
#include "trace/record/keeping_recorder_test_util.h"

namespace shardscope::cuda {
namespace {

using executor::OpContext;
using plan::OpIndex;

struct KeepingRecorder final : record::KeepingRecorder {
  const std::vector<schema::TrackRow>& tracks = Rare<schema::TrackRow>();
  const std::vector<schema::MarkerRow>& markers = Rare<schema::MarkerRow>();
  const std::vector<schema::MemorySegmentRow>& segments = Hot<schema::MemorySegmentRow>();
  const std::vector<schema::SpanRow>& spans = Hot<schema::SpanRow>();  // of no kernel or copy
  const std::vector<record::GpuWorkRecord>& works = Hot<record::GpuWorkRecord>();
};

// Stream handles are small numbers, and so are CUPTI's ids of them.
Stream HandleOf(uint32_t stream) { return reinterpret_cast<Stream>(uintptr_t{stream} + 1); }

class GpuLogTest : public testing::Test {
 protected:
  GpuLogTest()
      : log_({.id_of_stream = [](Stream stream) {
          return cupti::StreamId{1, static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream) - 1)};
        }}) {
    plan::Policy policy;
    for (const int depth : {1, 2}) {
      policy.backward_depth = depth;
      schedules_.push_back(*plan::BuildSchedule(plan::UniformModel(2, true), policy));
    }
  }

  void Open() {
    log_.Open(&recorder_, {.plan_op =
                               [this](const OpContext& context) {
                                 return schema::PlanOpId(
                                     1000 * (context.schedule - schedules_.data()) + context.index);
                               },
                           .track =
                               [](const OpContext& context) {
                                 return schema::TrackId(50 + context.op().stream);
                               }});
  }

  // Issues all ops of a step, each with one call and one kernel, and one call more; gives the log
  // what CUPTI says of it.
  void RunStep(size_t schedule, int64_t step) {
    const plan::Program& program = schedules_[schedule].programs[0];
    cupti::Batch batch;
    for (size_t op = 0; op < program.ops.size(); ++op) {
      OpContext context{.schedule = &schedules_[schedule],
                        .program = &program,
                        .index = static_cast<OpIndex>(op),
                        .step = step};
      const auto stream = static_cast<uint32_t>(program.ops[op].stream);
      context.device_stream = HandleOf(stream);
      const int64_t start_ns = MonotonicNs();
      log_.OnBegin(context);
      AddCall(start_ns + 1, &batch);
      batch.kernels.push_back({.start_ns = start_ns + 1000,
                               .end_ns = start_ns + 3000,
                               .stream = {1, stream},
                               .correlation = correlation_,
                               .name = names_.OfText("kernel")});
      while (MonotonicNs() < start_ns + 10) {
      }
      log_.OnIssued({.key = OpRunKey(0, step, context.index),
                     .thread = thread_,
                     .start_ns = start_ns,
                     .end_ns = MonotonicNs()});
      starts_ns_.push_back(start_ns);
    }
    AddCall(MonotonicNs() + 1, &batch);
    log_.Add(batch, names_);
  }

  void AddCall(int64_t start_ns, cupti::Batch* batch) {
    batch->calls.push_back({.start_ns = start_ns,
                            .end_ns = start_ns + 2,
                            .callback = 211,
                            .thread = thread_,
                            .correlation = ++correlation_});
  }

  static cupti::Kernel KernelBefore(int64_t start_ns) {
    return {.start_ns = start_ns, .end_ns = start_ns + 1};
  }

  const uint32_t thread_ = static_cast<uint32_t>(gettid());
  std::vector<plan::Schedule> schedules_;
  KeepingRecorder recorder_;
  cupti::Names names_;
  GpuLog log_;
  uint32_t correlation_ = 0;
  std::vector<int64_t> starts_ns_;
};

TEST_F(GpuLogTest, AStepHasTheTimesOfItsKernels) {
  Open();
  RunStep(0, 3);
  const size_t num_ops = schedules_[0].programs[0].ops.size();
  const std::vector<DeviceInterval> intervals = log_.TakeStep(0, 3, num_ops);
  ASSERT_EQ(intervals.size(), num_ops);
  for (size_t op = 0; op < num_ops; ++op) {
    EXPECT_EQ(intervals[op].started_ns, starts_ns_[op] + 1000) << op;
    EXPECT_EQ(intervals[op].ended_ns, starts_ns_[op] + 3000) << op;
  }
}

TEST_F(GpuLogTest, RowsNameThePlanOpOfTheScheduleThatRan) {
  Open();
  RunStep(0, 0);
  RunStep(0, 1);
  RunStep(1, 2);
  // Batches of two evaluations between steps, which count down.
  RunStep(0, -2);
  RunStep(0, -3);
  RunStep(1, 3);
  RunStep(0, -4);
  log_.Close();
  std::map<int64_t, std::vector<int64_t>> plan_ops;  // by step
  for (const record::GpuWorkRecord& work : recorder_.works) {
    plan_ops[work.work.step].push_back(work.work.plan_op.value());
  }
  ASSERT_EQ(plan_ops.size(), 7U);
  for (auto& [step, ops] : plan_ops) {
    std::sort(ops.begin(), ops.end());
    const int64_t base = step >= 2 ? 1000 : 0;
    ASSERT_EQ(ops.size(), schedules_[step >= 2 ? 1 : 0].programs[0].ops.size());
    for (size_t op = 0; op < ops.size(); ++op) EXPECT_EQ(ops[op], base + static_cast<int64_t>(op));
  }
}

TEST_F(GpuLogTest, TheLedgerOfMemoryBeginsBeforeTheTraceAndWorkFromThenIsCounted) {
  cupti::Batch before;
  before.memory = {
      {.time_ns = 1000, .bytes = 4096, .address = 64, .kind = cupti::MemoryKind::kDevice}};
  before.kernels = {KernelBefore(2000), KernelBefore(3000)};
  log_.Add(before, names_);
  Open();
  RunStep(0, 0);
  RunStep(0, 1);
  log_.Close();
  ASSERT_EQ(recorder_.segments.size(), 1U);
  EXPECT_EQ(recorder_.segments[0].bytes, 4096);
  ASSERT_EQ(recorder_.markers.size(), 1U);
  EXPECT_EQ(recorder_.markers[0].new_value,
            "2 kernels and copies from before the trace was opened are not in it");
  EXPECT_EQ(recorder_.works.size(), 2 * schedules_[0].programs[0].ops.size());
}

TEST_F(GpuLogTest, KernelsOfAStreamStandBelowItsOps) {
  Open();
  RunStep(0, 0);
  log_.Close();
  std::vector<std::string> names;
  for (const schema::TrackRow& track : recorder_.tracks) names.push_back(track.name);
  for (const plan::Stream& stream : schedules_[0].streams) {
    const std::string name = stream.name + " kernels";
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST_F(GpuLogTest, AStepThatIsNotRecordedBelongsToNoOpAndKeepsNobodyWaiting) {
  Open();
  RunStep(0, 0);
  log_.SetRecording(false);
  RunStep(0, 1);
  const int64_t before_ns = MonotonicNs();
  const std::vector<DeviceInterval> intervals =
      log_.TakeStep(0, 1, schedules_[0].programs[0].ops.size());
  EXPECT_LT(MonotonicNs() - before_ns, 400'000'000);  // it does not wait for records
  for (const DeviceInterval& interval : intervals) EXPECT_EQ(interval.ended_ns, 0);
  log_.SetRecording(true);
  RunStep(0, 2);
  EXPECT_GT(log_.TakeStep(0, 2, 1)[0].ended_ns, 0);
  log_.Close();
  std::map<int64_t, int64_t> works;  // by step; what no op launched is -1
  for (const record::GpuWorkRecord& work : recorder_.works) ++works[work.work.step];
  EXPECT_EQ(works[0], works[2]);
  EXPECT_EQ(works.count(1), 0U);
}

// As a reader tells NCCL's memory: by a range of that name around the time at which it was taken.
TEST_F(GpuLogTest, CallsOfNcclInWhichTheDriverHandedOutMemoryAreRanges) {
  Open();
  RunStep(0, 0);
  log_.SetRecording(false);  // memory is told all the same
  const int64_t start_ns = MonotonicNs();
  log_.OnNccl({thread_, start_ns, start_ns + 100, "first gather"});
  log_.OnNccl({thread_, start_ns + 200, start_ns + 300, "second gather"});
  cupti::Batch batch;
  const auto operation = [](int64_t time_ns, int64_t bytes, cupti::MemoryKind kind) {
    return cupti::MemoryOperation{.time_ns = time_ns, .bytes = bytes, .address = 64, .kind = kind};
  };
  batch.memory = {operation(start_ns + 50, 4096, cupti::MemoryKind::kDevice),
                  operation(start_ns + 250, -4096, cupti::MemoryKind::kDevice),
                  operation(start_ns + 260, 4096, cupti::MemoryKind::kPinned)};
  log_.Add(batch, names_);
  log_.Close();
  const auto is_of_nccl = [this](const schema::SpanRow& row) {
    return recorder_.strings()[static_cast<size_t>(row.name_string.value()) - 1].starts_with(
        "NCCL: ");
  };
  ASSERT_EQ(std::count_if(recorder_.spans.begin(), recorder_.spans.end(), is_of_nccl), 1);
  const schema::SpanRow& row =
      *std::find_if(recorder_.spans.begin(), recorder_.spans.end(), is_of_nccl);
  EXPECT_EQ(recorder_.strings()[static_cast<size_t>(row.name_string.value()) - 1],
            "NCCL: first gather");
  EXPECT_EQ(recorder_.tracks[static_cast<size_t>(row.track.value()) - 1].name, "host calls");
  EXPECT_EQ(row.start_ns, start_ns);
  EXPECT_EQ(row.duration_ns, 100);
  EXPECT_EQ(recorder_.segments.size(), 3U);
}

TEST_F(GpuLogTest, NothingIsKeptBeforeItIsOpenAndAfterItIsClosed) {
  RunStep(0, 0);
  EXPECT_EQ(log_.TakeStep(0, 0, 2).size(), 2U);
  EXPECT_EQ(log_.TakeStep(0, 0, 2)[0].ended_ns, 0);
  Open();
  EXPECT_EQ(log_.Close().works, 0);
  RunStep(0, 1);
  EXPECT_EQ(log_.Close().works, 0);
  EXPECT_TRUE(recorder_.works.empty());
}

TEST(CuptiLog, SaysWhyThereIsNone) {
  setenv(cupti::kSwitchVariable, "off", 1);
  const auto log = CuptiLog::Start(nullptr);
  unsetenv(cupti::kSwitchVariable);
  ASSERT_FALSE(log.ok());
  EXPECT_FALSE(log.message().empty());
}

}  // namespace
}  // namespace shardscope::cuda
