#include "app/commands.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "app/command_test_util.h"
#include "engine/config/config.h"
#include "engine/footprint/footprint.h"
#include "engine/plan/text.h"

namespace shardscope::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Outcome RunPlan(const std::string& arguments) { return RunCommand(AddPlanCommand, arguments); }

class PlanFile : public testing::Test {
 protected:
  ~PlanFile() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  const std::string path_ = testing::TempDir() + "/shardscope_plan_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".txt";
};

TEST_F(PlanFile, WhatIsPrintedPassesTheCheck) {
  const Outcome printed = RunPlan(
      "plan --preset fsdp1 --units 3 --ranks 2 --micro-batches 2 "
      "--set prefetch.backward=post prefetch.limit=1");
  ASSERT_EQ(printed.exit_code, 0) << printed.error;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("schedule 1 \"fsdp1 full post1 limit1\" ranks=2 "
                                           "micro_batches=2\n"),
                                 HasSubstr("unit 3 \"block2\""), HasSubstr("wait=host:"),
                                 HasSubstr("in issue order: "), HasSubstr("; at most ")));
  EXPECT_THAT(printed.out, testing::Not(HasSubstr("unit 4 ")));
  Write(printed.out);
  const Outcome checked = RunPlan("plan --check " + path_);
  EXPECT_EQ(checked.exit_code, 0) << checked.error;
  size_t ops = 0;
  for (size_t at = printed.out.find("\n  op "); at != std::string::npos;
       at = printed.out.find("\n  op ", at + 1)) {
    ++ops;
  }
  EXPECT_EQ(checked.out, "ok: " + std::to_string(ops) + " ops, 2 ranks\n");
}

TEST(Plan, TakesTheKeysThatShapeASchedule) {
  // Those that name a folder give what it says of the model.
  const std::set<std::string> of_folders = {"model.path", "lora.path"};
  for (const config::KeyInfo& key : config::AllKeys()) {
    if (!key.settable) continue;
    const std::string error =
        RunPlan("plan --units 2 --set " + key.name + "=" + key.default_value).error;
    const bool is_taken = error.find("does not shape a schedule") == std::string::npos;
    EXPECT_EQ(is_taken, key.shapes_schedule || key.is_of_model || of_folders.contains(key.name))
        << key.name << ": " << error;
  }
}

TEST_F(PlanFile, ABrokenScheduleIsRefusedWithTheOp) {
  std::string text = RunPlan("plan --units 1").out;
  const std::string wait = "wait=event:";
  const size_t copy_out = text.find("# F m0 block0 copy_out");
  ASSERT_NE(copy_out, std::string::npos);
  const size_t at = text.rfind(wait, copy_out);
  text.erase(at, text.find(' ', at) - at);
  Write(text);
  const Outcome checked = RunPlan("plan --check " + path_);
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_EQ(checked.out, "");
  EXPECT_THAT(checked.error, AllOf(StartsWith("shardscope plan: " + path_ + ": op "),
                                   HasSubstr("'F m0 block0 copy_out'")));
}

TEST_F(PlanFile, ATextThatIsNoScheduleNamesTheLine) {
  Write("schedule 1 \"x\" ranks=1 micro_batches=1\nnonsense\n");
  const Outcome checked = RunPlan("plan --check " + path_);
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_EQ(checked.error,
            "shardscope plan: " + path_ + ": line 2: 'nonsense' is no kind of line\n");
}

TEST(Plan, MissingFile) {
  const Outcome outcome = RunPlan("plan --check /nowhere/plan.txt");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.error,
            "shardscope plan: cannot read /nowhere/plan.txt: No such file or directory\n");
}

TEST(Plan, TheLaterOneOfAnOptionAndItsKeyWins) {
  EXPECT_THAT(RunPlan("plan --ranks 2 --set run.ranks=4").out, HasSubstr(" ranks=4 "));
  EXPECT_THAT(RunPlan("plan --set run.ranks=4 --ranks 3").out, HasSubstr(" ranks=3 "));
  EXPECT_THAT(RunPlan("plan --set preset=fsdp1 --preset fsdp2").out, HasSubstr("\"fsdp2 "));
}

TEST(Plan, WhatNeverEndsIsNoSchedule) {
  const Outcome outcome = RunPlan("plan --check /dev/zero");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("/dev/zero is a pipe or a device"));
}

TEST_F(PlanFile, WhatAScheduleSaysDoesNotSteerTheTerminal) {
  Write("schedule 1 \"x\" ranks=1 micro_batches=1\n\x1b]0;title\x07\n");
  const Outcome outcome = RunPlan("plan --check " + path_);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.error.find('\x1b'), std::string::npos);
  EXPECT_THAT(outcome.error, HasSubstr("]0;title"));
}

TEST(Plan, SettingsAreChecked) {
  EXPECT_EQ(RunPlan("plan --set train.lr=1").error,
            "shardscope plan: 'train.lr' does not shape a schedule: leave it out here\n");
  EXPECT_EQ(RunPlan("plan --set \"train.lr = 1\"").error,
            "shardscope plan: 'train.lr' does not shape a schedule: leave it out here\n");
  for (const char* keyless : {"ranks", "=5"}) {
    EXPECT_EQ(RunPlan(std::string("plan --set ") + keyless).error,
              std::string("shardscope plan: --set ") + keyless + ": expected key=value\n");
  }
  const Outcome unknown = RunPlan("plan --set prefetch.backwards=pre");
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.error, HasSubstr("prefetch.backward"));
  const Outcome preset = RunPlan("plan --preset fsdp3");
  EXPECT_EQ(preset.exit_code, 1);
  EXPECT_THAT(preset.error, HasSubstr("fsdp3"));
}

TEST(Plan, KeysOfAModelPrintTheScheduleOfOne) {
  const Outcome adapters = RunPlan("plan --set lora.rank=8");
  ASSERT_EQ(adapters.exit_code, 0) << adapters.error;
  EXPECT_THAT(adapters.out, AllOf(HasSubstr("lora_A.weight\" shape=8,"), HasSubstr(" frozen=1"),
                                  HasSubstr("\"block3\""), Not(HasSubstr("\"block4\""))));
  const Outcome frozen = RunPlan("plan --set train.frozen=block2");
  ASSERT_EQ(frozen.exit_code, 0) << frozen.error;
  EXPECT_THAT(frozen.out, AllOf(HasSubstr("# B m0 block1 reduce_scatter @"),
                                Not(HasSubstr("# B m0 block2 reduce_scatter @"))));
  EXPECT_THAT(RunPlan("plan --set unit.policy=module").out, HasSubstr("\"block0.attention\"\n"));
  EXPECT_NE(RunPlan("plan --set train.logits_block=16").out,
            RunPlan("plan --set train.logits_block=0").out);
  EXPECT_THAT(RunPlan("plan --evaluation --set lora.rank=8").out, HasSubstr("lora_A.weight"));
  // Without any of them it is the uniform one's, which is smaller.
  EXPECT_NE(RunPlan("plan").out, RunPlan("plan --set model.kind=gpt").out);
}

// Which is that of a run with the same keys, though the uniform model has other defaults.
TEST(Plan, TheModelIsThatOfARun) {
  for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
           {"lora.rank=8"},
           {"unit.policy=module"},
           {"model.dim=64", "unit.root=true"},
           {"train.batch=2", "model.layers=2"},
           {"model.kind=llama", "strategy=pipeline", "train.micro_batches=2"}}) {
    config::Config config;
    ASSERT_TRUE(config.Set("run.ranks", "2").ok());
    std::string arguments = "plan --set";
    for (const std::string& setting : settings) {
      ASSERT_TRUE(config::ApplySetting(setting, &config).ok()) << setting;
      arguments += " " + setting;
    }
    ASSERT_TRUE(config.Check().ok()) << config.Check().message();
    const auto footprint = footprint::FootprintOf(config);
    ASSERT_TRUE(footprint.ok()) << footprint.message();
    const Outcome printed = RunPlan(arguments);
    EXPECT_EQ(printed.exit_code, 0) << printed.error;
    EXPECT_EQ(printed.out.substr(printed.out.find('\n') + 1),
              plan::PrintSchedule(footprint->schedule))
        << arguments;
  }
}

TEST_F(PlanFile, FoldersOfAModelAreRead) {
  const std::string folder = path_ + ".model";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/config.json")
      << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
             "hidden_size": 32, "intermediate_size": 48,
             "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
             "vocab_size": 300, "max_position_embeddings": 64})";
  const std::string keys =
      " model.kind=llama model.layers=3 model.dim=32 model.heads=4 model.kv_heads=2 model.ffn=48 "
      "model.vocab=300";
  const std::string more = " model.seq=16 strategy=grad_op checkpointing=full";
  const Outcome of_folder = RunPlan("plan --set model.path=" + folder + more);
  EXPECT_EQ(of_folder.error, "");
  EXPECT_EQ(of_folder.out, RunPlan("plan --set" + keys + more).out);
  EXPECT_THAT(RunPlan("plan --set model.path=" + folder + " model.layers=2").error,
              HasSubstr("config.json"));
  std::filesystem::remove_all(folder);
  EXPECT_THAT(RunPlan("plan --set model.path=" + folder).error, HasSubstr(folder));
  EXPECT_THAT(RunPlan("plan --set lora.path=" + folder).error, HasSubstr("set model.path"));
  EXPECT_THAT(RunPlan("plan --set train.frozen=block4").error, HasSubstr("no module block4"));
}

TEST(Plan, HasABlockForEachStageUnlessTheirNumberIsAskedFor) {
  const Outcome outcome = RunPlan("plan --ranks 5 --set strategy=pipeline");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\"block4\""), Not(HasSubstr("\"block5\""))));
  EXPECT_THAT(RunPlan("plan --ranks 5").out, Not(HasSubstr("\"block3\"")));
  for (const char* units : {"--units 4", "--set model.layers=4", "--set \"model.layers = 4\"",
                            "--set \" model.layers =4\""}) {
    const Outcome few = RunPlan(std::string("plan --ranks 5 --set strategy=pipeline ") + units);
    EXPECT_EQ(few.exit_code, 1);
    EXPECT_THAT(few.error, HasSubstr("model.layers=5"));
  }
}

TEST(Plan, SettingsWithoutRootUnit) {
  const Outcome outcome = RunPlan("plan --units 1 --set unit.root=false");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\"embedding\""), HasSubstr("unit 2 \"head\"")));
}

constexpr const char* kSmall =
    " --ranks 4 --set model.layers=2 model.dim=32 model.heads=2 model.seq=16 train.batch=2";

TEST(PlanMemory, SaysWhatEachStrategyAndOptionTakes) {
  const Outcome outcome = RunPlan(std::string("plan --memory --json") + kSmall);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const nlohmann::json plan = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(plan["limit_bytes"], 0);
  EXPECT_EQ(plan["rows"][0]["kind"], "given");
  std::set<std::string> strategies;
  std::set<std::string> options;
  for (const nlohmann::json& row : plan["rows"]) {
    EXPECT_LE(row["predicted_peak_bytes"], row["executed_bound_bytes"]) << row;
    int64_t sum = 0;
    for (const auto& [category, bytes] : row["at_bound"].items()) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, row["executed_bound_bytes"]) << row;
    EXPECT_FALSE(row.contains("largest"));
    if (row["kind"] == "strategy")
      strategies.insert(row["settings"]["strategy"].get<std::string>());
    if (row["kind"] == "option") options.insert(row["settings"].items().begin().key());
  }
  EXPECT_THAT(strategies, testing::IsSupersetOf(
                              {"grad_op", "ddp", "zero1", "zero2", "zero3", "hybrid", "no_shard"}));
  EXPECT_THAT(strategies, Not(testing::Contains("single")));  // of four ranks
  EXPECT_THAT(options, testing::IsSupersetOf({"prefetch.backward", "train.batch", "precision.param",
                                              "host.run_ahead"}));
}

TEST(PlanMemory, FindsTheLargestThatFitALimit) {
  const Outcome text = RunPlan(std::string("plan --memory --limit 1MB") + kSmall);
  ASSERT_EQ(text.exit_code, 0) << text.error;
  EXPECT_THAT(text.out, AllOf(HasSubstr("4 ranks, model.layers=2, "), HasSubstr("strategy=ddp"),
                              HasSubstr("The largest of each key that fits 1.00 MB a rank"),
                              HasSubstr("model.layers"), HasSubstr("less precise")));
  // The limit of the keys will do as well, and both say the same.
  const Outcome keys =
      RunPlan(std::string("plan --memory") + kSmall + " engine.memory_limit=1MB" + " --json");
  ASSERT_EQ(keys.exit_code, 0) << keys.error;
  const nlohmann::json plan = nlohmann::json::parse(keys.out);
  EXPECT_EQ(plan["limit_bytes"], 1'000'000);
  int num_larger = 0;
  for (const nlohmann::json& row : plan["rows"]) {
    EXPECT_EQ(row["fits"], row["executed_bound_bytes"] <= 1'000'000);
    if (row["settings"].contains("train.batch")) continue;
    EXPECT_EQ(row["largest"]["train.batch"] >= 2, row["fits"]) << row;
    if (row["largest"]["train.batch"] > 2) ++num_larger;
  }
  EXPECT_GT(num_larger, 3);
}

// Whether or not a limit is given.
TEST(PlanMemory, RefusesWhatAGpuCannotRun) {
  for (const std::string limit : {"", " --limit 1MB"}) {
    const std::string command = "plan --memory" + limit + kSmall + " model.dim=48 model.heads=4";
    const Outcome outcome = RunPlan(command + " run.device=cuda");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.error, HasSubstr("multiple of 8"));
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(RunPlan(command).exit_code, 0);
  }
}

TEST(PlanMemory, RefusesWhatMakesNoSense) {
  EXPECT_THAT(RunPlan("plan --memory --limit much").error,
              HasSubstr("--limit much: must be a size"));
  EXPECT_THAT(RunPlan("plan --memory --limit 0").error, HasSubstr("above 0"));
  EXPECT_THAT(RunPlan("plan --limit 2GB").error, HasSubstr("go with --memory only"));
  EXPECT_THAT(RunPlan("plan --json").error, HasSubstr("go with --memory only"));
  EXPECT_THAT(RunPlan("plan --memory --config /nowhere.toml").error, HasSubstr("/nowhere.toml"));
  EXPECT_THAT(RunPlan("plan --memory --set model.dims=3").error, HasSubstr("model.dim"));
  EXPECT_THAT(RunPlan("plan --memory --set model.heads=3").error, HasSubstr("does not divide"));
  EXPECT_THAT(RunPlan("plan --memory --set strategy=full ddp.bucket_cap=1MB").error,
              HasSubstr("ddp.bucket_cap"));
  EXPECT_NE(RunPlan("plan --memory --check x").exit_code, 0);
}

}  // namespace
}  // namespace shardscope::app
