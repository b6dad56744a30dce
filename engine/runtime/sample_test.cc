#include "engine/runtime/sample.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/checkpoint/folder.h"
#include "engine/model/reference_trainer.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kText = "the quick brown fox jumps over a lazy dog. ";

// A model that has learned kText by heart.
struct Learned {
  model::ModelConfig config{.layers = 1, .dim = 32, .heads = 2, .seq = 24};
  model::ParameterMap parameters;
};

const Learned& Model() {
  static const Learned kLearned = [] {
    Learned learned;
    model::Corpus corpus;
    while (corpus.bytes.size() < 3000) corpus.bytes += kText;
    const model::TrainingSettings settings{
        .num_ranks = 1, .batch = 8, .learning_rate = 1e-2, .warmup_steps = 5};
    const auto samples = model::NumSamples(corpus.num_tokens(), learned.config.seq);
    const Result<model::Sampler> sampler =
        model::Sampler::Make({.num_samples = samples, .samples_per_step = 8});
    model::ReferenceTrainer trainer(learned.config, settings, plan::DType::kFp32, &corpus,
                                    *sampler);
    for (int64_t step = 0; step < 400; ++step) trainer.Step(step);
    for (const auto& [name, value] : trainer.parameters()) {
      learned.parameters[name] = value.detach();
    }
    return learned;
  }();
  return kLearned;
}

TextSampler SamplerOfModel() { return {Model().config, Model().parameters, nullptr}; }

TEST(TextSamplerTest, GoesOnAsTheTextThatWasLearned) {
  const Result<std::string> text =
      SamplerOfModel().Continue("the quick brown ", {.tokens = 60});  // beyond its sequence
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(*text, "fox jumps over a lazy dog. the quick brown fox jumps over a ");
}

TEST(TextSamplerTest, ASeedDrawsTheSameTextAndAnotherOneAnother) {
  const auto draw = [](double temperature, uint64_t seed) {
    return *SamplerOfModel().Continue("the ",
                                      {.tokens = 40, .temperature = temperature, .seed = seed});
  };
  EXPECT_EQ(draw(2, 1), draw(2, 1));
  EXPECT_NE(draw(2, 1), draw(2, 2));
  EXPECT_EQ(draw(1e-4, 1), draw(0, 0));  // nearly cold
}

TEST(TextSamplerTest, PromptsThatCannotBeAreErrors) {
  EXPECT_NE(SamplerOfModel().Continue("", {}).message().find("--prompt: it has no token"),
            std::string::npos);
  Learned small = Model();
  small.config.vocab = 100;
  const TextSampler sampler(small.config, small.parameters, nullptr);
  EXPECT_NE(sampler.Continue("x", {}).message().find("the token 120 is not among the 100"),
            std::string::npos);
}

class CheckpointSampleTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (fs::temp_directory_path() / ("sample-" + std::to_string(getpid()))).string();
  }
  void TearDown() override { fs::remove_all(root_); }

  // As a run of one rank writes it.
  void Write(const std::map<std::string, std::string>& config) {
    const std::string partial = checkpoint::PartialFolder(root_ + "/checkpoints", 150);
    fs::create_directories(partial);
    checkpoint::Index index{.step = 150, .num_ranks = 1, .tool_version = "1", .run = "a"};
    index.config = config;
    std::vector<checkpoint::TensorBytes> tensors;
    for (const auto& [name, value] : Model().parameters) {
      tensors.push_back({{"parameter." + name, "F32", value.sizes().vec()},
                         {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()}});
    }
    std::vector<int64_t> offsets;
    const auto file = checkpoint::WriteTensors(partial + "/rank-0.safetensors", tensors, &offsets);
    ASSERT_TRUE(file.ok()) << file.message();
    index.files.push_back(*file);
    size_t at = 0;
    for (const auto& [name, value] : Model().parameters) {
      checkpoint::Part part{.offset = offsets[at++], .runs = {{.count = value.numel()}}};
      index.parameters.push_back({name, value.sizes().vec(), {{"parameter", "F32", {part}}}});
    }
    ASSERT_TRUE(checkpoint::WriteText(partial + "/index.json", checkpoint::PrintIndex(index)).ok());
    const std::string folder = checkpoint::StepFolder(root_ + "/checkpoints", 150);
    ASSERT_TRUE(checkpoint::Publish(partial, folder).ok());
  }

  std::string root_;
};

TEST_F(CheckpointSampleTest, TheNewestCheckpointOfARunWritesWhatItsModelDoes) {
  std::map<std::string, std::string> config = {
      {"model.layers", "1"}, {"model.dim", "32"}, {"model.heads", "2"}, {"model.seq", "24"}};
  Write(config);
  const Result<TextSampler> sampler = TextSampler::Open(root_);
  ASSERT_TRUE(sampler.ok()) << sampler.message();
  EXPECT_EQ(*sampler->Continue("lazy ", {.tokens = 20}),
            *SamplerOfModel().Continue("lazy ", {.tokens = 20}));
  config["model.dim"] = "64";
  Write(config);
  EXPECT_NE(TextSampler::Open(root_).message().find("of another model"), std::string::npos);
  config["model.dim"] = "32";
  config["model.layers"] = "2";
  Write(config);
  EXPECT_NE(TextSampler::Open(root_).message().find("has no parameter block1"), std::string::npos);
  config["model.layers"] = "1";
  config["data.tokenizer"] = root_;
  Write(config);
  EXPECT_NE(TextSampler::Open(root_).message().find("data.tokenizer: "), std::string::npos);
}

}  // namespace
}  // namespace shardscope::runtime
