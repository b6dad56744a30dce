#include "engine/cuda/runtime/cpu_as_gpu_test_util.h"

#include <gtest/gtest.h>

#include "engine/executor/cpu_runner.h"
#include "engine/runtime/ranks/step_results_test_util.h"
#include "trace/base/time.h"

namespace shardscope::cuda {

runtime::TestResult TrainOnDevice(const runtime::TestRun& run,
                                  const std::function<void(runtime::Ranks&)>& at_end,
                                  bool uses_pool) {
  const Result<plan::Schedule> schedule =
      plan::BuildSchedule(runtime::DescriptionOf(run), runtime::PolicyOf(run));
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  runtime::NullSink sink;
  CpuAsGpu device(run.model, uses_pool);
  auto made = runtime::Ranks::Make(
      runtime::JobOf(run),
      transport::MakeSharedMemoryTransport(run.training.num_ranks, 60 * kNsPerSecond), &sink,
      &device);
  EXPECT_TRUE(made.ok()) << made.message();
  runtime::Ranks& ranks = **made;
  EXPECT_TRUE(ranks.OnAll([&](int rank) { return ranks.SetSchedule(rank, *schedule); }).ok());
  for (int rank = 0; run.jitter && rank < ranks.size(); ++rank) {
    ranks.runner(rank).set_delay_hook(runtime::Jitter());
  }
  runtime::TestResult result;
  for (int64_t step = 0; step < run.training.steps; ++step) {
    const Status status = ranks.OnAll([&](int rank) {
      ranks.work(rank).BeginStep(step, run.training.learning_rate);
      const Status ran = ranks.runner(rank).RunStep(step);
      EXPECT_TRUE(!ran.ok() || ranks.work(rank).EndStep() == 0);
      return ran;
    });
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return result;
    runtime::AddStep(&ranks, &result);
  }
  runtime::AddParameters(run, &ranks, &result);
  if (at_end) at_end(ranks);
  return result;
}

}  // namespace shardscope::cuda
