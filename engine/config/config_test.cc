#include "engine/config/config.h"
#include "engine/config/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace shardscope::config {
namespace {

using testing::HasSubstr;
using SettingList = std::vector<std::string>;

// The error of the settings in order and of Check(); empty if there is none.
std::string ErrorOf(const SettingList& settings) {
  Config config;
  for (const std::string& setting : settings) {
    const Status status = ApplySetting(setting, &config);
    if (!status.ok()) return status.message();
  }
  return config.Check().message();
}

Config With(const SettingList& settings) {
  Config config;
  for (const std::string& setting : settings) {
    const Status status = ApplySetting(setting, &config);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return config;
}

TEST(Keys, EveryKeyIsCompleteAndItsDefaultIsCanonical) {
  std::set<std::string> names;
  for (const KeyInfo& key : AllKeys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name << " twice";
    EXPECT_TRUE(key.help.ends_with('.')) << key.name;
    const auto canonical = Canonical(key, key.default_value);
    ASSERT_TRUE(canonical.ok()) << canonical.message();
    EXPECT_EQ(*canonical, key.default_value);
    EXPECT_EQ(FindKey(key.name), &key);
  }
  EXPECT_TRUE(Config().Check().ok());
}

TEST(Keys, TheFixedNamesExist) {
  for (const char* name : {"preset",
                           "strategy",
                           "reshard_after_forward",
                           "mesh.replicate",
                           "mesh.shard",
                           "prefetch.backward",
                           "prefetch.backward_depth",
                           "prefetch.forward",
                           "prefetch.limit",
                           "host.run_ahead",
                           "unit.policy",
                           "unit.root",
                           "transport",
                           "link.bandwidth",
                           "link.latency",
                           "precision.param",
                           "precision.reduce",
                           "run.name",
                           "run.ranks",
                           "run.device",
                           "run.seed",
                           "run.control_socket",
                           "model.kind",
                           "model.path",
                           "model.layers",
                           "model.dim",
                           "model.heads",
                           "model.kv_heads",
                           "model.ffn",
                           "model.vocab",
                           "model.seq",
                           "data.path",
                           "data.tokenizer",
                           "data.format",
                           "data.cache",
                           "data.cache_limit",
                           "train.steps",
                           "train.batch",
                           "train.micro_batches",
                           "train.logits_block",
                           "train.lr",
                           "train.clip",
                           "train.warmup_steps",
                           "engine.compute_slots",
                           "engine.memory_limit",
                           "record.steps",
                           "record.on_error",
                           "record.measure_overhead",
                           "record.max_bytes",
                           "comm.timeout",
                           "comm.communicators",
                           "cuda.memory"})
    EXPECT_NE(FindKey(name), nullptr) << name;
}

TEST(Offload, IsRefusedWhereNothingComesAndGoes) {
  const auto refused = [](const std::map<std::string, std::string>& values) {
    Config config;
    EXPECT_TRUE(config.SetAll(values).ok());
    EXPECT_TRUE(config.Set("offload", "all").ok());
    return config.Check().message();
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({{"strategy", "hybrid"}, {"run.ranks", "4"}, {"preset", "fsdp1"}}), "");
  EXPECT_EQ(refused({{"strategy", "zero3"}}), "");
  EXPECT_THAT(refused({{"strategy", "ddp"}}),
              HasSubstr("offload=all does not go with strategy=ddp"));
  EXPECT_THAT(refused({{"strategy", "zero2"}}),
              HasSubstr("set offload=optimizer, strategy=full, or offload=none"));
  EXPECT_THAT(refused({{"preset", "double_buffer"}}), HasSubstr("set preset=fsdp2"));
}

// It paces copies, no collective.
TEST(Offload, TheHostsLinkNeedsNoEmulatedTransport) {
  Config config;
  ASSERT_TRUE(config.Set("link.host.bandwidth", "2 GB/s").ok());
  EXPECT_EQ(config.Get("transport"), "shared_memory");
  EXPECT_EQ(GetHostLink(config).bytes_per_second, 2e9);
  EXPECT_TRUE(ApplyLive({{"link.host.latency", "30us"}}, &config).ok());
  EXPECT_EQ(GetHostLink(config).latency_ns, 30'000);
  EXPECT_FALSE(config.Set("link.host.bandwidth", "auto:0.5").ok());
}

TEST(Checkpointing, HasOneSpelling) {
  const auto canonical = [](const char* value) {
    Config config;
    const Status status = config.Set("checkpointing", value);
    return status.ok() ? config.Get("checkpointing") : status.message();
  };
  EXPECT_EQ(canonical("every:1"), "full");
  EXPECT_EQ(canonical("every: 2"), "every:2");
  EXPECT_EQ(canonical("blocks:0,1,2,5-5,7-8"), "blocks:0-2,5,7-8");
  EXPECT_EQ(canonical("budget:1000MB"), "budget:1GB");
  for (const char* wrong : {"", "every:0", "every:129", "blocks:", "blocks:2,1", "blocks:1,1",
                            "blocks:3-1", "blocks:0-128", "blocks:-1", "blocks:1-2-3", "budget:0",
                            "budget:-1GB", "budget:", "all", "Full"}) {
    EXPECT_THAT(canonical(wrong), HasSubstr("must be none, full")) << wrong;
  }
  Config config;
  ASSERT_TRUE(config.SetAll({{"model.layers", "4"}, {"checkpointing", "blocks:1,4"}}).ok());
  EXPECT_THAT(config.Check().message(), HasSubstr("there is no block 4 with model.layers=4"));
}

TEST(Keys, PrefetchDoesNothingWhereUnitsTakeTurns) {
  const plan::Strategy& full = *plan::FindStrategy("full");
  EXPECT_TRUE(Applies("prefetch.forward", full, "fsdp2"));
  EXPECT_FALSE(Applies("prefetch.forward", full, "double_buffer"));
  EXPECT_TRUE(Applies("unit.policy", full, "double_buffer"));
}

TEST(Keys, ReshardAfterForwardMayBeANumberOfRanks) {
  Config config;
  ASSERT_TRUE(config.SetAll({{"run.ranks", "4"}, {"reshard_after_forward", "2"}}).ok());
  ASSERT_TRUE(config.Check().ok());
  EXPECT_TRUE(ToPolicy(config).reshard_after_forward);
  EXPECT_EQ(ToPolicy(config).post_forward_ranks, 2);
  // Among all ranks it is what true is.
  ASSERT_TRUE(config.Set("reshard_after_forward", "4").ok());
  ASSERT_TRUE(config.Check().ok());
  EXPECT_EQ(ToPolicy(config).post_forward_ranks, 0);
}

TEST(Keys, TheLiveOnesAreTheKnobs) {
  std::set<std::string> live;
  for (const KeyInfo& key : AllKeys())
    if (key.live) live.insert(key.name);
  EXPECT_EQ(live, (std::set<std::string>{"accumulation",
                                         "checkpoint.every",
                                         "checkpoint.keep",
                                         "checkpointing",
                                         "ddp.bucket_cap",
                                         "engine.compute_slots",
                                         "fault.delay",
                                         "fault.jitter",
                                         "host.run_ahead",
                                         "is_last_backward",
                                         "link.bandwidth",
                                         "link.host.bandwidth",
                                         "link.host.latency",
                                         "link.latency",
                                         "link.pipeline.bandwidth",
                                         "link.pipeline.latency",
                                         "link.replicate.bandwidth",
                                         "link.replicate.latency",
                                         "link.shard.bandwidth",
                                         "link.shard.latency",
                                         "link.tensor.bandwidth",
                                         "link.tensor.latency",
                                         "mesh.pipeline",
                                         "mesh.replicate",
                                         "mesh.shard",
                                         "mesh.tensor",
                                         "offload",
                                         "pipeline.chunks",
                                         "pipeline.schedule",
                                         "prefetch.backward",
                                         "prefetch.backward_depth",
                                         "prefetch.forward",
                                         "prefetch.forward_list",
                                         "prefetch.backward_list",
                                         "prefetch.limit",
                                         "preset",
                                         "record.steps",
                                         "reshard_after_backward",
                                         "reshard_after_forward",
                                         "schedule.file",
                                         "strategy",
                                         "tensor.async",
                                         "tensor.sequence_parallel",
                                         "train.lr",
                                         "unit.policy",
                                         "unit.root",
                                         "zero.max_live_parameters",
                                         "zero.max_reuse_distance",
                                         "zero.overlap_comm",
                                         "zero.persistence_threshold",
                                         "zero.prefetch_bucket_size",
                                         "zero.reduce_bucket_size"}));
}

TEST(Keys, HelpNamesEveryKeyWithItsDefaultAndFits) {
  const std::string help = KeyHelp();
  for (const KeyInfo& key : AllKeys()) {
    EXPECT_THAT(help, HasSubstr("  " + key.name + " "));
    EXPECT_THAT(help,
                HasSubstr("default " + (key.default_value.empty() ? "empty" : key.default_value)));
  }
  size_t begin = 0;
  for (size_t end = help.find('\n'); end != std::string::npos; end = help.find('\n', begin)) {
    EXPECT_LE(end - begin, 100U) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

struct BadInput {
  SettingList settings;
  std::vector<std::string> fragments;
};

const BadInput kBadInputs[] = {
    {{"prefetch.bakward=pre"}, {"unknown key prefetch.bakward", "prefetch.backward?"}},
    {{"train.step=3"}, {"unknown key train.step", "train.steps?"}},
    {{"checkpointing.budget=1GB"},
     {"unknown key checkpointing.budget", "did you mean checkpointing=budget:1GB?"}},
    {{"checkpointing.every=x"}, {"unknown key checkpointing.every", "checkpointing=every:...?"}},
    {{"unit.policy.size=1000"}, {"unknown key unit.policy.size", "unit.policy=size:1000?"}},
    {{"model.layer=3"}, {"model.layers?"}},
    {{"quite.something.else=1"}, {"unknown key quite.something.else", "--help"}},
    {{"=1"}, {"--set =1", "key=value"}},
    {{"train.steps"}, {"train.steps", "key=value"}},
    {{"run.ranks=0"}, {"run.ranks=0", "from 1 to 64"}},
    {{"run.ranks=-1"}, {"run.ranks=-1", "from 1 to 64"}},
    {{"run.ranks=10000"}, {"run.ranks=10000", "from 1 to 64"}},
    {{"run.ranks=99999999999999999999999"}, {"run.ranks", "from 1 to 64"}},
    {{"train.steps=many"}, {"train.steps=many", "whole number"}},
    {{"train.steps=1.5"}, {"train.steps=1.5", "whole number"}},
    {{"train.steps=10x"}, {"train.steps=10x", "whole number"}},
    {{"train.steps="}, {"train.steps=", "whole number"}},
    {{"train.lr=fast"}, {"train.lr=fast", "number from 0 to 10"}},
    {{"train.lr=nan"}, {"train.lr=nan", "number"}},
    {{"train.lr=inf"}, {"train.lr=inf", "number"}},
    {{"train.lr=-0.1"}, {"train.lr=-0.1", "from 0"}},
    {{"unit.root=maybe"}, {"unit.root=maybe", "true or false"}},
    {{"strategy=ful"}, {"strategy=ful", "full, grad_op, no_shard", "did you mean full?"}},
    {{"prefetch.backward=sideways"}, {"prefetch.backward=sideways", "pre, post, none"}},
    {{"prefetch.backward_depth=4"}, {"prefetch.backward_depth=4", "from 1 to 3"}},
    {{"prefetch.forward=4"}, {"prefetch.forward=4", "from 0 to 3"}},
    {{"prefetch.limit=65"}, {"from 0 to 64"}},
    {{"host.run_ahead=-2"}, {"from -1 to 1000"}},
    {{"link.latency=5"}, {"link.latency=5", "ns, us, ms, s"}},
    {{"link.latency=11s"}, {"0s to 10s"}},
    {{"link.bandwidth=fast"}, {"link.bandwidth=fast", "GB/s", "auto:<share>"}},
    {{"link.bandwidth=0GB/s"}, {"link.bandwidth"}},
    {{"link.bandwidth=1GiB/s"}, {"link.bandwidth"}},
    {{"link.bandwidth=auto:0"}, {"auto:0", "from 0.01 to 100"}},
    {{"link.bandwidth=auto:"}, {"share"}},
    {{"record.max_bytes=12"}, {"record.max_bytes=12", "MB"}},
    {{"record.steps=5:5"}, {"record.steps=5:5", "a < b"}},
    {{"record.steps=5"}, {"a:b"}},
    {{"unit.policy=blocks:0"}, {"unit.policy=blocks:0", "n from 1"}},
    {{"run.control_socket=/x"}, {"run.control_socket", "cannot be set"}},
    {{"run.name=a\nb"}, {"run.name=a?b", "one line"}},
    {{"data.path=\xff\xfe"}, {"data.path", "UTF-8"}},
    {{"model.heads=3", "model.dim=128"}, {"model.heads=3", "model.dim=128"}},
    {{"model.heads=4", "model.dim=12"}, {"model.dim=12", "model.heads=4", "even"}},
    {{"model.heads=4", "model.kv_heads=2"}, {"model.kv_heads=2", "model.kind=llama"}},
    {{"model.kind=llama", "model.heads=4", "model.kv_heads=3"},
     {"model.kv_heads=3", "model.heads=4"}},
    {{"model.kind=llama", "model.kv_heads=2", "run.ranks=4", "strategy=tensor"},
     {"model.kv_heads=2", "4 ranks", "mesh.tensor"}},
    {{"model.ffn=770", "run.ranks=4", "strategy=tensor"},
     {"model.ffn=770", "4 ranks", "multiple of 4"}},
    {{"eval.every=5"}, {"eval.every=5", "eval.path"}},
    {{"eval.path=held-out.txt"},
     {"eval.path=held-out.txt has no effect with eval.every=0", "set eval.every=100"}},
    {{"train.logits_block=3"}, {"train.logits_block=3", "0 (all at once)", "16"}},
    {{"lora.rank=-1"}, {"lora.rank=-1", "from 0 to 1024"}},
    {{"lora.alpha=8"}, {"lora.alpha=8", "no effect", "lora.rank=8"}},
    {{"lora.rank=4", "lora.targets=q_proj"},
     {"lora.targets=q_proj", "no layer q_proj", "model.kind=gpt", "qkv, projection, up, down"}},
    {{"model.kind=llama", "lora.rank=4", "lora.targets=q_proj,k_proj,q_proj"}, {"q_proj twice"}},
    {{"lora.rank=4", "lora.targets=,"}, {"lora.targets", "nothing would be trained", "all"}},
    {{"lora.rank=4", "train.frozen=head"}, {"train.frozen=head", "lora.rank=4", "leave it out"}},
    {{"lora.rank=4", "strategy=tensor", "tensor.async=true"},
     {"lora.rank=4", "tensor.async=true", "tensor.async=false"}},
    {{"train.frozen=block9"}, {"train.frozen=block9", "no module block9", "block0 to block3"}},
    {{"train.frozen=embedding,blocks,head"}, {"train.frozen", "nothing to train"}},
    {{"strategy=grad_op", "reshard_after_forward=true"},
     {"reshard_after_forward=true", "strategy=grad_op"}},
    {{"strategy=no_shard", "reshard_after_forward=true"},
     {"reshard_after_forward=true", "strategy=no_shard"}},
    {{"strategy=full", "reshard_after_forward=false"},
     {"reshard_after_forward=false", "strategy=full"}},
    {{"reshard_after_forward=1"}, {"reshard_after_forward=1", "true, false", "from 2 to 32"}},
    {{"run.ranks=4", "reshard_after_forward=3"},
     {"reshard_after_forward=3", "4 ranks", "mesh.shard", "true"}},
    {{"run.ranks=4", "preset=fsdp1", "reshard_after_forward=2"},
     {"reshard_after_forward=2", "preset=fsdp1", "preset=fsdp2"}},
    {{"run.ranks=4", "strategy=grad_op", "reshard_after_forward=2"},
     {"reshard_after_forward=2", "strategy=grad_op"}},
    {{"run.ranks=4", "strategy=zero3", "reshard_after_forward=2"},
     {"reshard_after_forward=2", "strategy=zero3", "strategy=full"}},
    {{"run.ranks=8", "mesh.pipeline=2", "reshard_after_forward=2"},
     {"reshard_after_forward=2", "mesh.pipeline=2", "mesh.pipeline=1"}},
    {{"preset=double_buffer", "strategy=grad_op"},
     {"preset=double_buffer", "strategy=grad_op", "strategy=full"}},
    {{"preset=double_buffer", "unit.root=true"},
     {"preset=double_buffer", "unit.root=true", "unit.root=false"}},
    {{"preset=double_buffer", "unit.policy=module"}, {"unit.policy=module", "unit.policy=block"}},
    {{"preset=double_buffer", "run.ranks=4", "mesh.pipeline=2"},
     {"mesh.pipeline=2", "mesh.pipeline=1"}},
    {{"preset=double_buffer", "run.ranks=4", "reshard_after_forward=2"},
     {"reshard_after_forward=2", "preset=double_buffer"}},
    {{"prefetch.forward_list=block0"}, {"prefetch.forward_list=block0", "unit:unit+unit"}},
    {{"prefetch.backward_list=a:b,a:c"}, {"prefetch.backward_list=a:b,a:c", "once"}},
    {{"prefetch.forward_list=a:b+"}, {"prefetch.forward_list=a:b+"}},
    {{"preset=fsdp1", "prefetch.backward_list=block1:block0"},
     {"prefetch.backward_list=block1:block0", "preset=fsdp1", "preset=fsdp2"}},
    {{"mesh.shard=0"}, {"mesh.shard=0", "auto", "from 1 to 64"}},
    {{"run.ranks=4", "strategy=hybrid", "mesh.replicate=3"},
     {"mesh.replicate=3", "run.ranks=4", "run.ranks=3"}},
    {{"run.ranks=4", "strategy=hybrid", "mesh.replicate=2", "mesh.shard=3"},
     {"mesh.replicate=2", "mesh.shard=3", "multiply to 6, not to run.ranks=4", "run.ranks=6"}},
    {{"strategy=hybrid", "mesh.replicate=auto"},
     {"mesh.replicate=auto", "mesh.shard=auto", "only one"}},
    {{"run.ranks=4", "strategy=hybrid", "mesh.replicate=1"},
     {"strategy=hybrid", "mesh.replicate=1", "mesh.replicate=2"}},
    {{"run.ranks=1", "strategy=hybrid"}, {"strategy=hybrid", "run.ranks=1", "strategy=full"}},
    {{"run.ranks=4", "mesh.replicate=2"}, {"mesh.replicate=2", "strategy=full", "strategy=hybrid"}},
    {{"run.ranks=2", "strategy=zero1", "mesh.shard=1", "mesh.tensor=2"},
     {"mesh.tensor=2", "strategy=zero1", "strategy=tensor"}},
    {{"link.shard.bandwidth=auto:0.5"}, {"link.shard.bandwidth=auto:0.5", "not auto"}},
    {{"link.tensor.latency=3"}, {"link.tensor.latency=3", "a duration"}},
    {{"strategy=data_parallel", "transport=gloo"},
     {"strategy=data_parallel", "transport=gloo", "transport=shared_memory", "strategy=ddp"}},
    {{"run.ranks=3", "strategy=tensor"}, {"model.heads=4", "3 ranks", "mesh.tensor=1"}},
    {{"run.ranks=6", "strategy=tensor", "mesh.tensor=6"},
     {"model.heads=4", "run.ranks=2 with mesh.tensor=2"}},
    {{"tensor.sequence_parallel=true"},
     {"tensor.sequence_parallel=true", "mesh.tensor=1", "mesh.tensor=2",
      "tensor.sequence_parallel=false"}},
    {{"run.ranks=4", "strategy=tensor", "tensor.sequence_parallel=true", "model.seq=126"},
     {"model.seq=126", "4 ranks", "tensor.sequence_parallel=true", "model.seq=128"}},
    {{"run.ranks=4", "mesh.tensor=1", "tensor.async=true"},
     {"tensor.async=true", "mesh.tensor=1", "mesh.tensor=2", "tensor.async=false"}},
    {{"tensor.sequence_parallel=2"}, {"tensor.sequence_parallel=2", "true or false"}},
    {{"precision.param=fp64", "precision.reduce=fp32"},
     {"precision.param=fp64", "precision.reduce=fp32"}},
    {{"transport=nccl"}, {"transport=nccl", "run.device=cpu", "run.device=cuda"}},
    {{"transport=local"}, {"transport=local", "run.device=cpu"}},
    {{"run.device=cuda", "transport=gloo"}, {"transport=gloo", "run.device=cuda", "nccl"}},
    {{"run.device=cuda", "transport=shared_memory"}, {"transport=shared_memory", "local"}},
};

TEST(BadInputs, EachGivesAnErrorThatNamesKeyValueAndWhatIsAllowed) {
  for (const BadInput& bad : kBadInputs) {
    const std::string error = ErrorOf(bad.settings);
    EXPECT_FALSE(error.empty()) << bad.settings.front();
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    for (const std::string& fragment : bad.fragments) EXPECT_THAT(error, HasSubstr(fragment));
  }
}

TEST(Values, HaveOneSpelling) {
  const std::vector<std::vector<std::string>> cases = {{"link.bandwidth", "1 GB/s", "1GB/s"},
                                                       {"link.bandwidth", "1000MB/s", "1GB/s"},
                                                       {"link.bandwidth", "1.5GB/s", "1.5GB/s"},
                                                       {"link.bandwidth", "250000kB/s", "250MB/s"},
                                                       {"link.bandwidth", "auto:0.60", "auto:0.6"},
                                                       {"link.latency", "0.5ms", "500us"},
                                                       {"link.latency", "0", "0s"},
                                                       {"link.latency", "1234567ns", "1.234567ms"},
                                                       {"record.max_bytes", "1500MB", "1.5GB"},
                                                       {"train.lr", "3e-3", "0.003"},
                                                       {"train.lr", "1.0", "1"},
                                                       {"train.steps", " 7 ", "7"},
                                                       {"train.steps", "007", "7"},
                                                       {"record.steps", "10 : 20", "10:20"},
                                                       {"unit.policy", "blocks:02", "blocks:2"},
                                                       {"data.path", " a b ", "a b"}};
  for (const auto& expected : cases) {
    const auto canonical = Canonical(*FindKey(expected[0]), expected[1]);
    ASSERT_TRUE(canonical.ok()) << canonical.message();
    EXPECT_EQ(*canonical, expected[2]);
    EXPECT_EQ(*Canonical(*FindKey(expected[0]), *canonical), *canonical);
  }
}

TEST(Values, AreReadAsWhatTheyAre) {
  const Config config =
      With({"link.bandwidth=250MB/s", "link.latency=1.5ms", "record.max_bytes=64MB", "train.lr=0.5",
            "record.steps=3:9", "unit.policy=blocks:3", "engine.compute_slots=5"});
  EXPECT_EQ(GetLinkBandwidth(config).bytes_per_second, 250e6);
  EXPECT_FALSE(GetLinkBandwidth(config).is_auto);
  EXPECT_EQ(config.GetInt("link.latency"), 1'500'000);
  EXPECT_EQ(config.GetInt("record.max_bytes"), 64'000'000);
  EXPECT_EQ(config.GetFloat("train.lr"), 0.5);
  EXPECT_EQ(GetRecordSteps(config).begin, 3);
  EXPECT_EQ(GetRecordSteps(config).end, 9);
  EXPECT_EQ(GetUnitPolicy(config).blocks, 3);
  EXPECT_EQ(GetComputeSlots(config), 5);
  EXPECT_GE(GetComputeSlots(Config()), 1);
  const LinkBandwidth link = GetLinkBandwidth(With({"link.bandwidth=auto:0.6"}));
  EXPECT_TRUE(link.is_auto);
  EXPECT_EQ(link.auto_share, 0.6);
}

TEST(Defaults, FollowThePresetOnlyWhereNothingIsSet) {
  EXPECT_EQ(With({"preset=fsdp1"}).Get("prefetch.limit"), "2");
  EXPECT_EQ(With({"preset=fsdp2"}).Get("prefetch.limit"), "0");
  for (const SettingList& order : {SettingList{"preset=fsdp1", "prefetch.limit=5"},
                                   SettingList{"prefetch.limit=5", "preset=fsdp1"}})
    EXPECT_EQ(With(order).Get("prefetch.limit"), "5");
  const Config config = With({"preset=fsdp1"});
  EXPECT_TRUE(config.IsExplicit("preset"));
  EXPECT_FALSE(config.IsExplicit("prefetch.limit"));
}

TEST(Defaults, StrategyAndReshardFollowEachOther) {
  EXPECT_EQ(With({}).Get("reshard_after_forward"), "true");
  EXPECT_EQ(With({"strategy=grad_op"}).Get("reshard_after_forward"), "false");
  EXPECT_EQ(With({"strategy=no_shard"}).Get("reshard_after_forward"), "false");
  EXPECT_EQ(With({"reshard_after_forward=false"}).Get("strategy"), "grad_op");
  EXPECT_EQ(With({"reshard_after_forward=true"}).Get("strategy"), "full");
  EXPECT_EQ(ErrorOf({"strategy=no_shard", "reshard_after_forward=false"}), "");
}

TEST(Defaults, AStatedLinkIsEmulatedAndFp64IsForBoth) {
  EXPECT_EQ(With({}).Get("transport"), "shared_memory");
  EXPECT_EQ(With({"link.bandwidth=auto:0.6"}).Get("transport"), "emulated");
  EXPECT_EQ(With({"run.device=cuda"}).Get("transport"), "local");
  EXPECT_EQ(With({"run.device=cuda", "link.latency=1ms"}).Get("transport"), "emulated");
  EXPECT_EQ(With({"run.device=cuda", "run.device=cpu"}).Get("transport"), "shared_memory");
  EXPECT_EQ(With({"link.latency=1ms", "transport=shared_memory"}).Get("transport"),
            "shared_memory");
  EXPECT_EQ(With({"precision.param=fp64"}).Get("precision.reduce"), "fp64");
  EXPECT_EQ(With({"precision.param=bf16"}).Get("precision.reduce"), "fp32");
}

TEST(SetAll, ChangesAllOrNothing) {
  Config config;
  const auto before = config.Values();
  EXPECT_FALSE(config.SetAll({{"prefetch.forward", "1"}, {"train.lr", "much"}}).ok());
  EXPECT_EQ(config.Values(), before);
  EXPECT_TRUE(config.SetAll({{"prefetch.forward", "1"}, {"train.lr", "0.1"}}).ok());
  EXPECT_EQ(config.Get("prefetch.forward"), "1");
  EXPECT_EQ(config.Get("train.lr"), "0.1");
}

TEST(ApplyLive, ChangesAllOrNothing) {
  Config config = With({"transport=emulated", "strategy=full"});
  const auto before = config.Values();
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> refused = {
      {{{"prefetch.forward", "1"}, {"prefetch.backwrd", "none"}}, "prefetch.backward?"},
      {{{"prefetch.forward", "1"}, {"run.ranks", "2"}}, "run.ranks cannot change"},
      {{{"prefetch.forward", "9"}}, "from 0 to 3"},
      {{{"prefetch.forward", "1"}, {"reshard_after_forward", "false"}}, "strategy=full"},
  };
  for (const auto& [values, fragment] : refused) {
    EXPECT_THAT(ApplyLive(values, &config).message(), HasSubstr(fragment));
    EXPECT_EQ(config.Values(), before);
  }
  EXPECT_TRUE(
      ApplyLive({{"strategy", "grad_op"}, {"reshard_after_forward", "false"}}, &config).ok());
  EXPECT_TRUE(ApplyLive({{"link.bandwidth", "2 GB/s"}, {"preset", "fsdp1"}}, &config).ok());
  EXPECT_EQ(config.Get("link.bandwidth"), "2GB/s");
  EXPECT_EQ(config.Get("prefetch.limit"), "2");
}

TEST(ApplyLive, ALinkThatIsNotThereCannotBeTurned) {
  Config config;
  EXPECT_THAT(ApplyLive({{"link.bandwidth", "2GB/s"}}, &config).message(),
              HasSubstr("transport=shared_memory"));
  EXPECT_EQ(config.Get("transport"), "shared_memory");
}

TEST(Changes, AreSortedAndSharesFollowTheNumberOfSteps) {
  Config config = With({"train.steps=90"});
  config.AddChange({.step = 50, .set = {{"train.lr", "0.1"}}});
  config.AddChange({.share = "1/3", .set = {{"prefetch.forward", "1"}}});
  EXPECT_EQ(config.changes()[0].step, 30);
  EXPECT_EQ(config.changes()[1].step, 50);
  ASSERT_TRUE(config.Set("train.steps", "200").ok());
  EXPECT_EQ(config.changes()[0].step, 50);
  EXPECT_EQ(config.changes()[1].step, 66);
  EXPECT_EQ(config.changes()[1].share, "1/3");
}

TEST(Changes, AreCheckedWithTheStateTheyMeet) {
  Config config = With({"strategy=full"});
  config.AddChange({.step = 7, .set = {{"reshard_after_forward", "false"}}});
  EXPECT_THAT(config.Check().message(), HasSubstr("change at step 7"));
  EXPECT_THAT(config.Check().message(), HasSubstr("strategy=full"));
  Config other;
  other.AddChange({.step = 7, .set = {{"run.ranks", "2"}}});
  EXPECT_THAT(other.Check().message(), HasSubstr("run.ranks cannot change"));
}

TEST(ToPolicy, CarriesEveryKnob) {
  const plan::Policy policy = ToPolicy(With(
      {"preset=fsdp1", "strategy=grad_op", "prefetch.backward=post", "prefetch.backward_depth=2",
       "prefetch.forward=3", "prefetch.limit=4", "host.run_ahead=5", "run.ranks=6",
       "train.micro_batches=7", "precision.param=bf16", "precision.reduce=bf16"}));
  EXPECT_EQ(policy.preset, plan::Preset::kFsdp1);
  EXPECT_EQ(policy.strategy, plan::FindStrategy("grad_op"));
  EXPECT_FALSE(policy.reshard_after_forward);
  EXPECT_EQ(policy.backward_prefetch, plan::BackwardPrefetch::kPost);
  EXPECT_EQ(policy.backward_depth, 2);
  EXPECT_EQ(policy.forward_prefetch, 3);
  EXPECT_EQ(policy.prefetch_limit, 4);
  EXPECT_EQ(policy.run_ahead, 5);
  EXPECT_EQ(policy.mesh.num_ranks(), 6);
  EXPECT_EQ(policy.micro_batches, 7);
  EXPECT_EQ(policy.param_dtype, plan::DType::kBf16);
  EXPECT_EQ(policy.reduce_dtype, plan::DType::kBf16);
  EXPECT_EQ(policy.master_dtype, plan::DType::kFp32);
  const plan::Policy tests = ToPolicy(With({"precision.param=fp64", "strategy=no_shard"}));
  EXPECT_EQ(tests.master_dtype, plan::DType::kFp64);
  EXPECT_EQ(tests.reduce_dtype, plan::DType::kFp64);
  EXPECT_EQ(tests.strategy, plan::FindStrategy("no_shard"));
  EXPECT_EQ(ToPolicy(With({"prefetch.backward=none"})).backward_prefetch,
            plan::BackwardPrefetch::kNone);
}

TEST(ToPolicy, CarriesListsOfPrefetches) {
  const plan::Policy policy =
      ToPolicy(With({"prefetch.forward_list=block0: block1 + block2, block1:head",
                     "prefetch.backward_list=head:block0"}));
  const plan::PrefetchLists expected = {
      .forward = {{"block0", {"block1", "block2"}}, {"block1", {"head"}}},
      .backward = {{"head", {"block0"}}}};
  EXPECT_EQ(policy.prefetch_lists, expected);
}

TEST(Keys, ADelayIsADurationOrAShareInAllStepsOrSome) {
  const auto delay = [](std::string_view text) {
    Config config;
    EXPECT_TRUE(config.Set("fault.delay", text).ok()) << text;
    return GetLateness(config).delay;
  };
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(delay(""), std::nullopt);
  EXPECT_EQ(delay("1:20ms"),
            (Delay{.rank = 1, .slowdown = {.duration_ns = 20'000'000}, .steps = {0, kAll}}));
  EXPECT_EQ(delay("0:25%:10:20"),
            (Delay{.rank = 0, .slowdown = {.share = 0.25}, .steps = {10, 20}}));
  Config config;
  for (const char* wrong : {"1", "1:", "1:20", "x:20ms", "1:0%", "1:20ms:5", "1:20ms:5:5", "64:1ms",
                            "1:2000%", "-1:1ms", "1:20ms:1:2:3"}) {
    EXPECT_FALSE(config.Set("fault.delay", wrong).ok()) << wrong;
  }
  ASSERT_TRUE(config.Set("fault.delay", "7:1ms").ok());
  EXPECT_EQ(config.Check().message(), "fault.delay=7:1ms: there is no rank 7 with run.ranks=4");
}

TEST(Keys, JitterIsADurationOrAShare) {
  const auto jitter = [](std::string_view text) {
    Config config;
    EXPECT_TRUE(config.Set("fault.jitter", text).ok()) << text;
    return GetLateness(config).jitter;
  };
  EXPECT_EQ(jitter(""), std::nullopt);
  EXPECT_EQ(jitter("5ms"), (Slowdown{.duration_ns = 5'000'000}));
  EXPECT_EQ(jitter("10%"), (Slowdown{.share = 0.1}));
  Config config;
  for (const char* wrong : {"5", "0%", "-1ms", "20s", "1:5ms", "%"}) {
    EXPECT_FALSE(config.Set("fault.jitter", wrong).ok()) << wrong;
  }
}

TEST(Keys, LinksAreByDimensionOfTheMesh) {
  Config config;
  ASSERT_TRUE(config.Set("link.replicate.bandwidth", "100 MB/s").ok());
  ASSERT_TRUE(config.Set("link.tensor.latency", "0").ok());
  EXPECT_EQ(config.Get("link.replicate.bandwidth"), "100MB/s");
  EXPECT_EQ(config.Get("transport"), "emulated");
  DimensionLinks expected;
  expected[static_cast<size_t>(plan::MeshDimension::kReplicate)].bytes_per_second = 1e8;
  expected[static_cast<size_t>(plan::MeshDimension::kTensor)].latency_ns = 0;
  EXPECT_EQ(GetDimensionLinks(config), expected);
  EXPECT_EQ(DimensionOfLink("link.bandwidth"), std::nullopt);
  EXPECT_EQ(CheckKeysOfStrategies(config).message(),
            "link.replicate.bandwidth=100MB/s has no effect with strategy=full: leave it out, or "
            "set strategy=no_shard");
}

TEST(Keys, AFaultIsOfOneRankAndStepAndPerhapsAnOp) {
  Config config;
  EXPECT_EQ(GetFaults(config), std::vector<Fault>());
  ASSERT_TRUE(config.Set("fault.skip", "1:3").ok());
  ASSERT_TRUE(config.Set("fault.die", "0 : 12 : F m0 block1.mlp forward").ok());
  EXPECT_EQ(GetFaults(config),
            (std::vector<Fault>{{FaultKind::kDie, 0, 12, "F m0 block1.mlp forward"},
                                {FaultKind::kSkip, 1, 3, ""}}));
  EXPECT_TRUE(config.Check().ok());
  for (const char* key : {"fault.die", "fault.hang", "fault.skip"}) {
    for (const char* wrong : {"1", "1:", "1:x", "-1:3", "64:3", "1:-3", "1:3:", "1:3:4:5"}) {
      EXPECT_FALSE(config.Set(key, wrong).ok()) << wrong;
    }
  }
  ASSERT_TRUE(config.Set("fault.hang", "4:0").ok());
  EXPECT_EQ(config.Check().message(), "fault.hang=4:0: there is no rank 4 with run.ranks=4");
}

TEST(ToPolicy, ElementsAreThoseOfZero3) {
  const SettingList settings = {"zero.prefetch_bucket_size=11", "zero.max_live_parameters=12",
                                "zero.max_reuse_distance=13", "zero.persistence_threshold=14",
                                "zero.overlap_comm=false"};
  SettingList with_strategy = settings;
  with_strategy.emplace_back("strategy=zero3");
  const plan::Policy policy = ToPolicy(With(with_strategy));
  EXPECT_EQ(policy.budgets,
            (plan::ElementBudgets{
                .prefetch_bucket_size = 11, .max_live_parameters = 12, .max_reuse_distance = 13}));
  EXPECT_EQ(policy.units, (plan::UnitPolicy{.persistence_threshold = 14}));
  EXPECT_FALSE(policy.overlap_comm);
  const plan::Policy full = ToPolicy(With(settings));
  EXPECT_EQ(full.units, plan::UnitPolicy());
  EXPECT_TRUE(full.overlap_comm);
}

TEST(Keys, WhatIsTrainedHasTheNamesOfParameters) {
  Config config;
  ASSERT_TRUE(config
                  .SetAll({{"model.kind", "llama"},
                           {"lora.rank", "8"},
                           {"lora.alpha", "32"},
                           {"lora.targets", "v_proj, q_proj,gate_proj"}})
                  .ok());
  ASSERT_TRUE(config.Check().ok()) << config.Check().message();
  FineTuning tuning = GetFineTuning(config);
  EXPECT_EQ(tuning.rank, 8);
  EXPECT_EQ(tuning.alpha, 32);
  EXPECT_THAT(tuning.targets, testing::ElementsAre("q", "v", "gate"));
  ASSERT_TRUE(config.Set("lora.targets", "all").ok());
  EXPECT_EQ(GetFineTuning(config).targets.size(), 7);
  ASSERT_TRUE(config.Set("model.kind", "gpt").ok());
  EXPECT_THAT(GetFineTuning(config).targets,
              testing::ElementsAre("qkv", "projection", "up", "down"));
  Config frozen;
  ASSERT_TRUE(frozen.Set("train.frozen", "embedding, block0.mlp").ok());
  ASSERT_TRUE(frozen.Check().ok()) << frozen.Check().message();
  tuning = GetFineTuning(frozen);
  EXPECT_EQ(tuning.rank, 0);
  EXPECT_THAT(tuning.frozen, testing::ElementsAre("embedding", "block0.mlp"));
  EXPECT_THAT(tuning.targets, testing::IsEmpty());
}

TEST(Keys, EveryStrategyHasItsDefaultMesh) {
  for (const plan::Strategy& strategy : plan::Strategies()) {
    Config config;
    ASSERT_TRUE(config.Set("run.ranks", strategy.dimensions == 0 ? "1" : "4").ok());
    ASSERT_TRUE(config.Set("strategy", strategy.name).ok());
    ASSERT_TRUE(config.Check().ok()) << config.Check().message();
    const plan::Mesh mesh = ToPolicy(config).mesh;
    EXPECT_EQ(mesh.SizeOf(strategy.dimensions), mesh.num_ranks()) << strategy.name;
  }
}

TEST(Keys, AMeshThatAStrategyDoesNotHaveNamesBoth) {
  const auto message = [](const std::map<std::string, std::string>& values) {
    Config config;
    EXPECT_TRUE(config.SetAll(values).ok());
    return config.Check().message();
  };
  EXPECT_EQ(message({{"strategy", "ddp"}, {"mesh.shard", "2"}, {"mesh.replicate", "2"}}),
            "mesh.shard=2 means shards, which strategy=ddp does not have: set strategy=hybrid, or "
            "mesh.shard=1");
  EXPECT_EQ(message({{"strategy", "single"}}),
            "strategy=single is one rank, not run.ranks=4: set run.ranks=1, or strategy=ddp");
  EXPECT_EQ(message({{"strategy", "zero2"}, {"mesh.replicate", "2"}}),
            "mesh.replicate=2 means replicas, which strategy=zero2 does not have: set "
            "strategy=hybrid, or mesh.replicate=1");
}

TEST(Keys, UnitPolicyHasFiveForms) {
  Config config;
  ASSERT_TRUE(config.Set("unit.policy", "block").ok());
  EXPECT_EQ(GetUnitPolicy(config), plan::UnitPolicy());
  ASSERT_TRUE(config.Set("unit.policy", "blocks:4").ok());
  EXPECT_EQ(GetUnitPolicy(config), (plan::UnitPolicy{.blocks = 4}));
  ASSERT_TRUE(config.Set("unit.policy", "module").ok());
  EXPECT_EQ(GetUnitPolicy(config), (plan::UnitPolicy{.modules = true}));
  ASSERT_TRUE(config.Set("unit.policy", "size: 1000").ok());
  EXPECT_EQ(config.Get("unit.policy"), "size:1000");
  EXPECT_EQ(GetUnitPolicy(config), (plan::UnitPolicy{.least_elements = 1000}));
  ASSERT_TRUE(config.Set("unit.policy", "list:block0, block1.mlp").ok());
  EXPECT_EQ(config.Get("unit.policy"), "list:block0,block1.mlp");
  EXPECT_EQ(GetUnitPolicy(config), (plan::UnitPolicy{.names = {"block0", "block1.mlp"}}));
  for (const char* wrong : {"", "blocks", "blocks:", "blocks:0", "blocks:-1", "blocks:2x", "size:0",
                            "size:", "list:", "list:a,,b", "modules"}) {
    EXPECT_FALSE(config.Set("unit.policy", wrong).ok()) << wrong;
  }
}

TEST(Keys, ListedUnitsAreModulesOfTheModel) {
  Config config;
  ASSERT_TRUE(config.SetAll({{"model.layers", "2"}, {"unit.policy", "list:block1.mlp,head"}}).ok());
  EXPECT_TRUE(config.Check().ok());
  ASSERT_TRUE(config.Set("unit.policy", "list:block2").ok());
  EXPECT_EQ(config.Check().message(),
            "unit.policy=list:block2: there is no module block2 with model.layers=2; there are "
            "embedding, head, block0 to block1, and of each block .attention and .mlp");
  ASSERT_TRUE(config.Set("unit.policy", "list:head,head").ok());
  EXPECT_EQ(config.Check().message(), "unit.policy=list:head,head names head twice");
}

}  // namespace
}  // namespace shardscope::config
