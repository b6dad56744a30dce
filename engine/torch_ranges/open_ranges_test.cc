// The ranges are those of PyTorch 2.11's FSDP2, in the order in which it opens them.
#include "engine/torch_ranges/open_ranges.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>

namespace shardscope::torch_ranges {
namespace {

std::string Text(const Owner& owner) {
  return std::string(owner.category) + " " + std::string(owner.phase) + " " +
         std::string(owner.unit) + " [" + std::string(owner.range) + "]";
}

class OpenRangesTest : public testing::Test {
 protected:
  // Runs `body` in a range.
  template <typename Body>
  void In(const char* name, Body body) {
    const auto range = ranges_.Begin(name);
    body();
    ranges_.End(range.get());
  }
  void Empty(const char* name) {
    In(name, [] {});
  }
  std::string Now() const { return Text(ranges_.owner()); }

  OpenRanges ranges_;
};

TEST_F(OpenRangesTest, WithoutRangesNothingIsKnown) {
  EXPECT_EQ(Now(), "unattributed   []");
  In("mine", [&] { EXPECT_EQ(Now(), "unattributed   [mine]"); });
  EXPECT_EQ(Now(), "unattributed   []");
}

TEST_F(OpenRangesTest, AForwardOfTwoUnits) {
  Empty("FSDP::root_pre_forward");
  In("FSDP::pre_forward (layers.0)", [&] {
    In("FSDP::all_gather (layers.0)", [&] {
      EXPECT_EQ(Now(), "communication_buffer forward layers.0 [FSDP::all_gather (layers.0)]");
      In("nccl:_all_gather_base", [&] {
        EXPECT_EQ(Now(), "communication_buffer forward layers.0 [nccl:_all_gather_base]");
      });
    });
    EXPECT_EQ(Now(), "unattributed forward layers.0 [FSDP::pre_forward (layers.0)]");
    In("FSDP::all_gather_copy_out (layers.0)", [&] {
      EXPECT_EQ(Now(),
                "unsharded_parameter forward layers.0 [FSDP::all_gather_copy_out (layers.0)]");
    });
  });
  EXPECT_EQ(Now(), "activation forward layers.0 []");
  In("attention", [&] { EXPECT_EQ(Now(), "activation forward layers.0 [attention]"); });
  // A unit inside the other.
  Empty("FSDP::pre_forward (layers.0.mlp)");
  EXPECT_EQ(Now(), "activation forward layers.0.mlp []");
  In("FSDP::forward_prefetch for layers.1", [&] {
    In("FSDP::all_gather (layers.1)", [&] {
      EXPECT_EQ(Now(), "communication_buffer forward layers.1 [FSDP::all_gather (layers.1)]");
    });
  });
  Empty("FSDP::post_forward (layers.0.mlp)");
  EXPECT_EQ(Now(), "activation forward layers.0 []");
  In("FSDP::post_forward (layers.0)",
     [&] { EXPECT_EQ(Now(), "unattributed forward layers.0 [FSDP::post_forward (layers.0)]"); });
  EXPECT_EQ(Now(), "unattributed   []");
}

TEST_F(OpenRangesTest, ABackwardWithRecomputation) {
  In("FSDP::pre_backward (layers.1)", [&] {
    In("FSDP::backward_prefetch for layers.0", [&] {
      In("FSDP::all_gather (layers.0)", [&] {
        EXPECT_EQ(Now(), "communication_buffer backward layers.0 [FSDP::all_gather (layers.0)]");
      });
    });
  });
  EXPECT_EQ(Now(), "unattributed backward layers.1 []");
  Empty("FSDP::pre_forward (layers.1)");
  EXPECT_EQ(Now(), "activation forward layers.1 []");
  Empty("FSDP::post_forward (layers.1)");
  EXPECT_EQ(Now(), "unattributed backward layers.1 []");
  In("FSDP::post_backward_accumulate (layers.1)",
     [&] { EXPECT_EQ(Now().substr(0, 27), "gradient backward layers.1 "); });
  EXPECT_EQ(Now(), "unattributed   []");
  In("FSDP::post_backward_reduce (layers.1)",
     [&] { EXPECT_EQ(Now().substr(0, 39), "communication_buffer backward layers.1 "); });
}

// The root's ranges name no unit; a forward that was left by an exception ends with the next one.
TEST_F(OpenRangesTest, TheRootAndForwardsThatDoNotEnd) {
  Empty("FSDP::pre_forward");
  EXPECT_EQ(Now(), "activation forward  []");
  Empty("FSDP::pre_forward (layers.0)");
  Empty("FSDP::post_forward");
  EXPECT_EQ(Now(), "unattributed   []");
  Empty("FSDP::pre_forward (layers.0)");
  Empty("FSDP::root_pre_forward");
  EXPECT_EQ(Now(), "unattributed   []");
  Empty("FSDP::pre_backward");
  Empty("FSDP::root_post_backward_callback");
  EXPECT_EQ(Now(), "unattributed   []");
}

TEST_F(OpenRangesTest, OptimizersStateIsTheirs) {
  Empty("FSDP::pre_backward");
  In("Optimizer.step#AdamW.step",
     [&] { EXPECT_EQ(Now(), "optimizer optimizer  [Optimizer.step#AdamW.step]"); });
  In("Optimizer.zero_grad#AdamW.zero_grad",
     [&] { EXPECT_EQ(Now().substr(0, 24), "unattributed optimizer  "); });
}

TEST_F(OpenRangesTest, RangesEndInAnyOrderAndOnAnyThread) {
  const auto outer = ranges_.Begin("outer");
  const auto inner = ranges_.Begin("inner");
  const auto elsewhere = ranges_.Begin("elsewhere");
  std::thread([&] { OpenRanges::EndElsewhere(elsewhere.get()); }).join();
  EXPECT_EQ(Now(), "unattributed   [inner]");
  ranges_.End(outer.get());
  EXPECT_EQ(Now(), "unattributed   [inner]");
  ranges_.End(inner.get());
  EXPECT_EQ(Now(), "unattributed   []");
  ranges_.End(inner.get());  // again: nothing
  EXPECT_EQ(Now(), "unattributed   []");
}

}  // namespace
}  // namespace shardscope::torch_ranges
