#include "engine/checkpoint/dcp/torch_names.h"

#include <gtest/gtest.h>

namespace shardscope::checkpoint {
namespace {

TEST(TorchNamesTest, TheSameParameterHasManyNames) {
  for (const char* name :
       {"model.layers.12.self_attn.q_proj.weight", "model.model.layers.12.self_attn.q_proj.weight",
        "module.model.layers.12.self_attn.q_proj.weight", "layers.12.attention.wq.weight",
        "model.layers.12.attention.wq.weight", "model._orig_mod.layers.12.attention.wq.weight",
        "block12.attention.q.weight", "model.block12.attention.q.weight"}) {
    const auto found = Translate(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->parameter, "block12.attention.q.weight") << name;
    EXPECT_EQ(found->tensor, "parameter") << name;
    const bool is_paired = std::string_view(name).find("wq") != std::string_view::npos;
    EXPECT_EQ(found->order == RotaryOrder::kPairs, is_paired) << name;
  }
  EXPECT_EQ(Translate("model.layers.0.self_attn.k_proj.bias")->parameter,
            "block0.attention.k.bias");
  EXPECT_EQ(Translate("norm.weight")->parameter, "head.norm.weight");
  EXPECT_EQ(Translate("model.norm.weight")->parameter, "head.norm.weight");
}

TEST(TorchNamesTest, OptimizersNameTheParameterInTheMiddle) {
  for (const char* name : {"optimizer.state.layers.3.feed_forward.w2.weight.exp_avg",
                           "optim.state.model.layers.3.mlp.down_proj.weight.exp_avg",
                           "state.block3.mlp.down.weight.exp_avg"}) {
    const auto found = Translate(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->parameter, "block3.mlp.down.weight") << name;
    EXPECT_EQ(found->tensor, "exp_avg") << name;
  }
}

TEST(TorchNamesTest, WhatIsNothingOfOursIsNone) {
  for (const char* name : {"", ".", "weight", ".weight", "freqs_cis", "lr_scheduler.last_epoch",
                           "layers.x.attention.wq.weight", "layers..attention.wq.weight",
                           "model.layers.1.mlp.gate_proj.scale", "optimizer.param_groups.0.lr",
                           "state.", "optimizer.state.", "optimizer.state.weight"}) {
    EXPECT_FALSE(Translate(name)) << name;
  }
}

}  // namespace
}  // namespace shardscope::checkpoint
