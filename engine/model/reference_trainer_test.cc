#include "engine/model/reference_trainer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardscope::model {
namespace {

TEST(ReferenceTrainerTest, LearnsARepeatedText) {
  Corpus corpus;
  std::string& text = corpus.bytes;
  while (text.size() < 2000) text += "the quick brown fox jumps over the lazy dog. ";
  const ModelConfig config{.layers = 1, .dim = 32, .heads = 2, .seq = 16};
  const TrainingSettings settings{.num_ranks = 2, .batch = 2, .warmup_steps = 5};
  Result<Sampler> sampler = Sampler::Make({.num_samples = NumSamples(2000, config.seq),
                                           .num_ranks = 2,
                                           .samples_per_step = 2,
                                           .seed = 0});
  ASSERT_TRUE(sampler.ok());
  ReferenceTrainer trainer(config, settings, plan::DType::kFp32, &corpus, *sampler);
  const StepResult first = trainer.Step(0);
  EXPECT_NEAR(first.loss, std::log(256.0), 0.1);  // nothing is learned yet
  StepResult last;
  for (int64_t step = 1; step < 80; ++step) last = trainer.Step(step);
  EXPECT_LT(last.loss, UnigramEntropy(text) - 0.5);
}

}  // namespace
}  // namespace shardscope::model
