#include "engine/checkpoint/dcp/torch_names.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace shardscope::checkpoint {
namespace {

TEST(TorchNamesTest, TheSameParameterHasManyNames) {
  for (const char* name :
       {"model.layers.12.self_attn.q_proj.weight", "model.model.layers.12.self_attn.q_proj.weight",
        "module.model.layers.12.self_attn.q_proj.weight", "layers.12.attention.wq.weight",
        "model.layers.12.attention.wq.weight", "model._orig_mod.layers.12.attention.wq.weight",
        "layers.12.attention.qkv_linear.wq.weight",
        "model.layers.12._orig_mod._checkpoint_wrapped_module.attention.qkv_linear.wq.weight",
        "block12.attention.q.weight", "model.block12.attention.q.weight"}) {
    const auto found = Translate(name);
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0].parameter, "block12.attention.q.weight") << name;
    EXPECT_EQ(found[0].tensor, "parameter") << name;
    EXPECT_EQ(found[0].part, FusedPart::kNone) << name;
    const bool is_paired = std::string_view(name).find("wq") != std::string_view::npos;
    EXPECT_EQ(found[0].order == RotaryOrder::kPairs, is_paired) << name;
  }
  for (const auto& [name, ours] :
       {std::pair{"model.layers.0.self_attn.k_proj.bias", "block0.attention.k.bias"},
        std::pair{"norm.weight", "head.norm.weight"},
        std::pair{"model.norm.weight", "head.norm.weight"},
        std::pair{"tok_embeddings.weight", "embedding.weight"},
        std::pair{"model.output.weight", "head.weight"},
        std::pair{"lm_head.weight", "head.weight"}}) {
    ASSERT_EQ(Translate(name).size(), 1U) << name;
    EXPECT_EQ(Translate(name)[0].parameter, ours);
  }
}

TEST(TorchNamesTest, OptimizersNameTheParameterInTheMiddle) {
  for (const char* name : {"optimizer.state.layers.3.feed_forward.w2.weight.exp_avg",
                           "optim.state.model.layers.3.mlp.down_proj.weight.exp_avg",
                           "state.block3.mlp.down.weight.exp_avg"}) {
    const auto found = Translate(name);
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0].parameter, "block3.mlp.down.weight") << name;
    EXPECT_EQ(found[0].tensor, "exp_avg") << name;
  }
}

TEST(TorchNamesTest, OptimizersMayHaveThreeParametersInOne) {
  const auto found =
      Translate("optimizer.state.layers.3.attention.qkv_linear.wqkv.weight.exp_avg_sq");
  ASSERT_EQ(found.size(), 3U);
  const FusedPart parts[] = {FusedPart::kQueries, FusedPart::kKeys, FusedPart::kValues};
  for (size_t at = 0; at < 3; ++at) {
    EXPECT_EQ(found[at].parameter, std::string("block3.attention.") + "qkv"[at] + ".weight");
    EXPECT_EQ(found[at].tensor, "exp_avg_sq");
    EXPECT_EQ(found[at].part, parts[at]);
    EXPECT_EQ(found[at].order == RotaryOrder::kPairs, at < 2);
  }
  EXPECT_TRUE(Translate("layers.3.attention.qkv_linear.wqkv.weight").empty());
}

TEST(TorchNamesTest, WhatIsNothingOfOursIsNone) {
  for (const char* name : {"", ".", "weight", ".weight", "freqs_cis", "lr_scheduler.last_epoch",
                           "layers.x.attention.wq.weight", "layers..attention.wq.weight",
                           "model.layers.1.mlp.gate_proj.scale", "optimizer.param_groups.0.lr",
                           "state.", "optimizer.state.", "optimizer.state.weight"}) {
    EXPECT_TRUE(Translate(name).empty()) << name;
  }
}

TEST(TorchNamesTest, ParametersOfBlocksThatAreNotKnownAreSeen) {
  for (const char* name :
       {"layers.0.attention.q_norm.weight", "model.layers.11.self_attn.k_norm.weight",
        "layers.0.attention.qkv_linear.wqkv.weight", "layers.2.moe.experts.w1",
        "model.layers.0.self_attn.q_proj.lora_A.default.weight", "module.block0.mlp.extra.bias"}) {
    EXPECT_TRUE(IsUnknownOfBlock(name)) << name;
  }
  for (const char* name :
       {"freqs_cis", "model.layers.0.self_attn.rotary_emb.inv_freq", "layers.0.rope.cache",
        "optimizer.state.layers.0.attention.q_norm.weight.exp_avg", "layers.weight",
        "optimizer.param_groups.layers.0.attention.wq.weight.lr", "vision.layers.0.wq.weight"}) {
    EXPECT_FALSE(IsUnknownOfBlock(name)) << name;
  }
}

}  // namespace
}  // namespace shardscope::checkpoint
