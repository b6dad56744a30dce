// Memory of one rank: the pool, the ledger, and what a step takes and gives back.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "engine/plan/memory.h"
#include "engine/runtime/memory/temporary_memory.h"
#include "engine/runtime/ranks/test_job.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

TEST(MemoryPoolTest, KeepsFreedBlocksBySizeUntilTrimmed) {
  MemoryPool pool(/*poison=*/false);
  std::byte* block = pool.Allocate(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kAlignment, 0u);
  pool.Free(block, 1000);
  EXPECT_EQ(pool.held_bytes(), 1000u);
  EXPECT_EQ(pool.Allocate(1000), block);
  pool.Free(block, 1000);
  pool.Trim();
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST(MemoryPoolDeathTest, FreedPagesAreInaccessibleWithPoison) {
  MemoryPool pool(/*poison=*/true);
  std::byte* block = pool.Allocate(1000);
  float value = 0;
  std::memcpy(&value, block, sizeof(value));
  EXPECT_NE(value, value);  // NaN
  pool.Free(block, 1000);
  EXPECT_DEATH(std::memcpy(&value, block, sizeof(value)), "");
}

TEST(TemporaryMemoryTest, MeasuresTheHighestPointBeyondWhatIsKept) {
  TemporaryMemory::Install();
  const TemporaryMemory measured;
  const at::Tensor kept = at::zeros({100}, at::kDouble);
  {
    const at::Tensor first = at::zeros({1000}, at::kDouble);
    const at::Tensor second = at::zeros({500}, at::kDouble);
  }
  const at::Tensor later = at::zeros({50}, at::kDouble);
  EXPECT_EQ(measured.Finish(), 8 * (1600 - 150));
}

TEST(RankMemoryTest, RefusesToPassTheLimit) {
  RankMemory memory(3, 100);
  memory.Add(plan::MemoryCategory::kGradient, 80);
  EXPECT_THROW(memory.Add(plan::MemoryCategory::kActivation, 21), std::runtime_error);
  memory.Add(plan::MemoryCategory::kActivation, 20);
  memory.Remove(plan::MemoryCategory::kGradient, 80);
  EXPECT_EQ(memory.live_bytes(), 20);
  EXPECT_EQ(memory.peak_bytes(), 100);
}

// Adds up what the executor reports of rank 0.
class MemorySink : public NullSink {
 public:
  void OnMemory(const executor::OpContext& context, plan::BufferId buffer, int64_t bytes, int64_t,
                int64_t) override {
    if (context.rank != 0) return;
    const std::lock_guard lock(mutex_);
    live_[plan::MemoryCategoryOf(context.buffer(buffer).kind)] += bytes;
    ++events_;
  }
  std::map<plan::MemoryCategory, int64_t> live() const { return live_; }
  int64_t events() const { return events_; }

 private:
  std::mutex mutex_;
  std::map<plan::MemoryCategory, int64_t> live_;
  int64_t events_ = 0;
};

TEST(StepMemoryTest, EveryByteTakenIsGivenBackAndThePeakIsThePlans) {
  for (const plan::Preset preset : {plan::Preset::kFsdp1, plan::Preset::kFsdp2}) {
    TestRun run;
    run.model = {.layers = 4, .dim = 64, .heads = 4, .seq = 16};  // no padding anywhere
    run.policy.preset = preset;
    run.policy.run_ahead = 0;
    const Result<plan::Schedule> schedule =
        plan::BuildSchedule(JobOf(run).description, PolicyOf(run));
    ASSERT_TRUE(schedule.ok());
    MemorySink sink;
    auto ranks = Ranks::Make(JobOf(run), transport::MakeSharedMemoryTransport(2, kNsPerSecond * 60),
                             &sink, 2);
    ASSERT_TRUE(ranks.ok());
    RankMemory& memory = (*ranks)->bodies(0).memory();
    const int64_t before = memory.live_bytes();
    const Status status = (*ranks)->OnAll([&](int rank) {
      (*ranks)->bodies(rank).BeginStep(*schedule, 1e-3);
      return (*ranks)->executor(rank).RunStep(*schedule, 0);
    });
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(memory.live_bytes(), before);
    EXPECT_GT(sink.events(), 0);
    for (const auto& [category, bytes] : sink.live()) EXPECT_EQ(bytes, 0) << plan::Name(category);
    // The plan counts at issue time, the ledger at execution time: frees come later there, but
    // never more is alive than all that the Schedule allows at once.
    const int64_t predicted = plan::PredictPeak(*schedule, 0).total;
    EXPECT_GT(memory.peak_bytes(), before);
    EXPECT_LE(memory.peak_bytes(), predicted * 2);
    EXPECT_GE(memory.peak_bytes(), predicted * 3 / 4);
  }
}

TEST(StepMemoryTest, TheLimitFailsTheStepWithRankAndOp) {
  TestRun run;
  Job job = JobOf(run);
  const Result<plan::Schedule> schedule = plan::BuildSchedule(job.description, PolicyOf(run));
  ASSERT_TRUE(schedule.ok());
  job.memory_limit = 4 * plan::PaddedShardElements(job.description.units[0], 2) * 4 * 8;
  NullSink sink;
  auto ranks =
      Ranks::Make(job, transport::MakeSharedMemoryTransport(2, kNsPerSecond * 60), &sink, 2);
  ASSERT_TRUE(ranks.ok());
  const Status status = (*ranks)->OnAll([&](int rank) {
    (*ranks)->bodies(rank).BeginStep(*schedule, 1e-3);
    return (*ranks)->executor(rank).RunStep(*schedule, 0);
  });
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("out of memory: rank"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("step 0, op '"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace shardscope::runtime
