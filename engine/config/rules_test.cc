// What errors of rules between keys name can be done.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/parse.h"
#include "trace/base/trace_bytes.h"

namespace shardscope::config {
namespace {

using RuleSettings = std::vector<std::string>;

std::string RuleError(const RuleSettings& settings) {
  Config config;
  for (const std::string& setting : settings) {
    const Status status = ApplySetting(setting, &config);
    if (!status.ok()) return status.message();
  }
  return config.Check().message();
}

TEST(RulesTest, TheBoundOnATraceLetsAStepBeRecorded) {
  const auto error = [](int64_t kilobytes) {
    return RuleError({"record.max_bytes=" + std::to_string(kilobytes) + "kB"});
  };
  EXPECT_EQ(error(kLeastTraceBytes / 1000), "");
  EXPECT_NE(error(kLeastTraceBytes / 1000 - 1)
                .find("is too small to record a step: give 0 (no limit) or at least " +
                      SizeText(kLeastTraceBytes)),
            std::string::npos);
}

// Whatever names a rank, or counts ranks, goes as far as run.ranks does.
TEST(RulesTest, KeysOfRanksGoAsFarAsThereAreRanks) {
  const auto most = static_cast<int>(FindKey("run.ranks")->maximum);
  EXPECT_EQ(FindKey("fault.init")->maximum, most - 1);
  EXPECT_EQ(FindKey("reshard_after_forward")->maximum, most / 2);
  const std::string last = std::to_string(most - 1);
  const std::string ranks = std::to_string(most);
  const std::string more = std::to_string(most + 1);
  const auto takes = [](const std::string& key, const std::string& value) {
    return Config().Set(key, value).ok();
  };
  EXPECT_TRUE(takes("mesh.shard", ranks));
  EXPECT_FALSE(takes("mesh.shard", more));
  EXPECT_TRUE(takes("fault.delay", last + ":20ms"));
  EXPECT_FALSE(takes("fault.delay", ranks + ":20ms"));
  EXPECT_TRUE(takes("fault.hang", last + ":3"));
  EXPECT_FALSE(takes("fault.hang", ranks + ":3"));
}

// With what an error names the settings pass.
TEST(RulesTest, WhatIsNamedOfStagesAndSplitsCanBeSet) {
  const RuleSettings tensor = {"strategy=tensor", "run.ranks=4", "model.kind=llama"};
  const RuleSettings three = {"model.heads=6", "model.kv_heads=3", "model.dim=96", "model.ffn=240"};
  const RuleSettings stages = {"strategy=pipeline", "run.ranks=2"};
  const auto and_more = [](RuleSettings settings, const std::vector<RuleSettings>& more) {
    for (const RuleSettings& one : more) settings.insert(settings.end(), one.begin(), one.end());
    return settings;
  };
  struct Case {
    RuleSettings settings;
    std::string said;
    std::vector<RuleSettings> remedies;
  };
  const Case cases[] = {
      {and_more(stages, {{"pipeline.schedule=interleaved", "pipeline.chunks=1"}}),
       "pipeline.chunks=1 does not go with pipeline.schedule=interleaved: set pipeline.chunks=2 or "
       "more, or pipeline.schedule=1f1b",
       {{"pipeline.chunks=2", "train.micro_batches=2"}, {"pipeline.schedule=1f1b"}}},
      {and_more(stages, {{"pipeline.chunks=2"}}),
       "pipeline.chunks=2 does not go with pipeline.schedule=1f1b: set "
       "pipeline.schedule=interleaved, or pipeline.chunks=1",
       {{"pipeline.schedule=interleaved", "train.micro_batches=2"}, {"pipeline.chunks=1"}}},
      {and_more(tensor, {three}),
       "model.heads=6 cannot be split among 4 ranks along mesh.tensor: set model.heads to a "
       "multiple of 4, or run.ranks=1 with mesh.tensor=1",
       {{"run.ranks=1", "mesh.tensor=1"}}},
      {and_more(tensor, {{"model.heads=8", "model.kv_heads=2"}}),
       "model.kv_heads=2 cannot be split among 4 ranks along mesh.tensor: set model.kv_heads to a "
       "multiple of 4, or run.ranks=2 with mesh.tensor=2",
       {{"model.kv_heads=4"}, {"run.ranks=2", "mesh.tensor=2"}}},
      {and_more(tensor, {{"model.ffn=770"}}),
       "model.ffn=770 cannot be split among 4 ranks along mesh.tensor: set model.ffn to a multiple "
       "of 4, or run.ranks=2 with mesh.tensor=2",
       {{"model.ffn=772"}, {"run.ranks=2", "mesh.tensor=2"}}},
      // The others take what is left, or are said to be so many.
      {and_more(tensor, {three, {"strategy=full", "run.ranks=12", "mesh.tensor=6"}}),
       "model.kv_heads=3 cannot be split among 6 ranks along mesh.tensor: set model.kv_heads to a "
       "multiple of 6, or mesh.tensor=3",
       {{"model.kv_heads=6"}, {"mesh.tensor=3"}}},
      {and_more(tensor, {{"strategy=full", "run.ranks=8", "mesh.shard=2", "mesh.tensor=4",
                          "model.kv_heads=2"}}),
       "model.kv_heads=2 cannot be split among 4 ranks along mesh.tensor: set model.kv_heads to a "
       "multiple of 4, or run.ranks=4 with mesh.tensor=2",
       {{"run.ranks=4", "mesh.tensor=2"}}},
      {and_more(tensor, {three, {"model.path=folder", "run.ranks=6"}}),
       "model.kv_heads=3 cannot be split among 6 ranks along mesh.tensor: set run.ranks=3 with "
       "mesh.tensor=3",
       {{"run.ranks=3", "mesh.tensor=3"}}},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(RuleError(one.settings), one.said);
    for (const RuleSettings& remedy : one.remedies) {
      EXPECT_EQ(RuleError(and_more(one.settings, {remedy})), "") << one.said;
    }
  }
}

TEST(RulesTest, AFaultIsOfAStepThatTheRunHas) {
  for (const std::string key : {"fault.die", "fault.hang", "fault.skip"}) {
    Config config;
    ASSERT_TRUE(config.Set("train.steps", "10").ok());
    ASSERT_TRUE(config.Set(key, "1:9").ok());
    EXPECT_TRUE(config.Check().ok());
    ASSERT_TRUE(config.Set(key, "1:10").ok());
    EXPECT_EQ(config.Check().message(),
              key +
                  "=1:10: there is no step 10 with train.steps=10, whose last is 9: name one of "
                  "0 to 9, or raise train.steps");
    ASSERT_TRUE(config.Set("train.steps", "11").ok());
    EXPECT_TRUE(config.Check().ok());
    EXPECT_FALSE(FindKey(key)->live);  // no change of a run can move it behind the end
  }
  EXPECT_FALSE(FindKey("train.steps")->live);
}

// Whose link to the host's memory is a real one.
TEST(RulesTest, AGpuTrainsAdaptersAndOffloads) {
  for (const char* setting :
       {"lora.rank=4", "train.frozen=embedding", "offload=all", "offload=optimizer"}) {
    EXPECT_EQ(RuleError({"run.device=cuda", setting}), "");
  }
  EXPECT_EQ(RuleError({"run.device=cuda", "link.host.bandwidth=2 GB/s"}),
            "link.host.bandwidth=2GB/s emulates a link that a GPU has, and does not go with "
            "run.device=cuda: leave it out");
}

}  // namespace
}  // namespace shardscope::config
