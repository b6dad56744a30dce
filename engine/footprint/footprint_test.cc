// What a run takes, what would make it fit, and the largest that does, from Schedules.
#include "engine/footprint/footprint.h"

#include <gmock/gmock.h>

#include <numeric>

#include "engine/config/device.h"
#include "engine/footprint/advice.h"
#include "engine/footprint/largest.h"
#include "engine/footprint/memory_options.h"
#include "engine/footprint/unlisted_memory.h"
#include "engine/plan/evaluation.h"
#include "engine/plan/strategy.h"
#include "trace/base/text.h"

namespace shardscope::footprint {
namespace {

using testing::HasSubstr;
using testing::Not;

config::Config Small(const Settings& more = {}) {
  config::Config config;
  Settings settings = {{"run.ranks", "4"},   {"model.layers", "4"}, {"model.dim", "64"},
                       {"model.heads", "4"}, {"model.seq", "32"},   {"train.batch", "4"}};
  for (const auto& [key, value] : more) settings[key] = value;
  EXPECT_TRUE(config.SetAll(settings).ok());
  const Status status = config.Check();
  EXPECT_TRUE(status.ok()) << status.message();
  return config;
}

std::vector<config::Config> OfEachStrategy() {
  std::vector<config::Config> configs;
  for (const plan::Strategy& strategy : plan::Strategies()) {
    Settings settings = {{"strategy", std::string(strategy.name)}};
    if (strategy.dimensions == 0) settings["run.ranks"] = "1";
    if (strategy.name == "pipeline") settings["train.micro_batches"] = "4";
    configs.push_back(Small(settings));
  }
  configs.push_back(Small({{"preset", "fsdp1"}, {"prefetch.forward", "2"}}));
  configs.push_back(Small({{"preset", "double_buffer"}}));
  configs.push_back(Small({{"strategy", "grad_op"}, {"unit.root", "true"}}));
  configs.push_back(Small({{"reshard_after_forward", "2"}, {"prefetch.backward_depth", "3"}}));
  configs.push_back(Small({{"strategy", "tensor"}, {"tensor.async", "true"}}));
  configs.push_back(Small({{"transport", "gloo"}, {"precision.param", "bf16"}}));
  return configs;
}

TEST(FootprintTest, TheHeaviestMomentAddsUpToTheBound) {
  for (const config::Config& config : OfEachStrategy()) {
    const auto footprint = FootprintOf(config);
    ASSERT_TRUE(footprint.ok()) << footprint.message();
    SCOPED_TRACE(footprint->schedule.name);
    const plan::PeakMoment& most = footprint->most;
    EXPECT_GE(most.total, footprint->issued_bytes);
    EXPECT_EQ(most.total,
              std::accumulate(most.by_category.begin(), most.by_category.end(), int64_t{0}));
    EXPECT_TRUE(std::ranges::all_of(most.live, [](const auto& one) { return one.bytes > 0; }));
    ASSERT_NE(most.op, plan::kNone);
    EXPECT_THAT(PeakText(*footprint), HasSubstr("on rank "));
    if (config.Get("transport") == "gloo") continue;  // it takes more for itself
    EXPECT_EQ(most.total, plan::BoundLargestPeak(footprint->schedule,
                                                 UnlistedMemory(ModelConfigOf(config).value(),
                                                                config.GetInt("train.batch"),
                                                                footprint->schedule, {})));
  }
}

TEST(FootprintTest, OfAnEvaluationItIsThatOfItsForwards) {
  for (const config::Config& config : OfEachStrategy()) {
    const auto footprint = EvaluationFootprintOf(config);
    ASSERT_TRUE(footprint.ok()) << footprint.message();
    SCOPED_TRACE(footprint->schedule.name);
    EXPECT_TRUE(plan::IsEvaluation(footprint->schedule));
    EXPECT_THAT(PeakText(*footprint), HasSubstr("' on rank "));
    const auto with_copy = EvaluationFootprintOf(config, CheckpointCopy::kThere);
    ASSERT_TRUE(with_copy.ok()) << with_copy.message();
    EXPECT_TRUE(with_copy->has_checkpoint_copy);
    EXPECT_GE(with_copy->needed_bytes(), footprint->needed_bytes());
    if (config.Get("transport") == "gloo") continue;  // it takes more for itself
    EXPECT_EQ(
        footprint->needed_bytes(),
        plan::BoundLargestPeak(footprint->schedule, UnlistedMemory(ModelConfigOf(config).value(),
                                                                   config.GetInt("train.batch"),
                                                                   footprint->schedule, {})));
  }
}

// The copy of a rank's weights and moments, where several ranks hold the same of a part of them.
TEST(FootprintTest, ACopyForCheckpointsIsCounted) {
  const auto copy_of = [](const config::Config& config) {
    const Footprint without = FootprintOf(config).value();
    const Footprint with = FootprintOf(config, CheckpointCopy::kThere).value();
    EXPECT_EQ(with.issued_bytes, without.issued_bytes);
    const auto wanted = With(config, {{"checkpoint.every", "5"}});
    EXPECT_TRUE(wanted.ok()) << wanted.message();
    EXPECT_EQ(FootprintOf(*wanted)->needed_bytes(),
              config::GetDevice(config) == config::DeviceKind::kCuda ? without.needed_bytes()
                                                                     : with.needed_bytes());
    return with.needed_bytes() - without.needed_bytes();
  };
  const auto optimizer_of = [](const config::Config& config) {
    return FootprintOf(config)
        ->most.by_category[static_cast<size_t>(plan::MemoryCategory::kOptimizer)];
  };
  for (const char* strategy : {"full", "zero1", "zero3"}) {
    const config::Config config = Small({{"strategy", strategy}});
    SCOPED_TRACE(strategy);
    EXPECT_GE(copy_of(config), optimizer_of(config) * 3 / 2);
    EXPECT_LE(copy_of(config), optimizer_of(config) * 3 / 2 * 1.05) << "each starts at 64 bytes";
  }
  // SGD with momentum keeps one tensor a parameter.
  const config::Config sgd = Small({{"optimizer.kind", "sgd"}});
  EXPECT_GE(copy_of(sgd), optimizer_of(sgd) * 2);
  EXPECT_LE(copy_of(sgd), optimizer_of(sgd) * 2 * 1.05);
  const config::Config replicas = Small({{"strategy", "ddp"}});
  EXPECT_GE(copy_of(replicas), optimizer_of(replicas) * 3 / 8);
  EXPECT_LE(copy_of(replicas), optimizer_of(replicas) * 3 / 8 * 1.05) << "each a quarter";
  // As it is kept, not decoded.
  const config::Config blocks = Small({{"optimizer.state", "8bit"}});
  const int64_t weights = optimizer_of(Small({})) / 2;
  EXPECT_GE(copy_of(blocks), weights + optimizer_of(blocks));
  EXPECT_LE(copy_of(blocks), (weights + optimizer_of(blocks)) * 1.05);
  EXPECT_EQ(copy_of(Small({{"offload", "all"}})), 0) << "it is in the host's memory too";
  const config::Config on_gpu = Small({{"run.device", "cuda"}});
  EXPECT_FALSE(WantsCheckpointCopy(With(on_gpu, {{"checkpoint.every", "5"}}).value()));
  const config::Config config = Small({{"checkpoint.every", "5"}});
  EXPECT_THAT(PeakText(*FootprintOf(config)), HasSubstr("with the copy of the state"));
}

TEST(AdviceTest, AMoveOfStateThatDoesNotFitSaysWhatDoes) {
  const config::Config config = Small({{"strategy", "ddp"}});
  Question question{.limit_bytes = 1000, .only_live = true};
  question.needed = [](const config::Config& changed) -> Result<int64_t> {
    return changed.Get("strategy") == "zero2" ? 1000 : 3000;
  };
  EXPECT_THAT(StateMoveText(config, {"a", "b", 3000}, question),
              testing::AllOf(HasSubstr("from 'a' to 'b'"), HasSubstr("What fits: strategy=zero2 "
                                                                     "saves 2.00 kB")));
  question.limit_bytes = 999;
  EXPECT_THAT(StateMoveText(config, {"a", "b", 3000}, question),
              testing::AllOf(HasSubstr("go on from its checkpoint with it (--resume)"),
                             Not(HasSubstr("What fits"))));
}

// From ddp to hybrid_grad_op: to stay with ddp is no option, others are.
TEST(AdviceTest, WhatIsInForceIsNoOption) {
  const config::Config now = Small({{"strategy", "ddp"}});
  const config::Config wanted = Small({{"strategy", "hybrid_grad_op"}});
  Question question{.limit_bytes = 1000, .only_live = true};
  question.needed = [](const config::Config& changed) -> Result<int64_t> {
    const std::string& strategy = changed.Get("strategy");
    return strategy == "ddp" || strategy == "full" ? 1000 : 3000;
  };
  EXPECT_EQ(Advise(wanted, 3000, question).fitting.front().settings.at("strategy"), "ddp");
  question.in_force = &now;
  const Advice advice = Advise(wanted, 3000, question);
  ASSERT_FALSE(advice.fitting.empty());
  EXPECT_EQ(advice.fitting.front().settings.at("strategy"), "full");
  for (const Remedy& remedy : advice.fitting) {
    EXPECT_NE(remedy.settings, (Settings{{"strategy", "ddp"}}));
  }
}

TEST(AdviceTest, WhatIsSaidToFitDoes) {
  for (const config::Config& config : OfEachStrategy()) {
    const int64_t needed = NeededBytes(config).value();
    for (const int64_t limit : {needed - 1, needed * 9 / 10, needed * 7 / 10, needed / 2}) {
      const Advice advice = Advise(config, needed, {.limit_bytes = limit});
      SCOPED_TRACE(config.Get("strategy") + ": " + AdviceText(advice, limit));
      ASSERT_LE(advice.fitting.size(), kMostRemedies);
      EXPECT_EQ(advice.fitting.empty(),
                AdviceText(advice, limit).starts_with("Of the options tried"));
      if (limit == needed - 1) {
        EXPECT_EQ(advice.fitting.size(), kMostRemedies);
      }
      for (const Remedy& remedy : advice.fitting) {
        EXPECT_LE(remedy.needed_bytes, limit);
        const auto changed = With(config, remedy.settings);
        ASSERT_TRUE(changed.ok()) << TextOf(remedy.settings) << ": " << changed.message();
        EXPECT_EQ(NeededBytes(*changed).value(), remedy.needed_bytes) << TextOf(remedy.settings);
        for (const auto& [key, value] : remedy.settings) EXPECT_NE(config.Get(key), value) << key;
      }
    }
  }
}

TEST(AdviceTest, WhatChangesLeastComesFirst) {
  const config::Config config = Small(
      {{"model.layers", "8"}, {"model.seq", "8"}, {"train.batch", "2"}, {"prefetch.forward", "3"}});
  const int64_t needed = NeededBytes(config).value();
  const Advice little = Advise(config, needed, {.limit_bytes = needed - 1});
  ASSERT_EQ(little.fitting.size(), kMostRemedies);
  EXPECT_EQ(TextOf(little.fitting.front().settings), "prefetch.forward=1");
  EXPECT_TRUE(std::ranges::is_sorted(little.fitting, {}, &Remedy::effect));
  // Shards, gradients and moments alone are more: nothing that keeps the results is enough.
  for (const Remedy& remedy : Advise(config, needed, {.limit_bytes = needed / 3}).fitting) {
    EXPECT_NE(remedy.effect, Effect::kNone) << TextOf(remedy.settings);
  }
}

// Pairs that change less stand before single options that change more, and in their place.
TEST(AdviceTest, WhatChangesLeastComesFirstAmongSinglesAndPairs) {
  const config::Config config = Small();
  Question question{.limit_bytes = 1000};
  question.needed = [](const config::Config& changed) -> Result<int64_t> {
    if (changed.GetInt("model.seq") < 32) return 900;
    const int num_smaller = (changed.Get("checkpointing") != "none" ? 1 : 0) +
                            (changed.Get("offload") != "none" ? 1 : 0) +
                            (changed.Get("precision.param") == "bf16" ? 1 : 0);
    return 3000 - 1000 * num_smaller;
  };
  const Advice advice = Advise(config, 3000, question);
  ASSERT_EQ(advice.fitting.size(), kMostRemedies);
  EXPECT_EQ(TextOf(advice.fitting[0].settings), "checkpointing=selective offload=optimizer");
  EXPECT_EQ(TextOf(advice.fitting[1].settings), "checkpointing=selective precision.param=bf16");
  EXPECT_EQ(TextOf(advice.fitting[2].settings), "offload=optimizer precision.param=bf16");
  // Of fewer pairs the single one is a third.
  question.needed = [full = question.needed](const config::Config& changed) -> Result<int64_t> {
    if (changed.Get("offload") == "none" || changed.Get("precision.param") != "bf16") {
      return full(changed);
    }
    return 2000;
  };
  const Advice mixed = Advise(config, 3000, question);
  ASSERT_EQ(mixed.fitting.size(), kMostRemedies);
  EXPECT_TRUE(std::ranges::is_sorted(mixed.fitting, {}, &Remedy::effect));
  EXPECT_EQ(TextOf(mixed.fitting.back().settings), "model.seq=16");
}

// Of zero2 smaller buckets save something, but full, with which offload=all goes, has none.
TEST(AdviceTest, OptionsAreTriedTogetherFromOtherStrategiesToo) {
  const config::Config config = Small({{"strategy", "zero2"}, {"model.seq", "64"}});
  const Settings smaller = {{"strategy", "full"},
                            {"offload", "all"},
                            {"precision.param", "bf16"},
                            {"model.seq", "8"},
                            {"train.batch", "1"}};
  const int64_t limit = NeededBytes(With(config, smaller).value()).value();
  const Advice advice = Advise(config, NeededBytes(config).value(), {.limit_bytes = limit});
  ASSERT_FALSE(advice.fitting.empty()) << AdviceText(advice, limit);
  for (const Remedy& remedy : advice.fitting) {
    EXPECT_EQ(NeededBytes(With(config, remedy.settings).value()).value(), remedy.needed_bytes);
    EXPECT_TRUE(remedy.settings.contains("strategy")) << TextOf(remedy.settings);
  }
}

TEST(AdviceTest, WhereNothingFitsItSaysWhatSavesMost) {
  const config::Config config = Small();
  const Advice advice = Advise(config, NeededBytes(config).value(), {.limit_bytes = 1000});
  EXPECT_TRUE(advice.fitting.empty());
  ASSERT_EQ(advice.smallest.size(), 1u);
  EXPECT_LT(advice.smallest.front().needed_bytes, advice.needed_bytes);
  EXPECT_THAT(AdviceText(advice, 1000), HasSubstr(", which is most; raise engine.memory_limit"));
}

// The sizes of a model in a folder are no keys to lower.
TEST(AdviceTest, ThoseWithAFolderAreNotToldToLowerItsSizes) {
  Advice advice;
  EXPECT_THAT(AdviceText(advice, 1000), HasSubstr("model.layers or model.dim"));
  advice.model_is_given = true;
  EXPECT_THAT(AdviceText(advice, 1000), Not(HasSubstr("model.layers")));
  EXPECT_THAT(AdviceText(advice, 1000), HasSubstr("a smaller model"));
}

TEST(AdviceTest, ARunningTrainingIsToldOfWhatCanChangeLive) {
  const config::Config config = Small({{"strategy", "ddp"}});
  const int64_t needed = NeededBytes(config).value();
  const Advice advice = Advise(config, needed, {.limit_bytes = needed - 1, .only_live = true});
  ASSERT_FALSE(advice.fitting.empty());
  for (const Remedy& remedy : advice.fitting) {
    for (const auto& [key, value] : remedy.settings) EXPECT_TRUE(config::FindKey(key)->live) << key;
  }
}

TEST(AdviceTest, TheErrorNamesOpHoldersAndRemedies) {
  const config::Config config = Small();
  const auto footprint = FootprintOf(config);
  ASSERT_TRUE(footprint.ok());
  const std::string text =
      OutOfMemoryText(config, *footprint, {.limit_bytes = footprint->needed_bytes() - 1});
  EXPECT_THAT(text, testing::AllOf(HasSubstr("out of memory: schedule 'fsdp2 full"),
                                   HasSubstr("At the peak runs op "), HasSubstr("optimizer "),
                                   HasSubstr("block"), HasSubstr("What fits: "),
                                   HasSubstr(" saves "), HasSubstr("same results")));
  EXPECT_TRUE(IsPlainUtf8(text));  // one line
}

// Every option does something for some run, and what it offers can be run or is refused in words.
TEST(MemoryOptionsTest, EachOptionSavesSomewhere) {
  std::vector<bool> saves(AllMemoryOptions().size());
  std::vector<config::Config> configs = OfEachStrategy();
  configs.push_back(Small({{"unit.policy", "blocks:2"}}));
  configs.push_back(Small({{"checkpoint.every", "5"}}));
  for (const char* key : {"prefetch.forward", "prefetch.backward_depth"}) {
    configs.push_back(
        Small({{"model.layers", "8"}, {"model.seq", "8"}, {"train.batch", "1"}, {key, "3"}}));
  }
  configs.push_back(Small({{"preset", "fsdp1"},
                           {"model.layers", "8"},
                           {"model.seq", "8"},
                           {"train.batch", "1"},
                           {"prefetch.forward", "3"}}));
  configs.push_back(Small({{"strategy", "zero2"},
                           {"zero.reduce_bucket_size", "20000"},
                           {"model.layers", "8"},
                           {"model.seq", "8"},
                           {"train.batch", "1"}}));
  configs.push_back(Small(
      {{"strategy", "pipeline"}, {"pipeline.schedule", "gpipe"}, {"train.micro_batches", "8"}}));
  configs.push_back(Small({{"strategy", "hybrid"}, {"run.ranks", "8"}, {"mesh.replicate", "4"}}));
  for (const config::Config& config : configs) {
    const int64_t needed = NeededBytes(config).value();
    for (size_t at = 0; at < saves.size(); ++at) {
      for (const Settings& settings : AllMemoryOptions()[at].settings(config)) {
        const auto changed = With(config, settings);
        if (!changed.ok()) continue;
        const auto with = NeededBytes(*changed);
        ASSERT_TRUE(with.ok()) << TextOf(settings) << ": " << with.message();
        if (*with < needed) saves[at] = true;
      }
    }
  }
  for (size_t at = 0; at < saves.size(); ++at) EXPECT_TRUE(saves[at]) << "option " << at;
}

TEST(LargestTest, IsTheLastThatFits) {
  for (const char* strategy : {"full", "ddp", "zero2"}) {
    const config::Config config = Small({{"strategy", strategy}});
    const int64_t limit = 3 * NeededBytes(config).value();
    for (const std::string_view key : ScalesOf(config)) {
      SCOPED_TRACE(std::string(strategy) + " " + std::string(key));
      const Largest largest = LargestThatFits(config, key, limit);
      ASSERT_GT(largest.value, config.GetInt(key));
      const auto with = [&](int64_t value) {
        return NeededBytes(With(config, {{std::string(key), std::to_string(value)}}).value())
            .value();
      };
      EXPECT_LE(with(largest.value), limit);
      if (!largest.is_at_most) {
        EXPECT_GT(with(largest.value + (key == "model.dim" ? 8 : 1)), limit);
      }
    }
  }
}

TEST(LargestTest, NothingFitsOrEverythingDoes) {
  EXPECT_EQ(LargestThatFits(Small(), "train.batch", 1000).value, 0);
  const Largest all = LargestThatFits(Small(), "model.layers", int64_t{1} << 40);
  EXPECT_TRUE(all.is_at_most);
  EXPECT_EQ(all.value, static_cast<int64_t>(config::FindKey("model.layers")->maximum));
  // Fewer blocks than stages are no run.
  const config::Config stages = Small({{"strategy", "pipeline"}});
  const Largest layers = LargestThatFits(stages, "model.layers", NeededBytes(stages).value());
  EXPECT_GE(layers.value, 4);
}

}  // namespace
}  // namespace shardscope::footprint
