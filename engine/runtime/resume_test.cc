// Runs that go on from a checkpoint: the same bits as of one that does not stop, from any ranks,
// strategy and form of state to any other, and as of one that changes live; and what is said of a
// checkpoint that cannot be taken.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/checkpoint/checkpoint.h"
#include "engine/model/safetensors_file.h"
#include "engine/plan/strategy.h"
#include "engine/runtime/trainer_test_util.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// What a run is after its steps, in whatever way it came there.
class ResumeTest : public TrainerTest {
 protected:
  // Losses and final weights of a run that stops after `stop` steps and goes on, beside those of
  // one that does not stop. Returns the latter's name.
  std::string ExpectSameBits(const std::map<std::string, std::string>& keys, int64_t stop = 5) {
    const std::string whole = "whole" + std::to_string(++number_);
    const std::string half = "half" + std::to_string(number_);
    config::Config kept = config_;
    Set(keys);
    Set({{"checkpoint.every", std::to_string(stop)}});
    const int64_t end = config_.GetInt("train.steps");
    Train(whole);
    EXPECT_EQ(std::ssize(losses_), end);
    const std::vector<double> expected(losses_.begin() + std::min(stop, std::ssize(losses_)),
                                       losses_.end());
    Set({{"checkpoint.resume", CheckpointPath(whole, stop)}});
    Train(half);
    EXPECT_EQ(losses_, expected);
    ExpectSameParameters(half, whole);
    // What it leaves in the end is the same, too: moments, the scaler and all.
    EXPECT_EQ(Checkpoint(half, end), Checkpoint(whole, end));
    EXPECT_EQ(ScalarsOf(half, end), ScalarsOf(whole, end));
    config_ = kept;
    return whole;
  }

  // Before its first step, so that nothing has changed.
  void TrainWithACheckpointAtTheStart(const std::string& name) {
    auto trainer = Start(name);
    ASSERT_TRUE(trainer.ok()) << trainer.message();
    const config::Request request{.id = 1, .body = config::DoRequest{config::Action::kCheckpoint}};
    ASSERT_TRUE((*trainer)->steering().Handle(request).ok);
    ASSERT_TRUE((*trainer)->Run().ok());
  }

  std::string CheckpointPath(const std::string& run, int64_t step) const {
    return (root_ / run / "checkpoints" / ("step-" + std::to_string(step))).string();
  }

  std::map<std::string, double> ScalarsOf(const std::string& run, int64_t step) const {
    const auto checkpoint = checkpoint::Checkpoint::Open(CheckpointPath(run, step));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.message();
    return checkpoint.ok() ? checkpoint->index().scalars : std::map<std::string, double>();
  }

  // Every element of every tensor, by the names of parameter and tensor.
  std::map<std::string, std::string> TensorsOf(const std::string& run, int64_t step) const {
    std::map<std::string, std::string> tensors;
    const auto checkpoint = checkpoint::Checkpoint::Open(CheckpointPath(run, step));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.message();
    if (!checkpoint.ok()) return tensors;
    for (const checkpoint::ParameterEntry& parameter : checkpoint->index().parameters) {
      for (const checkpoint::TensorEntry& tensor : parameter.tensors) {
        const auto all = checkpoint->ReadAll(parameter, tensor.name);
        EXPECT_TRUE(all.ok()) << all.message();
        tensors[parameter.name + " " + tensor.name].assign(
            reinterpret_cast<const char*>(all->data()), all->size());
      }
    }
    return tensors;
  }
  std::string Checkpoint(const std::string& run, int64_t step) const {
    std::string text;
    for (const auto& [name, bytes] : TensorsOf(run, step)) text += name + bytes;
    return text;
  }

  // Of the dumps' final weights: the batches of the first half are in one of them only.
  void ExpectSameParameters(const std::string& a, const std::string& b) {
    EXPECT_EQ(FinalOf(a), FinalOf(b)) << a;
  }
  std::string FinalOf(const std::string& run) const {
    const std::string all = Read(run + ".safetensors");
    const size_t bytes = static_cast<size_t>(4 * NumParameters());
    return all.substr(all.size() - bytes);
  }

  // The samples of `step` that ranks have loaded, by rank, as a run's dump has them.
  std::map<int, std::string> BatchesOf(const std::string& run, int64_t step, int num_ranks) const {
    std::map<int, std::string> batches;
    const std::string dump = Read(run + ".safetensors");
    const auto file = model::SafetensorsFile::Open((root_ / (run + ".safetensors")).string());
    EXPECT_TRUE(file.ok()) << file.message();
    for (int rank = 0; file.ok() && rank < num_ranks; ++rank) {
      const auto entry = file->entries().find(fmt::format("batch.{}.{}", step, rank));
      if (entry == file->entries().end()) continue;
      batches[rank] = dump.substr(static_cast<size_t>(entry->second.begin),
                                  static_cast<size_t>(entry->second.bytes));
    }
    return batches;
  }

  // What was said of evaluations before `step` and later, without how long they took.
  std::vector<std::string> EvaluationsFrom(int64_t step) const {
    std::vector<std::string> found;
    for (int64_t before = step; before <= config_.GetInt("train.steps"); ++before) {
      for (const std::string& message : messages_) {
        if (!message.starts_with(fmt::format("evaluation before step {}:", before))) continue;
        found.push_back(message.substr(0, message.rfind(" in ")));
      }
    }
    return found;
  }

  int64_t NumParameters() const {
    const Result<Job> job = JobOf(config_, ".");
    EXPECT_TRUE(job.ok());
    return job.ok() ? job->num_parameters : 0;
  }

  int number_ = 0;
};

TEST_F(ResumeTest, GoesOnBitForBitWithEveryStrategyAndPreset) {
  for (const plan::Strategy& strategy : plan::Strategies()) {
    SCOPED_TRACE(std::string(strategy.name));
    const bool has_two_dimensions = strategy.name.starts_with("hybrid");
    const char* ranks = strategy.dimensions == 0 ? "1" : has_two_dimensions ? "4" : "2";
    ExpectSameBits({{"strategy", std::string(strategy.name)},
                    {"run.ranks", ranks},
                    {"model.heads", "2"},
                    {"train.micro_batches", "2"}});
  }
  for (const char* preset : {"fsdp1", "double_buffer"}) {
    SCOPED_TRACE(preset);
    ExpectSameBits({{"preset", preset}});
  }
  ExpectSameBits({{"precision.param", "bf16"}, {"precision.reduce", "bf16"}});
  ExpectSameBits({{"precision.param", "bf16"}, {"strategy", "ddp"}});
  ExpectSameBits({{"optimizer.state", "8bit"}});
  ExpectSameBits({{"optimizer.state", "8bit"}, {"strategy", "ddp"}});
  ExpectSameBits({{"offload", "optimizer"}});
  ExpectSameBits({{"offload", "optimizer"}, {"strategy", "zero1"}, {"precision.param", "bf16"}});
  ExpectSameBits({{"offload", "all"}, {"strategy", "zero3"}, {"train.clip", "0"}});
  ExpectSameBits({{"lora.rank", "2"}});
  ExpectSameBits({{"train.frozen", "embedding,block0"}, {"strategy", "zero2"}});
  // The rate falls at the stop, and what is kept is one tensor.
  ExpectSameBits({{"optimizer.kind", "sgd"},
                  {"train.lr", "0.1"},
                  {"train.schedule", "cosine"},
                  {"train.warmup_steps", "1"}});
  ExpectSameBits({{"train.schedule", "linear"}, {"train.warmup_steps", "1"}});
}

// Steps are skipped until the scale is small enough. Behind the stop it grows again, by a count of
// steps that began before it, and the optimizer has counted fewer steps than the run.
TEST_F(ResumeTest, GoesOnWithTheScaleOfTheLoss) {
  constexpr int64_t kEnd = 24;
  const std::map<std::string, std::string> keys = {{"precision.param", "fp16"},
                                                   {"scaler.init", "1073741824"},
                                                   {"scaler.interval", "2"},
                                                   {"train.steps", std::to_string(kEnd)}};
  const config::Config given = config_;
  Set(keys);
  Set({{"checkpoint.every", "1"}, {"checkpoint.keep", "0"}});
  Train("every");
  config_ = given;
  // Behind the first step that is not skipped: one of the two that let it grow.
  int64_t stop = 1;
  while (stop < kEnd && ScalarsOf("every", stop)["scaler.growth_tracker"] != 1) ++stop;
  ASSERT_LT(stop, kEnd);
  const std::string run = ExpectSameBits(keys, stop);
  std::map<std::string, double> there = ScalarsOf(run, stop);
  std::map<std::string, double> end = ScalarsOf(run, kEnd);
  EXPECT_EQ(there["scaler.num_skipped"], static_cast<double>(stop - 1));
  EXPECT_GT(stop, 1);
  // Skipped steps alone would have left less.
  const double num_skipped = end["scaler.num_skipped"] - there["scaler.num_skipped"];
  EXPECT_GT(end["scaler.scale"], there["scaler.scale"] * std::exp2(-num_skipped));
}

// State that was rounded once keeps its bits, however often it changes its form: what is in a
// checkpoint are values, and the same ones mean the same codes and scales.
TEST_F(ResumeTest, StateIsReadInAnotherFormAndBack) {
  Set({{"train.steps", "5"}, {"checkpoint.every", "5"}, {"optimizer.state", "full"}});
  Train("trained");
  Set({{"train.steps", "6"}, {"checkpoint.every", "0"}});
  const auto go_on = [this](const std::string& from, const std::string& name, const char* form) {
    Set({{"optimizer.state", form}, {"checkpoint.resume", CheckpointPath(from, 5)}});
    TrainWithACheckpointAtTheStart(name);
    return TensorsOf(name, 5);
  };
  const auto trained = TensorsOf("trained", 5);
  const auto blocks = go_on("trained", "blocks", "8bit");
  const auto full = go_on("blocks", "full", "full");
  const auto again = go_on("full", "again", "8bit");
  EXPECT_FALSE(trained.empty());
  EXPECT_TRUE(blocks != trained) << "something was rounded";
  EXPECT_TRUE(full == blocks);
  EXPECT_TRUE(again == blocks);
  for (const auto& [name, bytes] : trained) {
    ASSERT_TRUE(blocks.contains(name)) << name;
    const std::string& rounded = blocks.at(name);
    if (name.ends_with(" " + std::string(checkpoint::kParameter))) {
      EXPECT_TRUE(rounded == bytes) << name;
      continue;
    }
    const std::vector<float> expected = FloatsOf(bytes);
    const std::vector<float> actual = FloatsOf(rounded);
    ASSERT_EQ(actual.size(), expected.size()) << name;
    float largest = 0;
    for (const float value : expected) largest = std::max(largest, std::abs(value));
    // Of a block's largest number at most 0.7 % (docs/numerics.md), with the rounding of fp32.
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 0.0071F * largest) << name << " " << i;
    }
  }
}

// From any to any other: what was written is what is then held, element by element.
TEST_F(ResumeTest, IsReadByOtherRanksMeshesUnitsAndStrategies) {
  Set({{"run.ranks", "4"},
       {"mesh.tensor", "2"},
       {"strategy", "full"},
       {"mesh.shard", "2"},
       {"model.heads", "2"},
       {"train.steps", "5"},
       {"checkpoint.every", "5"}});
  Train("a");
  const std::string written = Checkpoint("a", 5);
  std::string from = (root_ / "a").string();
  int number = 0;
  for (const std::map<std::string, std::string>& keys :
       std::vector<std::map<std::string, std::string>>{
           {{"run.ranks", "3"}, {"strategy", "full"}},
           {{"run.ranks", "1"}, {"strategy", "single"}},
           {{"run.ranks", "3"}, {"strategy", "ddp"}},
           {{"run.ranks", "2"}, {"strategy", "pipeline"}, {"train.micro_batches", "2"}},
           {{"run.ranks", "4"}, {"strategy", "hybrid"}},
           {{"run.ranks", "3"}, {"strategy", "zero3"}},
           {{"run.ranks", "2"}, {"unit.policy", "module"}, {"unit.root", "true"}},
           {{"run.ranks", "2"}, {"precision.param", "bf16"}, {"preset", "fsdp1"}}}) {
    config_ = config::Config();
    Set({{"data.path", (root_ / "data.txt").string()},
         {"model.layers", "2"},
         {"model.dim", "24"},
         {"model.heads", "2"},
         {"model.seq", "16"},
         {"train.batch", "2"},
         {"train.steps", "8"}});
    Set(keys);
    Set({{"checkpoint.resume", from}});
    const std::string name = "b" + std::to_string(++number);
    TrainWithACheckpointAtTheStart(name);
    EXPECT_EQ(Checkpoint(name, 5), written) << name;
    from = CheckpointPath(name, 5);  // the next one reads this
  }
}

TEST_F(ResumeTest, ListedChangesApplyOnceAndDataGoOnWhereTheyWere) {
  config_.AddChange({.step = 3, .set = {{"train.lr", "0.01"}}});
  config_.AddChange({.step = 6, .set = {{"strategy", "grad_op"}}});
  Set({{"train.steps", "30"}, {"checkpoint.every", "4"}, {"checkpoint.keep", "2"}});
  Train("whole");
  EXPECT_FALSE(fs::exists(root_ / "whole/checkpoints/step-24"));
  const std::vector<double> whole = losses_;
  const std::string checkpoint = (root_ / "whole/checkpoints/step-28").string();
  const Result<config::Config> toml = config::LoadToml(checkpoint + "/run.toml");
  ASSERT_TRUE(toml.ok()) << toml.message();
  EXPECT_TRUE(toml->changes().empty());
  EXPECT_EQ(toml->Get("strategy"), "grad_op");
  config_ = *toml;
  Set({{"checkpoint.resume", checkpoint}});
  Train("half");
  EXPECT_EQ(losses_, std::vector<double>(whole.begin() + 28, whole.end()));
}

// More or fewer ranks with samples of their own: what a live change does is what stopping and going
// on with the other keys does. Data end inside of it, and evaluations are of the same samples.
TEST_F(ResumeTest, ALiveChangeOfWhoReadsDataIsAStopAndAResume) {
  constexpr int64_t kStop = 4;
  constexpr int64_t kEnd = 8;
  constexpr int kRanks = 4;
  const std::string text = Read("data.txt");
  std::ofstream(root_ / "short.txt") << text.substr(0, 60 * 17);
  std::ofstream(root_ / "held-out.txt") << text.substr(60 * 17, 40 * 17);
  Set({{"data.path", (root_ / "short.txt").string()},
       {"eval.path", (root_ / "held-out.txt").string()},
       {"eval.every", "2"},
       {"eval.batches", "2"},
       {"run.ranks", std::to_string(kRanks)},
       {"model.layers", "4"},
       {"model.heads", "4"},
       {"train.micro_batches", "2"},
       {"train.steps", std::to_string(kEnd)},
       {"checkpoint.every", std::to_string(kStop)}});
  using Keys = std::map<std::string, std::string>;
  const std::vector<std::pair<Keys, Keys>> changes = {
      {{{"strategy", "full"}}, {{"strategy", "pipeline"}}},
      {{{"strategy", "full"}}, {{"mesh.tensor", "2"}}},
      {{{"strategy", "pipeline"}}, {{"strategy", "full"}}},
      {{{"strategy", "hybrid"}, {"mesh.tensor", "2"}},
       {{"strategy", "zero2"}, {"mesh.tensor", "1"}}}};
  const config::Config given = config_;
  int number = 0;
  for (const auto& [before, after] : changes) {
    const std::string name = std::to_string(++number);
    SCOPED_TRACE("change " + name);
    config_ = given;
    Set(before);
    Train("old" + name);
    config_.AddChange({.step = kStop, .set = after});
    Train("live" + name);
    ASSERT_EQ(std::ssize(losses_), kEnd);
    const std::vector<double> losses(losses_.begin() + kStop, losses_.end());
    const std::vector<std::string> evaluations = EvaluationsFrom(kStop);
    EXPECT_EQ(evaluations.size(), 3U);
    for (const std::string& evaluation : EvaluationsFrom(0)) {
      EXPECT_THAT(evaluation, testing::EndsWith(" over 512 tokens"));  // of 2 * 4 * 4 samples
    }
    config_.ClearChanges();
    Set(after);
    Set({{"checkpoint.resume", CheckpointPath("old" + name, kStop)}});
    Train("new" + name);
    EXPECT_EQ(losses_, losses);
    EXPECT_EQ(EvaluationsFrom(kStop), evaluations);
    for (int64_t step = 0; step < kEnd; ++step) {
      const auto batches = BatchesOf("live" + name, step, kRanks);
      EXPECT_FALSE(batches.empty());
      const std::string same = (step < kStop ? "old" : "new") + name;
      EXPECT_EQ(batches, BatchesOf(same, step, kRanks)) << "step " << step;
    }
    ExpectSameParameters("new" + name, "live" + name);
    EXPECT_EQ(Checkpoint("new" + name, kEnd), Checkpoint("live" + name, kEnd));
    // And on from there.
    const auto position = [this](const std::string& run) {
      const auto checkpoint = checkpoint::Checkpoint::Open(CheckpointPath(run, kEnd));
      EXPECT_TRUE(checkpoint.ok()) << checkpoint.message();
      return checkpoint.ok()
                 ? std::pair(checkpoint->index().data.epoch, checkpoint->index().data.used)
                 : std::pair<int64_t, int64_t>();
    };
    EXPECT_EQ(position("new" + name), position("live" + name));
  }
}

TEST_F(ResumeTest, EachCheckpointThatCannotBeTakenHasItsErrorAndLeavesNothing) {
  Set({{"train.steps", "4"}, {"checkpoint.every", "2"}});
  Train("a");
  const fs::path newest = root_ / "a/checkpoints/step-4";
  const auto error = [this](const std::map<std::string, std::string>& keys) {
    const config::Config kept = config_;
    Set({{"checkpoint.resume", (root_ / "a").string()}, {"train.steps", "9"}});
    Set(keys);
    const auto refused = Start("b");
    EXPECT_FALSE(refused.ok());
    EXPECT_FALSE(fs::exists(root_ / "b"));
    config_ = kept;
    return refused.ok() ? "" : refused.message();
  };
  EXPECT_THAT(error({{"model.layers", "3"}}), testing::HasSubstr("is of another model: it has"));
  EXPECT_THAT(error({{"model.heads", "6"}}), testing::HasSubstr("model.heads=3, and 6 was set"));
  EXPECT_THAT(error({{"train.steps", "4"}}), testing::HasSubstr("has all steps behind it"));
  EXPECT_THAT(error({{"checkpoint.resume", (root_ / "c").string()}}),
              testing::HasSubstr("is not there"));
  EXPECT_THAT(error({{"checkpoint.resume", (root_ / "data.txt").string()}}),
              testing::HasSubstr("is a file"));
  EXPECT_THAT(error({{"checkpoint.path", (root_ / "data.txt/x").string()}}),
              testing::HasSubstr("cannot write checkpoints to"));
  // A flipped bit: found while it is read.
  std::fstream file(newest / "rank-1-of-2.safetensors", std::ios::in | std::ios::out);
  file.seekp(-1, std::ios::end);
  file.put('U');
  file.close();
  EXPECT_THAT(error({}),
              testing::AllOf(testing::HasSubstr("rank-1-of-2.safetensors is damaged"),
                             testing::HasSubstr((root_ / "a/checkpoints/step-2").string())));
  // One that is not whole is passed over.
  fs::resize_file(newest / "rank-1-of-2.safetensors", 100);
  fs::create_directories(root_ / "a/checkpoints/step-8.1.partial");
  Set({{"checkpoint.resume", (root_ / "a").string()}, {"train.steps", "9"}});
  EXPECT_EQ(Train("b").steps, 9);
  EXPECT_EQ(losses_.size(), 7u);
  EXPECT_FALSE(fs::exists(root_ / "a/checkpoints/step-8.1.partial"));
  EXPECT_NE(Read("b/log.txt").find("checkpoints/step-2 with step 2"), std::string::npos);
}

TEST_F(ResumeTest, ADamagedNewestOneIsNoReasonToRefuseItsFolder) {
  const fs::path kept = root_ / "kept";
  Set({{"train.steps", "6"}, {"checkpoint.every", "3"}, {"checkpoint.path", kept.string()}});
  Train("a");
  Set({{"checkpoint.resume", (kept / "step-3").string()}});
  const auto refused = Start("b");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.message(), testing::HasSubstr("of another run up to step 6"));
  fs::remove(kept / "step-6/rank-1-of-2.safetensors");
  Set({{"checkpoint.resume", kept.string()}});
  EXPECT_EQ(Train("b").steps, 6);
  EXPECT_THAT(Read("b/log.txt"), testing::HasSubstr("/step-3 with step 3"));
  EXPECT_THAT(Read("b/log.txt"), testing::HasSubstr("/step-6.aside ("));
  EXPECT_TRUE(fs::exists(kept / "step-6.aside/rank-0-of-2.safetensors"));
  EXPECT_TRUE(fs::exists(kept / "step-6/rank-1-of-2.safetensors"));
}

TEST_F(ResumeTest, ACheckpointOfTheStartThatIsThereIsTheAnswer) {
  const fs::path kept = root_ / "kept";
  const fs::path other = root_ / "other";
  Set({{"train.steps", "3"}, {"checkpoint.every", "3"}, {"checkpoint.path", kept.string()}});
  Train("a");
  fs::create_directories(other);
  fs::copy(kept / "step-3", other / "step-3");
  Set({{"train.steps", "4"}, {"checkpoint.every", "0"}});
  Set({{"checkpoint.resume", (kept / "step-3").string()}});
  TrainWithACheckpointAtTheStart("b");
  EXPECT_THAT(Read("b/log.txt"),
              testing::HasSubstr("checkpoint before step 3: it is there already"));
  EXPECT_THAT(Read("b/log.txt"), testing::Not(testing::HasSubstr("no checkpoint before")));
  Set({{"checkpoint.path", other.string()}});
  TrainWithACheckpointAtTheStart("c");
  EXPECT_THAT(Read("c/log.txt"), testing::HasSubstr("no checkpoint before step 3: "));
  EXPECT_THAT(Read("c/log.txt"), testing::HasSubstr("ask again after a step"));
}

}  // namespace
}  // namespace shardscope::runtime
