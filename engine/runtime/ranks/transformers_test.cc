// The engine against Hugging Face's transformers: what tests/parity/transformers/*.json have
// recorded (scripts/compare_transformers), from folders with the same weights.
#include <ATen/ops/mm.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/model/counting_source_test_util.h"
#include "engine/model/huggingface.h"
#include "engine/model/safetensors.h"
#include "engine/model/weight_folder.h"
#include "engine/plan/strategy_test_util.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/job_test_util.h"
#include "tests/places.h"
#include "trace/base/hash.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

// As weights() of tests/parity/llama_cases.py.
at::Tensor Weights(const std::string& name, const std::vector<int64_t>& shape) {
  std::vector<double> values(static_cast<size_t>(plan::NumElements(shape)));
  const double around = name.ends_with("norm.weight") ? 1 : 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = model::MixedBits(Fnv1a(name), i) >> 51;
    values[i] = around + (static_cast<double>(bits) - 4096) / 16384;
  }
  return at::tensor(values, at::kDouble).to(at::kFloat).view(shape);
}

class TransformersTest : public testing::TestWithParam<std::string> {
 protected:
  TransformersTest() {
    std::ifstream file(fs::path(SourceDir()) / "tests/parity/transformers" /
                       (GetParam() + ".json"));
    recorded_ = nlohmann::json::parse(file);
    folder_ = fs::temp_directory_path() / (GetParam() + "-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    std::ofstream(folder_ / "config.json") << recorded_["config"].dump();
    run_.model = *model::ReadFolderConfig(folder_.string(), settings()["seq"]);
    model::SafetensorsWriter writer;
    for (const plan::Parameter& parameter : model::AllParameters(run_.model)) {
      const std::string name = model::HuggingFaceName(parameter.name);
      writer.Add(name, Weights(name, parameter.shape));
    }
    EXPECT_TRUE(writer.Write((folder_ / "model.safetensors").string()).ok());
    auto weights = model::WeightFolder::Open(folder_.string(), run_.model);
    EXPECT_TRUE(weights.ok()) << weights.message();
    weights_ = *weights;
    run_.weights = weights_;
    SetTraining();
  }
  ~TransformersTest() override { fs::remove_all(folder_); }

  const nlohmann::json& settings() const { return recorded_["settings"]; }

  // All samples are those of one step, so that the order in which ranks have them does not matter.
  void SetTraining() {
    run_.training.steps = settings()["steps"];
    run_.training.num_ranks = settings()["ranks"];
    run_.training.batch = settings()["batch"];
    run_.training.learning_rate = settings()["learning_rate"];
    run_.training.warmup_steps = settings()["warmup_steps"];
    const int64_t rows = run_.training.num_ranks * run_.training.batch;
    auto corpus = std::make_shared<model::Corpus>();
    for (int64_t i = 0; i < rows * (run_.model.seq + 1); ++i) {
      const uint64_t token = model::MixedBits(7, static_cast<uint64_t>(i));
      corpus->bytes += static_cast<char>(token % static_cast<uint64_t>(run_.model.vocab));
    }
    run_.corpus = corpus;
  }

  // Of the first sample.
  at::Tensor Logits() const {
    const c10::InferenceMode no_autograd;
    const model::Model segments(run_.model);
    std::vector<int64_t> sample, memory(static_cast<size_t>(2 * run_.model.seq));
    model::AppendSample(*run_.corpus, 0, run_.model.seq, &sample);
    const model::TokenBatch tokens = model::MakeTokenBatch(sample, run_.model.seq, memory);
    const auto parameters = model::InitialParameters(run_.model, plan::DType::kFp32, *weights_);
    at::Tensor rows;
    for (int64_t segment = 0;; ++segment) {
      std::vector<at::Tensor> weights;
      for (const plan::Parameter& parameter : model::ParametersOf(run_.model, segment)) {
        weights.push_back(parameters.at(parameter.name));
      }
      const model::Saved saved = segments.Forward(segment, {weights, rows, tokens});
      if (segment + 1 == model::NumSegments(run_.model)) {
        return at::mm(saved.tensors[1], weights[1].t());
      }
      rows = saved.output;
    }
  }

  void ExpectLosses(const std::string& dtype) {
    const TestResult result = Train(run_);
    const std::vector<double> expected = recorded_["losses"][dtype];
    const double tolerance = settings()["tolerance"][dtype];
    ASSERT_EQ(result.losses.size(), expected.size());
    std::vector<size_t> skipped;
    for (size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(result.losses[step], expected[step], tolerance * expected[step])
          << "step " << step;
      if (!std::isfinite(result.norms[step])) skipped.push_back(step);
    }
    EXPECT_EQ(skipped, recorded_["skipped"][dtype].get<std::vector<size_t>>());
    EXPECT_LT(result.losses.back(), 0.9 * result.losses.front());
  }

  nlohmann::json recorded_;
  fs::path folder_;
  std::shared_ptr<const model::WeightFolder> weights_;
  TestRun run_;
};

TEST_P(TransformersTest, LogitsAreEqual) {
  const std::vector<double> expected = recorded_["logits"];
  const at::Tensor logits = Logits().to(at::kDouble).contiguous();
  ASSERT_EQ(logits.numel(), std::ssize(expected));
  double largest = 0, difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(expected[i] - logits.const_data_ptr<double>()[i]));
  }
  EXPECT_LE(difference, 1e-5 * largest);
  EXPECT_GT(largest, 1);
}

TEST_P(TransformersTest, LossesAreEqualOverSteps) { ExpectLosses("fp32"); }

TEST_P(TransformersTest, LossesInBf16AreEqualOverSteps) {
  run_.model.dtype = plan::DType::kBf16;
  ExpectLosses("bf16");
}

// The first step overflows and is skipped on both sides: the second has its loss once more.
TEST_P(TransformersTest, LossesInFp16WithAScalerAreEqualOverSteps) {
  const nlohmann::json& scaler = settings()["scaler"];
  run_.model.dtype = plan::DType::kFp16;
  run_.training.scaler = {.is_on = true,
                          .init = scaler["init"],
                          .growth = scaler["growth"],
                          .backoff = scaler["backoff"],
                          .interval = scaler["interval"]};
  const std::vector<double> expected = recorded_["losses"]["fp16"];
  ASSERT_EQ(recorded_["skipped"]["fp16"].size(), 1U);
  EXPECT_EQ(expected[0], expected[1]);
  EXPECT_NE(recorded_["losses"]["fp32"], recorded_["losses"]["fp16"]);
  ExpectLosses("fp16");
}

INSTANTIATE_TEST_SUITE_P(All, TransformersTest,
                         testing::Values("llama", "llama3_scaling", "grouped", "tied", "qwen2",
                                         "mistral"),
                         [](const auto& tested) { return tested.param; });

// How many ranks hold each of the parameters that a description of a rank's model has.
struct Loading {
  const char* strategy;
  int ranks;
  int64_t holders;
};

class LoadingTest : public testing::TestWithParam<Loading> {};

INSTANTIATE_TEST_SUITE_P(Strategies, LoadingTest,
                         testing::Values(Loading{"full", 2, 1}, Loading{"ddp", 2, 2},
                                         Loading{"zero2", 2, 2}, Loading{"hybrid", 4, 2},
                                         Loading{"pipeline", 2, 1}, Loading{"tensor", 2, 2}),
                         [](const auto& tested) { return std::string(tested.param.strategy); });

// Each rank reads from the files what it keeps, and holds nothing of them beside it. Biases too,
// which tensor ranks split.
TEST_P(LoadingTest, ReadsOnceWhatEachRankKeepsAndHoldsThatAlone) {
  const Loading& tested = GetParam();
  const fs::path folder = fs::temp_directory_path() / ("loading-" + std::to_string(getpid()));
  fs::create_directories(folder);
  TestRun run;
  MakeLlama(&run);
  ASSERT_TRUE(run.model.qkv_bias);
  run.training.num_ranks = tested.ranks;
  SetStrategy(tested.strategy, &run.policy);
  model::SafetensorsWriter writer;
  for (const plan::Parameter& parameter : model::AllParameters(run.model)) {
    const std::string name = model::HuggingFaceName(parameter.name);
    writer.Add(name, Weights(name, parameter.shape).to(at::kHalf));
  }
  int64_t elements = 0;  // tensor ranks' descriptions have their parts
  for (const plan::Unit& unit : DescriptionOf(run).units) {
    for (const plan::Parameter& parameter : unit.parameters) {
      elements += tested.holders * plan::NumElements(parameter.shape);
    }
  }
  ASSERT_TRUE(writer.Write((folder / "model.safetensors").string()).ok());
  const auto weights = model::WeightFolder::Open(folder.string(), run.model);
  ASSERT_TRUE(weights.ok()) << weights.message();
  const auto source = std::make_shared<model::CountingSource>(*weights);
  run.weights = source;
  NullSink sink;
  CpuDevice device{CpuOptions()};
  const auto ranks =
      Ranks::Make(JobOf(run), transport::MakeSharedMemoryTransport(tested.ranks, 60 * kNsPerSecond),
                  &sink, &device);
  ASSERT_TRUE(ranks.ok()) << ranks.message();
  EXPECT_EQ(source->elements_read(), elements);
  // All of it was announced; with the columns that a tensor rank has, those between them.
  if (std::string(tested.strategy) == "tensor") {
    EXPECT_GT(source->elements_announced(), elements);
  } else {
    EXPECT_EQ(source->elements_announced(), elements);
  }
  for (int rank = 0; rank < tested.ranks; ++rank) {
    RankWork& work = (*ranks)->work(rank);
    EXPECT_EQ(work.TakePeakBytes(), work.allocated_bytes());
  }
  for (const plan::Parameter& parameter : model::AllParameters(run.model)) {
    const at::Tensor expected =
        Weights(model::HuggingFaceName(parameter.name), parameter.shape).to(at::kHalf);
    EXPECT_TRUE((*ranks)->FullParameter(parameter.name).equal(expected.to(at::kFloat)))
        << parameter.name;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace shardscope::runtime
