// Keys of precision, accumulation, optimizer and learning rate: what they become, and which do not
// go together.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "trace/base/words.h"

namespace shardscope::config {
namespace {

Config Configured(const std::vector<std::string>& settings) {
  Config config;
  for (const std::string& setting : settings) {
    const Status status = ApplySetting(setting, &config);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return config;
}

TEST(Keys, ChoicesThatAreWordsOfTracesAreReadBack) {
  for (const std::string key : {"precision.param", "precision.reduce"}) {
    for (const std::string& choice : FindKey(key)->choices) {
      const std::optional<plan::DType> dtype = words::ParseDType(choice);
      ASSERT_TRUE(dtype) << key << "=" << choice;
      EXPECT_EQ(words::Name(*dtype), choice);
    }
  }
  for (const std::string& choice : FindKey("optimizer.kind")->choices) {
    ASSERT_TRUE(words::ParseOptimizerKind(choice)) << choice;
    EXPECT_EQ(GetOptimizer(Configured({"optimizer.kind=" + choice})),
              *words::ParseOptimizerKind(choice));
  }
}

TEST(ToPolicy, ChoicesAreWhatTheyAreCalled) {
  std::vector<plan::Preset> presets;
  for (const std::string& choice : FindKey("preset")->choices) {
    presets.push_back(ToPolicy(Configured({"preset=" + choice})).preset);
  }
  EXPECT_EQ(presets,
            (std::vector{plan::Preset::kFsdp2, plan::Preset::kFsdp1, plan::Preset::kDoubleBuffer}));
  std::vector<plan::BackwardPrefetch> prefetches;
  for (const std::string& choice : FindKey("prefetch.backward")->choices) {
    prefetches.push_back(ToPolicy(Configured({"prefetch.backward=" + choice})).backward_prefetch);
  }
  EXPECT_EQ(prefetches, (std::vector{plan::BackwardPrefetch::kPre, plan::BackwardPrefetch::kPost,
                                     plan::BackwardPrefetch::kNone}));
  std::vector<plan::GradientSync> syncs;
  for (const std::string& choice : FindKey("accumulation")->choices) {
    syncs.push_back(ToPolicy(Configured({"accumulation=" + choice})).accumulation.sync);
  }
  EXPECT_EQ(syncs, (std::vector{plan::GradientSync::kReduce, plan::GradientSync::kNoSync,
                                plan::GradientSync::kReduceScatterOnly}));
  std::vector<plan::Offload> offloads;
  for (const std::string& choice : FindKey("offload")->choices) {
    offloads.push_back(ToPolicy(Configured({"offload=" + choice})).offload);
  }
  EXPECT_EQ(offloads,
            (std::vector{plan::Offload::kNone, plan::Offload::kOptimizer, plan::Offload::kAll}));
  std::vector<plan::PipelineSchedule> schedules;
  for (const std::string& choice : FindKey("pipeline.schedule")->choices) {
    schedules.push_back(
        ToPolicy(Configured({"strategy=pipeline", "pipeline.schedule=" + choice})).pipeline);
  }
  EXPECT_EQ(schedules, (std::vector{plan::PipelineSchedule::k1F1B, plan::PipelineSchedule::kGpipe,
                                    plan::PipelineSchedule::kInterleaved}));
}

TEST(ToPolicy, AccumulationIsOfFsdpWithShards) {
  const plan::Policy policy = ToPolicy(
      Configured({"accumulation=no_sync", "reshard_after_backward=false", "is_last_backward=false",
                  "precision.reduce=bf16", "precision.keep_low_grads=true"}));
  EXPECT_EQ(policy.accumulation.sync, plan::GradientSync::kNoSync);
  EXPECT_FALSE(policy.accumulation.reshards);
  EXPECT_FALSE(policy.accumulation.waits);
  EXPECT_EQ(policy.gradient_dtype(), plan::DType::kBf16);
  Config config;
  ASSERT_TRUE(config.SetAll({{"strategy", "ddp"}, {"accumulation", "no_sync"}}).ok());
  EXPECT_NE(CheckKeysOfStrategies(config).message().find("accumulation=no_sync has no effect"),
            std::string::npos);
  EXPECT_EQ(ToPolicy(config).accumulation, plan::Accumulation());
  Config of_full;
  ASSERT_TRUE(of_full.Set("accumulation", "reduce_scatter_only").ok());
  EXPECT_NE(of_full.Check().message().find("set strategy=hybrid"), std::string::npos);
  ASSERT_TRUE(of_full.Set("strategy", "hybrid").ok());
  EXPECT_TRUE(of_full.Check().ok()) << of_full.Check().message();
}

// Choices of these keys are words of traces.
TEST(ToPolicy, DtypesAndOptimizersHaveTheirNames) {
  for (const std::string& name : FindKey("precision.param")->choices) {
    const plan::Policy policy = ToPolicy(Configured({"precision.param=" + name}));
    const bool is_wide = name == "fp64";
    EXPECT_EQ(words::Name(policy.param_dtype), name);
    EXPECT_EQ(words::Name(policy.reduce_dtype), is_wide ? "fp64" : "fp32");
    EXPECT_EQ(words::Name(policy.master_dtype), is_wide ? "fp64" : "fp32");
  }
  for (const std::string& name : FindKey("precision.reduce")->choices) {
    EXPECT_EQ(words::Name(ToPolicy(Configured({"precision.reduce=" + name})).reduce_dtype), name);
  }
  for (const std::string& name : FindKey("optimizer.kind")->choices) {
    EXPECT_EQ(words::Name(GetOptimizer(Configured({"optimizer.kind=" + name}))), name);
  }
}

// A number of elements that is stated is one of the master's.
TEST(ToPolicy, BucketsOfElementsHaveTheBytesOfTheMaster) {
  const auto bytes = [](const std::string& dtype) {
    return ToPolicy(Configured({"strategy=zero1", "zero.reduce_bucket_size=1000",
                                "precision.param=" + dtype}))
        .units.bucket_bytes;
  };
  EXPECT_EQ(bytes("fp32"), 4000);
  EXPECT_EQ(bytes("bf16"), 4000);
  EXPECT_EQ(bytes("fp64"), 8000);
}

TEST(ToPolicy, OptimizerSaysWhatIsKept) {
  EXPECT_EQ(ToPolicy(Config()).update.state, plan::DefaultStateTensors());
  EXPECT_TRUE(
      ToPolicy(Configured({"optimizer.kind=sgd", "optimizer.momentum=0"})).update.state.empty());
  EXPECT_EQ(ToPolicy(Configured({"optimizer.kind=sgd"})).update.state,
            (plan::StateTensors{{"momentum_buffer"}}));
  EXPECT_EQ(ToPolicy(Configured({"optimizer.state=8bit"})).update.state,
            (plan::StateTensors{{"exp_avg", plan::StateForm::kBlocks},
                                {"exp_avg_sq", plan::StateForm::kBlocks}}));
}

TEST(Keys, OfOptimizersAndSchedulesFitTogether) {
  const auto problem = [](const std::map<std::string, std::string>& values) {
    Config config;
    EXPECT_TRUE(config.SetAll(values).ok());
    return config.Check().message();
  };
  EXPECT_EQ(problem({{"train.schedule", "cosine"}, {"train.min_lr", "0.0001"}}), "");
  EXPECT_NE(problem({{"train.min_lr", "0.0001"}}).find("has no effect"), std::string::npos);
  EXPECT_NE(problem({{"train.schedule", "linear"}, {"train.min_lr", "0.1"}}).find("is above"),
            std::string::npos);
  EXPECT_NE(problem({{"optimizer.momentum", "0.5"}}).find("has no effect"), std::string::npos);
  EXPECT_NE(problem({{"optimizer.kind", "sgd"}, {"optimizer.beta1", "0.5"}}).find("has no effect"),
            std::string::npos);
  EXPECT_EQ(problem({{"optimizer.kind", "sgd"}, {"optimizer.momentum", "0.5"}}), "");
  EXPECT_NE(problem({{"precision.param", "fp16"}, {"strategy", "data_parallel"}})
                .find("does not go with"),
            std::string::npos);
  Config config;
  EXPECT_FALSE(config.GetBool("scaler.enabled"));
  ASSERT_TRUE(config.Set("precision.param", "fp16").ok());
  EXPECT_TRUE(ToPolicy(config).update.has_scaler);
}

TEST(Keys, OffloadGoesWithEveryAccumulationInTheTypeOfTheWeights) {
  for (const std::string offload : {"offload=all", "offload=optimizer"}) {
    for (const std::string preset : {"preset=fsdp1", "preset=fsdp2"}) {
      for (const std::string setting : {"accumulation=no_sync", "accumulation=reduce_scatter_only",
                                        "reshard_after_backward=false", "is_last_backward=false"}) {
        const Config config =
            Configured({offload, preset, "strategy=hybrid", "run.ranks=4", setting});
        EXPECT_TRUE(config.Check().ok()) << config.Check().message();
      }
    }
  }
  EXPECT_EQ(Configured({"offload=all", "precision.keep_low_grads=true"}).Check().message(),
            "offload=all has gradients on the host in the type of the weights, and does not go "
            "with precision.keep_low_grads=true: set precision.keep_low_grads=false, or "
            "offload=none");
  // A scaler waits for all gradients, as clipping does.
  const Config scaled = Configured({"offload=all", "train.clip=0", "precision.param=fp16"});
  EXPECT_TRUE(scaled.Check().ok()) << scaled.Check().message();
  EXPECT_TRUE(ToPolicy(scaled).update.clips);
}

TEST(Offload, OfTheOptimizerIsForWhatIsSharded) {
  const auto refused = [](const std::map<std::string, std::string>& values) {
    Config config;
    EXPECT_TRUE(config.SetAll(values).ok());
    EXPECT_TRUE(config.Set("offload", "optimizer").ok());
    return config.Check().message();
  };
  for (const char* strategy : {"full", "grad_op", "zero1", "zero2", "zero3"}) {
    EXPECT_EQ(refused({{"strategy", strategy}}), "");
  }
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(refused({{"strategy", "ddp"}}),
            "offload=optimizer does not go with strategy=ddp, which does not shard the optimizer's "
            "state: set strategy=zero1 or strategy=full, or offload=none");
  EXPECT_TRUE(has(refused({{"preset", "double_buffer"}}), "set preset=fsdp2"));
  // The remedy names the same ranks.
  const std::map<std::string, std::string> four = {{"run.ranks", "4"}};
  const auto with = [&](std::map<std::string, std::string> values) {
    values.insert(four.begin(), four.end());
    return refused(values);
  };
  EXPECT_TRUE(has(with({{"strategy", "pipeline"}, {"train.micro_batches", "4"}}),
                  "set strategy=full mesh.pipeline=4, or offload=none"));
  EXPECT_TRUE(has(with({{"strategy", "tensor"}}), "set strategy=full mesh.tensor=4, or "));
  EXPECT_TRUE(has(with({{"strategy", "ddp"}, {"mesh.tensor", "2"}}),
                  "set strategy=full mesh.tensor=2, or "));
  EXPECT_EQ(with({{"strategy", "full"}, {"mesh.pipeline", "4"}, {"train.micro_batches", "4"}}), "");
  EXPECT_EQ(with({{"strategy", "full"}, {"mesh.tensor", "4"}}), "");
  EXPECT_EQ(with({{"strategy", "hybrid"}, {"mesh.replicate", "4"}}), "");
  EXPECT_EQ(with({{"mesh.tensor", "2"}, {"tensor.sequence_parallel", "true"}}), "");
  EXPECT_EQ(with({{"mesh.tensor", "2"}, {"lora.rank", "4"}}), "");
  // That is without effect here, which CheckKeysOfStrategies() says.
  EXPECT_EQ(refused({{"strategy", "zero2"}, {"tensor.sequence_parallel", "true"}}), "");
  Config config;
  EXPECT_TRUE(has(config.Set("offload", "parameters").message(), "none, optimizer, all"));
}

}  // namespace
}  // namespace shardscope::config
