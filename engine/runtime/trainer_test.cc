// Whole runs in a folder: what they leave there, what they refuse, and that a live switch of
// schedules changes no arithmetic.
#include "engine/runtime/trainer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/checkpoint/checkpoint.h"
#include "engine/footprint/advice.h"
#include "engine/footprint/footprint.h"
#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/trainer_test_util.h"
#include "engine/runtime/units/state_move.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainerTest, LeavesTheFolderOfTheDesign) {
  const RunSummary summary = Train("a");
  EXPECT_EQ(summary.steps, 8);
  EXPECT_FALSE(summary.stopped_early);
  EXPECT_EQ(losses_.size(), 8u);
  EXPECT_LT(losses_.back(), losses_.front());
  for (const char* file : {"a/run.toml", "a/schedules/0.txt", "a/log.txt", "a/checkpoints"}) {
    EXPECT_TRUE(fs::exists(root_ / file)) << file;
  }
  EXPECT_TRUE(summary.trace_path.ends_with(".db"));
  EXPECT_FALSE(summary.trace_path.ends_with(".live.db"));
  EXPECT_TRUE(fs::exists(summary.trace_path));
  const Result<config::Config> written = config::LoadToml((root_ / "a/run.toml").string());
  ASSERT_TRUE(written.ok()) << written.message();
  EXPECT_EQ(written->Get("model.dim"), "24");
}

TEST_F(TrainerTest, RefusesAFolderThatHasARunAndTouchesNothing) {
  Train("a");
  const std::string before = Read("a/run.toml");
  const auto again = Start("a");
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.message().find("has a run in it already"), std::string::npos);
  EXPECT_EQ(Read("a/run.toml"), before);
}

TEST_F(TrainerTest, SaysWhichListedChangesNeverApply) {
  config_.AddChange({.step = 7, .set = {{"prefetch.backward", "none"}}});
  config_.AddChange({.step = 8, .set = {{"prefetch.forward", "2"}}});
  for (int i = 0; i < 4; ++i) config_.AddChange({.step = 100, .set = {{"train.lr", "0.1"}}});
  Train("a");
  ASSERT_FALSE(messages_.empty());
  EXPECT_EQ(messages_.front(),
            "listed changes that never apply, as the last step is 7: step 8 (prefetch.forward=2), "
            "step 100 (train.lr=0.1), step 100 (train.lr=0.1), and 2 more");
  EXPECT_NE(Read("a/log.txt").find(messages_.front()), std::string::npos);
}

TEST_F(TrainerTest, AThousandListedChangesStart) {
  for (int i = 0; i < 1000; ++i) {
    config_.AddChange({.step = 1 + i / 200, .set = {{"prefetch.forward", std::to_string(i % 4)}}});
  }
  EXPECT_EQ(Train("a").steps, 8);
}

TEST_F(TrainerTest, AFolderOfARunThatDidNotStartIsFreeAgain) {
  ASSERT_EQ(setenv("XDG_RUNTIME_DIR", "", 1), 0);
  ASSERT_EQ(setenv("TMPDIR", (root_ / "no such folder").c_str(), 1), 0);
  const auto refused = Start("a");
  unsetenv("TMPDIR");
  EXPECT_FALSE(refused.ok());
  EXPECT_FALSE(fs::exists(root_ / "a"));
  EXPECT_EQ(Train("a").steps, 8);
}

TEST_F(TrainerTest, DumpsTheSameBytesWhateverMovesOpsOnly) {
  Train("a");
  const std::string expected = Read("a.safetensors");
  EXPECT_GT(expected.size(), 100000u);
  Train("b");
  EXPECT_EQ(Read("b.safetensors"), expected);
  // Schedules switch while training, twice, and back to one that ran before.
  config_.AddChange({.step = 2, .set = {{"preset", "fsdp1"}, {"prefetch.backward", "none"}}});
  config_.AddChange({.step = 4, .set = {{"preset", "fsdp2"}, {"prefetch.backward", "pre"}}});
  config_.AddChange({.step = 6, .set = {{"strategy", "grad_op"}, {"prefetch.forward", "2"}}});
  Train("c");
  EXPECT_EQ(Read("c.safetensors"), expected);
  EXPECT_TRUE(fs::exists(root_ / "c/schedules/2.txt"));
  EXPECT_FALSE(fs::exists(root_ / "c/schedules/3.txt"));
}

// Of three stages the one in the middle loads nothing.
TEST_F(TrainerTest, DumpsTheBatchesThatRanksLoadWhileTheyAreStagesAndWhileNot) {
  Set({{"run.ranks", "3"}, {"model.layers", "3"}});
  config_.AddChange({.step = 2, .set = {{"strategy", "pipeline"}}});
  config_.AddChange({.step = 4, .set = {{"strategy", "full"}}});
  config_.AddChange({.step = 6, .set = {{"strategy", "pipeline"}}});
  Train("a");
  const std::string dump = Read("a.safetensors");
  for (int step = 0; step < 8; ++step) {
    const bool are_stages = step / 2 % 2 == 1;
    for (int rank = 0; rank < 3; ++rank) {
      const bool is_dumped = dump.find(fmt::format("\"batch.{}.{}\"", step, rank)) != dump.npos;
      EXPECT_EQ(is_dumped, !are_stages || rank != 1) << "step " << step << ", rank " << rank;
    }
  }
}

TEST_F(TrainerTest, AutoBandwidthIsFoundAndWritten) {
  Set({{"link.bandwidth", "auto:0.6"}, {"link.latency", "0"}});
  Train("a");
  const Result<config::Config> written = config::LoadToml((root_ / "a/run.toml").string());
  ASSERT_TRUE(written.ok());
  EXPECT_FALSE(config::GetLinkBandwidth(*written).is_auto);
  EXPECT_EQ(messages_.size(), 2u);  // what was found, and the change
}

// By the time the first steps have been measured, and with the weights of a run that keeps all.
TEST_F(TrainerTest, BlocksOfABudgetAreFoundAndWritten) {
  Train("all");
  const std::string expected = Read("all.safetensors");
  const Result<Job> job = JobOf(config_, ".");
  ASSERT_TRUE(job.ok()) << job.message();
  plan::Policy policy = config::ToPolicy(config_);
  policy.checkpointing = {.mode = plan::Checkpointing::kBlocks, .blocks = {0}};
  const auto schedule = plan::BuildSchedule(
      model::DescribeModel(job->model, policy.units, job->training.batch), policy);
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  const int64_t kilobytes = plan::PredictLargestPeak(*schedule) / 1000 + 1;
  Set({{"checkpointing", "budget:" + std::to_string(kilobytes) + "kB"}});
  Train("budget");
  const Result<config::Config> written = config::LoadToml((root_ / "budget/run.toml").string());
  ASSERT_TRUE(written.ok()) << written.message();
  const plan::ActivationCheckpointing found = config::GetCheckpointing(*written);
  EXPECT_EQ(found.mode, plan::Checkpointing::kBlocks);
  EXPECT_EQ(found.blocks.size(), 1u);
  EXPECT_EQ(Read("budget.safetensors"), expected);
  EXPECT_EQ(messages_.size(), 2u);  // what was found, and the change
}

TEST_F(TrainerTest, CheckpointingChangesLiveAndNoBit) {
  Train("all");
  config_.AddChange({.step = 2, .set = {{"checkpointing", "full"}}});
  config_.AddChange({.step = 4, .set = {{"checkpointing", "selective"}, {"strategy", "grad_op"}}});
  config_.AddChange({.step = 6, .set = {{"checkpointing", "none"}}});
  Train("changes");
  EXPECT_EQ(Read("changes.safetensors"), Read("all.safetensors"));
  EXPECT_TRUE(fs::exists(root_ / "changes/schedules/3.txt"));
}

// State moves to the host's memory and back, and copies take as long as their link says.
TEST_F(TrainerTest, OffloadChangesLiveAndNoBit) {
  Train("plain");
  Set({{"link.host.bandwidth", "20MB/s"}, {"link.host.latency", "100us"}});
  config_.AddChange({.step = 2, .set = {{"offload", "all"}}});
  config_.AddChange({.step = 4, .set = {{"preset", "fsdp1"}, {"checkpointing", "full"}}});
  config_.AddChange({.step = 6, .set = {{"offload", "none"}}});
  Train("offloaded");
  EXPECT_EQ(Read("offloaded.safetensors"), Read("plain.safetensors"));
  config_.ClearChanges();
  config_.AddChange({.step = 1, .set = {{"offload", "optimizer"}}});
  config_.AddChange({.step = 3, .set = {{"offload", "all"}}});
  config_.AddChange({.step = 5, .set = {{"offload", "optimizer"}}});
  config_.AddChange({.step = 6, .set = {{"offload", "none"}}});
  Train("optimizer");
  EXPECT_EQ(Read("optimizer.safetensors"), Read("plain.safetensors"));
}

// Of zero3 too, whose ranks keep small parameters whole, in bf16.
TEST_F(TrainerTest, OffloadOfZero3ChangesLiveAndNoBit) {
  for (const char* clip : {"1", "0"}) {
    SCOPED_TRACE(clip);
    config_.ClearChanges();
    const std::string name = fmt::format("clip{}", clip);
    Set({{"strategy", "zero3"},
         {"precision.param", "bf16"},
         {"train.micro_batches", "2"},
         {"train.clip", clip}});
    Train(name + "plain");
    config_.AddChange({.step = 1, .set = {{"offload", "all"}}});
    config_.AddChange({.step = 3, .set = {{"offload", "optimizer"}}});
    config_.AddChange({.step = 4, .set = {{"offload", "all"}, {"checkpointing", "full"}}});
    config_.AddChange({.step = 5, .set = {{"strategy", "full"}}});
    config_.AddChange({.step = 6, .set = {{"strategy", "zero3"}, {"offload", "none"}}});
    Train(name + "offloaded");
    EXPECT_EQ(Read(name + "offloaded.safetensors"), Read(name + "plain.safetensors"));
  }
}

// The CPU, which hears when it is to leave times and rows, and whose ops can be held up.
class SwitchedDevice final : public CpuDevice {
 public:
  SwitchedDevice() : CpuDevice(CpuOptions()) {}
  std::unique_ptr<executor::StepRunner> MakeRunner(int rank, executor::OpBodies* bodies,
                                                   executor::ExecutionSink* sink) override {
    std::unique_ptr<executor::StepRunner> runner = CpuDevice::MakeRunner(rank, bodies, sink);
    runner->set_delay_hook(delay);
    return runner;
  }
  void SetRecording(bool is_recording) override { switches.push_back(is_recording); }

  std::vector<bool> switches;
  executor::DelayHook delay;
};

TEST_F(TrainerTest, StepsThatMeasureWhatRecordingCostsChangeNoArithmetic) {
  Set({{"train.steps", "14"}});
  Train("a");
  Set({{"record.measure_overhead", "2"}});
  SwitchedDevice device;
  device_ = &device;
  Train("b");
  EXPECT_EQ(Read("b.safetensors"), Read("a.safetensors"));
  EXPECT_EQ(device.switches, (std::vector<bool>{false, true, false, true}));
  // In a window of steps beside it nothing is switched.
  device.switches.clear();
  Set({{"record.steps", "2:14"}, {"record.measure_overhead", "0"}});
  Train("c");
  EXPECT_EQ(device.switches, (std::vector<bool>{true, true}));
}

TEST_F(TrainerTest, LossesAreTheSameInWhateverOrderTheRanksCome) {
  Set({{"run.ranks", "3"}, {"train.steps", "12"}});
  Train("a");
  const std::vector<double> expected = losses_;
  SwitchedDevice device;
  device_ = &device;
  for (const int first : {0, 2}) {
    // The ranks finish each step one after the other: from rank 0 on, then from rank 2.
    device.delay = [first](const executor::OpContext& context) {
      if (context.op().kind != plan::OpKind::kOptimizer) return;
      SleepUntilNs(MonotonicNs() + std::abs(first - context.rank) * 5 * kNsPerMs);
    };
    Train("b" + std::to_string(first));
    EXPECT_EQ(losses_, expected);
  }
}

TEST_F(TrainerTest, MoreMeasuringThanThereAreStepsForIsRefused) {
  Set({{"record.measure_overhead", "2"}});
  const auto refused = Start("a");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("train longer"), std::string::npos) << refused.message();
  EXPECT_FALSE(fs::exists(root_ / "a"));
}

TEST_F(TrainerTest, StoppingEndsBeforeTheNextStep) {
  auto trainer = Start("a");
  ASSERT_TRUE(trainer.ok());
  (*trainer)->steering().Interrupt(SIGTERM);
  const Result<RunSummary> summary = (*trainer)->Run();
  ASSERT_TRUE(summary.ok()) << summary.message();
  EXPECT_EQ(summary->steps, 0);
  EXPECT_TRUE(summary->stopped_early);
  EXPECT_EQ(summary->stop_signal, SIGTERM);
  EXPECT_TRUE(fs::exists(summary->trace_path));
}

TEST_F(TrainerTest, CheckpointsHoldEveryRanksRows) {
  auto trainer = Start("a");
  ASSERT_TRUE(trainer.ok());
  const config::Request request{.id = 1, .body = config::DoRequest{config::Action::kCheckpoint}};
  EXPECT_TRUE((*trainer)->steering().Handle(request).ok);
  ASSERT_TRUE((*trainer)->Run().ok());
  const fs::path folder = root_ / "a/checkpoints/step-0";
  const Result<checkpoint::Checkpoint> written = checkpoint::Checkpoint::Open(folder.string());
  ASSERT_TRUE(written.ok()) << written.message();
  for (const checkpoint::FileEntry& file : written->index().files) {
    EXPECT_TRUE(written->VerifyFile(file.name).ok()) << file.name;
  }
  EXPECT_EQ(written->index().num_ranks, 2);
  for (const checkpoint::ParameterEntry& parameter : written->index().parameters) {
    EXPECT_EQ(parameter.tensors.size(), 3u) << parameter.name;
  }
  EXPECT_NE(Read("a/log.txt").find("checkpoint before step 0 in"), std::string::npos);
}

TEST_F(TrainerTest, ACheckpointThatCannotBeWrittenIsSaidAndLeavesNothing) {
  auto trainer = Start("a");
  ASSERT_TRUE(trainer.ok());
  const config::Request request{.id = 1, .body = config::DoRequest{config::Action::kCheckpoint}};
  EXPECT_TRUE((*trainer)->steering().Handle(request).ok);
  // One rank can write its part, the other cannot.
  fs::create_directories(root_ / "a/checkpoints/step-0.1.partial/rank-1-of-2.safetensors");
  ASSERT_TRUE((*trainer)->Run().ok());
  EXPECT_TRUE(fs::is_empty(root_ / "a/checkpoints"));
  const std::string log = Read("a/log.txt");
  EXPECT_NE(log.find("no checkpoint before step 0: 1 of 2 ranks"), std::string::npos) << log;
  EXPECT_EQ(log.find("checkpoint before step 0 in"), std::string::npos) << log;
}

TEST_F(TrainerTest, ASchedulesTextThatCannotBeWrittenEndsTheTrainingOnlyWhereThatWasAskedFor) {
  config_.AddChange({.step = 1, .set = {{"prefetch.backward", "none"}}});
  const auto run = [this](const std::string& name) {
    auto trainer = Start(name);
    EXPECT_TRUE(trainer.ok()) << trainer.message();
    fs::remove_all(root_ / name / "schedules");
    return (*trainer)->Run();
  };
  const Result<RunSummary> summary = run("a");
  ASSERT_TRUE(summary.ok()) << summary.message();
  EXPECT_EQ(summary->steps, 8);
  EXPECT_NE(Read("a/log.txt").find("schedules/1.txt: "), std::string::npos);
  Set({{"record.on_error", "stop"}});
  const Result<RunSummary> stopped = run("b");
  ASSERT_FALSE(stopped.ok());
  EXPECT_NE(stopped.message().find("record.on_error=stop"), std::string::npos) << stopped.message();
}

TEST_F(TrainerTest, ALogThatIsAPipeKeepsNobodyWaiting) {
  auto trainer = Start("a");
  ASSERT_TRUE(trainer.ok());
  fs::remove(root_ / "a/log.txt");
  ASSERT_EQ(mkfifo((root_ / "a/log.txt").c_str(), 0666), 0);
  EXPECT_TRUE((*trainer)->Run().ok());
}

TEST_F(TrainerTest, ASchedulePredictedToPassTheMemoryLimitIsRefused) {
  const auto footprint = footprint::FootprintOf(config_);
  ASSERT_TRUE(footprint.ok()) << footprint.message();
  const int64_t needed = footprint->needed_bytes();
  Set({{"engine.memory_limit", std::to_string(needed - 1) + "B"}});
  EXPECT_NE(Start("a").message().find("engine.memory_limit is"), std::string::npos);
  // The same for a change, before it can fail the run.
  Set({{"engine.memory_limit", std::to_string(needed) + "B"}});
  config_.AddChange({.step = 1, .set = {{"strategy", "grad_op"}}});
  const auto refused = Start("a");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("change at step 1: out of memory: schedule"), std::string::npos)
      << refused.message();
  EXPECT_FALSE(fs::exists(root_ / "a"));
}

// What the error says would have made it fit does, in a run of its own; what is said to leave the
// results as they are leaves the same bits.
TEST_F(TrainerTest, EachRemedyOfAnOutOfMemoryTrainsWithinTheLimit) {
  Set({{"train.steps", "2"}, {"train.batch", "4"}, {"prefetch.forward", "1"}});
  std::vector<footprint::Settings> runs = {{{"strategy", "hybrid"}, {"run.ranks", "4"}},
                                           {{"strategy", "tensor"}, {"model.heads", "2"}},
                                           {{"model.kind", "llama"}, {"lora.rank", "2"}}};
  for (const char* strategy : {"full", "grad_op", "ddp", "zero1", "zero2", "zero3", "pipeline"}) {
    runs.push_back({{"strategy", strategy}});
  }
  int num_tried = 0;
  for (const footprint::Settings& keys : runs) {
    const config::Config given = config_;
    Set(keys);
    const int64_t needed = footprint::NeededBytes(config_).value();
    const double loss = Train(fmt::format("free{}", num_tried)).last->loss;
    for (const int64_t limit : {needed - 1, needed * 4 / 5}) {
      SCOPED_TRACE(fmt::format("{} in {} of {} bytes", footprint::TextOf(keys), limit, needed));
      Set({{"engine.memory_limit", fmt::format("{}B", limit)}});
      const std::string refused = Start("refused").message();
      EXPECT_NE(refused.find("' on rank "), std::string::npos) << refused;  // after the op's name
      EXPECT_FALSE(fs::exists(root_ / "refused"));
      const config::Config limited = config_;
      const auto advice = footprint::Advise(limited, needed, {.limit_bytes = limit});
      if (limit == needed - 1) {
        EXPECT_EQ(advice.fitting.size(), footprint::kMostRemedies);
      }
      for (const footprint::Remedy& remedy : advice.fitting) {
        const std::string shown = footprint::TextOf(remedy.settings);
        SCOPED_TRACE(shown);
        EXPECT_NE(refused.find(shown + " saves "), std::string::npos) << refused;
        Set(remedy.settings);
        const RunSummary summary = Train(fmt::format("fits{}", num_tried++));
        EXPECT_EQ(summary.steps, 2);
        if (remedy.effect == footprint::Effect::kNone) {
          EXPECT_EQ(summary.last->loss, loss);
        }
        config_ = limited;
      }
    }
    config_ = given;
  }
  EXPECT_GE(num_tried, static_cast<int>(runs.size() * footprint::kMostRemedies));
}

// Steps that gather one unit at a time, by a Schedule of their own, and evaluations that gather as
// far ahead as the keys say, of a model that is frozen: these need more.
TEST_F(TrainerTest, AnEvaluationThatDoesNotFitNamesItsPeakAndWhatFits) {
  Set({{"model.layers", "6"},
       {"model.dim", "64"},
       {"model.heads", "4"},
       {"model.seq", "4"},
       {"lora.rank", "1"},
       {"train.batch", "1"},
       {"train.steps", "2"},
       {"eval.path", (root_ / "data.txt").string()},
       {"eval.every", "1"},
       {"eval.batches", "1"}});
  config::Config serial = config_;
  ASSERT_TRUE(serial.SetAll({{"prefetch.backward", "none"}, {"host.run_ahead", "0"}}).ok());
  const Result<footprint::Footprint> steps = footprint::FootprintOf(serial);
  ASSERT_TRUE(steps.ok()) << steps.message();
  std::ofstream(root_ / "serial.txt") << plan::PrintSchedule(steps->schedule);
  Set({{"prefetch.forward", "3"}, {"schedule.file", (root_ / "serial.txt").string()}});
  const auto evaluation = footprint::EvaluationFootprintOf(config_);
  ASSERT_TRUE(evaluation.ok()) << evaluation.message();
  const int64_t needed = evaluation->needed_bytes();
  ASSERT_GT(needed, footprint::NeededBytes(config_).value());
  Set({{"engine.memory_limit", fmt::format("{}B", needed)}});
  EXPECT_EQ(Train("fits").steps, 2);
  const int64_t limit = needed - 1;
  Set({{"engine.memory_limit", fmt::format("{}B", limit)}});
  const std::string refused = Start("refused").message();
  EXPECT_FALSE(fs::exists(root_ / "refused"));
  EXPECT_THAT(refused, testing::StartsWith("out of memory: schedule '" + evaluation->schedule.name +
                                           "' can need "));
  EXPECT_THAT(refused, testing::HasSubstr(footprint::PeakText(*evaluation)));
  EXPECT_THAT(refused, testing::HasSubstr("' on rank "));  // after the op's name
  EXPECT_THAT(refused, testing::EndsWith("; or leave eval.every out"));
  // What is said to fit leaves room for steps and evaluations.
  const config::Config limited = config_;
  footprint::Question question{.limit_bytes = limit};
  question.needed = [](const config::Config& config) -> Result<int64_t> {
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t of_steps, footprint::NeededBytes(config));
    SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint evaluates,
                                footprint::EvaluationFootprintOf(config));
    return std::max(of_steps, evaluates.needed_bytes());
  };
  const footprint::Advice advice = footprint::Advise(limited, needed, question);
  ASSERT_FALSE(advice.fitting.empty());
  int num_tried = 0;
  for (const footprint::Remedy& remedy : advice.fitting) {
    const std::string shown = footprint::TextOf(remedy.settings);
    SCOPED_TRACE(shown);
    EXPECT_THAT(refused, testing::HasSubstr(shown + " saves "));
    Set(remedy.settings);
    EXPECT_EQ(Train(fmt::format("remedy{}", num_tried++)).steps, 2);
    config_ = limited;
  }
}

TEST_F(TrainerTest, ALiveChangeThatDoesNotFitIsRefusedAndTheRunGoesOn) {
  const int64_t needed = footprint::NeededBytes(config_).value();
  Set({{"engine.memory_limit", fmt::format("{}B", needed)}});
  auto trainer = Start("a");
  ASSERT_TRUE(trainer.ok()) << trainer.message();
  const auto change = [&](const footprint::Settings& settings) {
    return (*trainer)->steering().Handle({.id = 1, .body = config::SetRequest{settings}});
  };
  const config::Response refused = change({{"strategy", "grad_op"}});
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.error.find("out of memory: schedule 'fsdp2 grad_op"), std::string::npos)
      << refused.error;
  // With what it says beside, it is taken.
  config::Config wanted = config_;
  ASSERT_TRUE(config::ApplyLive({{"strategy", "grad_op"}}, &wanted).ok());
  const auto advice =
      footprint::Advise(wanted, footprint::NeededBytes(wanted).value(),
                        {.limit_bytes = needed, .only_live = true, .in_force = &config_});
  ASSERT_FALSE(advice.fitting.empty());
  // What is said is taken. One that moves state, which a running training has to hold twice, is
  // not.
  int num_said = 0;
  for (const footprint::Remedy& remedy : advice.fitting) {
    const bool is_said =
        refused.error.find(footprint::TextOf(remedy.settings) + " saves ") != std::string::npos;
    if (is_said) ++num_said;
    footprint::Settings settings = remedy.settings;
    settings.try_emplace("strategy", "grad_op");
    const config::Response taken = change(settings);
    EXPECT_EQ(taken.ok, is_said) << footprint::TextOf(remedy.settings) << ": " << taken.error;
  }
  EXPECT_GE(num_said, 1);
  const Result<RunSummary> summary = (*trainer)->Run();
  ASSERT_TRUE(summary.ok()) << summary.message();
  EXPECT_EQ(summary->steps, 8);
}

// A listed change that was fine by itself, but not with what the user has changed since.
TEST_F(TrainerTest, AListedChangeThatNoLongerFitsGivesWayAndSaysSo) {
  Set({{"preset", "fsdp1"}});
  config::Config listed = config_;
  ASSERT_TRUE(listed.Set("strategy", "grad_op").ok());
  config::Config both = listed;
  ASSERT_TRUE(both.Set("preset", "fsdp2").ok());
  const int64_t limit = footprint::NeededBytes(both).value() - 1;
  ASSERT_LE(footprint::NeededBytes(listed).value(), limit);
  Set({{"engine.memory_limit", fmt::format("{}B", limit)}});
  config_.AddChange({.step = 4, .set = {{"strategy", "grad_op"}}});
  auto trainer = Start("a");
  ASSERT_TRUE(trainer.ok()) << trainer.message();
  const config::Response taken =
      (*trainer)->steering().Handle({.id = 1, .body = config::SetRequest{{{"preset", "fsdp2"}}}});
  ASSERT_TRUE(taken.ok) << taken.error;
  const Result<RunSummary> summary = (*trainer)->Run();
  ASSERT_TRUE(summary.ok()) << summary.message();
  EXPECT_EQ(summary->steps, 8);
  EXPECT_TRUE(std::ranges::any_of(messages_, [](const std::string& text) {
    return text.starts_with("change at step 4 refused: out of memory: ");
  }));
}

// While its state moves, a rank may hold it twice.
TEST_F(TrainerTest, AChangeWhoseStateDoesNotFitTwiceIsRefused) {
  Set({{"train.batch", "1"}});
  const Result<Job> job = JobOf(config_, ".");
  ASSERT_TRUE(job.ok()) << job.message();
  config::Config replicated = config_;
  ASSERT_TRUE(replicated.Set("strategy", "ddp").ok());
  const Result<Job> after = JobOf(replicated, ".");
  ASSERT_TRUE(after.ok()) << after.message();
  const int64_t both = BytesOfMove(job->initial_layout, after->initial_layout, plan::DType::kFp32);
  config_.AddChange({.step = 1, .set = {{"strategy", "ddp"}}});
  Set({{"engine.memory_limit", std::to_string(both - 1) + "B"}});
  const std::string refused = Start("a").message();
  EXPECT_NE(refused.find("parameters and optimizer state have to move"), std::string::npos)
      << refused;
  EXPECT_FALSE(fs::exists(root_ / "a"));
  // What is said to fit does.
  const size_t said = refused.find("What fits: ");
  ASSERT_NE(said, std::string::npos) << refused;
  int num_said = 0;
  const config::Config given = config_;
  for (const plan::Strategy& strategy : plan::Strategies()) {
    const std::string name(strategy.name);
    if (refused.find("strategy=" + name + " saves ", said) == std::string::npos) continue;
    ++num_said;
    config_.ClearChanges();
    config_.AddChange({.step = 1, .set = {{"strategy", name}}});
    const auto fits = Start("fits" + name);
    ASSERT_TRUE(fits.ok()) << fits.message();
    EXPECT_TRUE((*fits)->Run().ok()) << name;
  }
  EXPECT_GE(num_said, 1) << refused;
  config_ = given;
  Set({{"engine.memory_limit", std::to_string(both) + "B"}});
  const auto started = Start("a");
  ASSERT_TRUE(started.ok()) << started.message();
  EXPECT_TRUE((*started)->Run().ok());
}

// One that is asked for is no reason to pass the limit, and no reason to end.
TEST_F(TrainerTest, ACheckpointWhoseCopyDoesNotFitIsRefusedAndTheRunGoesOn) {
  const int64_t needed = footprint::NeededBytes(config_).value();
  config::Config with_copy = config_;
  ASSERT_TRUE(with_copy.Set("checkpoint.every", "5").ok());
  const int64_t needed_with_copy = footprint::NeededBytes(with_copy).value();
  ASSERT_GT(needed_with_copy, needed);
  const config::Request request{.id = 1, .body = config::DoRequest{config::Action::kCheckpoint}};
  for (const int64_t limit : {needed_with_copy - 1, needed_with_copy}) {
    Set({{"engine.memory_limit", fmt::format("{}B", limit)}});
    const bool fits = limit == needed_with_copy;
    const std::string name = fits ? "fits" : "refused";
    auto trainer = Start(name);
    ASSERT_TRUE(trainer.ok()) << trainer.message();
    ASSERT_TRUE((*trainer)->steering().Handle(request).ok);
    ASSERT_TRUE((*trainer)->Run().ok());
    EXPECT_EQ(fs::exists(root_ / name / "checkpoints/step-0"), fits);
    const bool is_said =
        Read(name + "/log.txt").find("with a copy of its state it can need ") != std::string::npos;
    EXPECT_EQ(is_said, !fits);
  }
  Set({{"checkpoint.every", "5"}});
  ASSERT_TRUE(Start("every").ok());
  Set({{"engine.memory_limit", fmt::format("{}B", needed_with_copy - 1)}});
  EXPECT_NE(Start("above").message().find("engine.memory_limit is"), std::string::npos);
}

TEST_F(TrainerTest, FailedStartsCreateNothing) {
  Set({{"train.batch", "4096"}});
  EXPECT_FALSE(Start("a").ok());  // too little data for one step
  EXPECT_FALSE(fs::exists(root_ / "a"));
  Set({{"train.batch", "2"}, {"engine.memory_limit", "1kB"}});
  EXPECT_FALSE(Start("a").ok());
  EXPECT_FALSE(fs::exists(root_ / "a"));
  Set({{"engine.memory_limit", "0"}});
  config_.AddChange({.step = 1, .set = {{"strategy", "single"}}});
  const auto refused = Start("a");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("change at step 1"), std::string::npos);
  EXPECT_FALSE(fs::exists(root_ / "a"));
}

}  // namespace
}  // namespace shardscope::runtime
