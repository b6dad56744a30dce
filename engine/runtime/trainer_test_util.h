// What tests of whole runs begin with: a small model, a text, and a folder for the runs.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/trainer.h"

namespace shardscope::runtime {

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("trainer-" + std::to_string(getpid()));
    std::filesystem::create_directories(root_);
    std::ofstream data(root_ / "data.txt");
    for (int i = 0; i < 300; ++i) data << "line " << i * i << " of the text to learn\n";
    Set({{"data.path", (root_ / "data.txt").string()},
         {"run.ranks", "2"},
         {"model.layers", "2"},
         {"model.dim", "24"},
         {"model.heads", "3"},
         {"model.seq", "16"},
         {"train.steps", "8"},
         {"train.batch", "2"}});
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Set(const std::map<std::string, std::string>& values) {
    const Status status = config_.SetAll(values);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  Result<std::unique_ptr<Trainer>> Start(const std::string& name) {
    Result<Job> job = JobOf(config_, ".");
    if (!job.ok()) return job.status();
    TrainerOptions options;
    options.config = config_;
    cpus_.push_back(std::make_unique<CpuDevice>(config_, std::nullopt));
    options.device = device_ != nullptr ? device_ : cpus_.back().get();
    options.folder = (root_ / name).string();
    options.dump_path = (root_ / (name + ".safetensors")).string();
    options.on_step = [this](const StepReport& report) { losses_.push_back(report.loss); };
    options.on_message = [this](const std::string& text) { messages_.push_back(text); };
    return Trainer::Start(std::move(options), *std::move(job));
  }

  RunSummary Train(const std::string& name) {
    losses_.clear();
    messages_.clear();
    auto trainer = Start(name);
    EXPECT_TRUE(trainer.ok()) << trainer.message();
    if (!trainer.ok()) return {};
    const Result<RunSummary> summary = (*trainer)->Run();
    EXPECT_TRUE(summary.ok()) << summary.message();
    return summary.ok() ? *summary : RunSummary();
  }

  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(root_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

  std::filesystem::path root_;
  config::Config config_;
  std::vector<double> losses_;
  std::vector<std::string> messages_;
  Device* device_ = nullptr;  // null: the CPU as it is
  std::vector<std::unique_ptr<CpuDevice>> cpus_;
};

}  // namespace shardscope::runtime
