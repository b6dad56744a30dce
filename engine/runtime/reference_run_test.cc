// Runs of the unsharded reference trainer: what they leave, and that a failed start leaves nothing.
#include "engine/runtime/reference_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/runtime/trainer_test_util.h"
#include "trace/base/file_size_limit_test_util.h"
#include "trace/base/process.h"

namespace shardscope::runtime {
namespace {

TEST_F(TrainerTest, AReferenceThatDoesNotStartLeavesItsFolderFree) {
  const Result<Job> job = JobOf(config_, ".");
  ASSERT_TRUE(job.ok()) << job.message();
  const std::string folder = (root_ / "reference").string();
  ReferenceOptions options;
  options.config = config_;
  options.folder = folder;
  {
    const FileSizeLimit limit(256);  // run.toml is larger
    EXPECT_FALSE(RunReference(options, *job).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(folder));

  int num_steps = 0;
  options.on_step = [&](const StepReport& report) {
    EXPECT_EQ(report.step, num_steps++);
    EXPECT_TRUE(FolderLock::IsHeld(folder)) << "in step " << report.step;
  };
  const Result<RunSummary> summary = RunReference(options, *job);
  ASSERT_TRUE(summary.ok()) << summary.message();
  EXPECT_EQ(num_steps, 8);
  EXPECT_EQ(summary->steps, 8);
  EXPECT_TRUE(std::filesystem::exists(summary->trace_path));
  EXPECT_TRUE(std::filesystem::exists(folder + "/run.toml"));
  EXPECT_FALSE(FolderLock::IsHeld(folder));
}

}  // namespace
}  // namespace shardscope::runtime
