#include "engine/runtime/units/sharded_unit.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/runtime/memory/tensor_memory.h"

namespace shardscope::runtime {
namespace {

using testing::ElementsAre;
using testing::Pair;

// From 1 on, by place in the parameter.
class CountedUp final : public model::ParameterSource {
 public:
  void Read(const plan::Parameter& /*parameter*/, int64_t first,
            const at::Tensor& values) const override {
    values.copy_(Values(first, values.numel()));
  }
  static at::Tensor Values(int64_t first, int64_t count) {
    return at::arange(first + 1, first + 1 + count, at::kFloat);
  }
};

// New memory is full of NaNs here, where blocks are large: so are these parameters.
TEST(ShardedUnit, IsZeroWhereNoValueLies) {
  InstallTensorMemory();
  const plan::Unit unit{.name = "block0",
                        .parameters = {{.name = "weight", .shape = {1000, 101}},
                                       {.name = "bias", .shape = {70'001}}}};
  for (const int place : {0, 1, 2}) {
    const auto pool = std::make_shared<MemoryPool>(MemoryPool::Options{.poison = true});
    const TensorScope scope(pool);
    ShardedUnit made(unit, {.shard_ranks = 3, .shard_index = place},
                     {.has_whole_parameters = true});
    made.Initialize(CountedUp());
    const at::Tensor shard = made.parameters().clone();
    const at::Tensor whole = made.whole_parameters().clone();
    for (size_t index = 0; index < unit.parameters.size(); ++index) {
      const ParameterLayout& parameter = made.layout().parameters()[index];
      const int64_t owned = made.OwnedElements(index);
      const at::Tensor own = shard.narrow(0, parameter.shard_offset, owned);
      EXPECT_TRUE(own.equal(CountedUp::Values(place * parameter.shard_elements(), owned)));
      own.zero_();
      const int64_t elements = parameter.rows * parameter.row_elements;
      const at::Tensor all = whole.narrow(0, made.layout().UnshardedOffset(index, 4) / 4, elements);
      EXPECT_TRUE(all.equal(CountedUp::Values(0, elements)));
      all.zero_();
    }
    EXPECT_FALSE(shard.ne(0).any().item<bool>()) << "padding of rank " << place;
    EXPECT_FALSE(whole.ne(0).any().item<bool>()) << "padding and gaps of rank " << place;
    EXPECT_FALSE(made.gradient().ne(0).any().item<bool>());
  }
}

// What it was told of: first elements, with how many follow.
class Told final : public model::ParameterSource {
 public:
  explicit Told(std::vector<std::pair<int64_t, int64_t>>* ranges) : ranges_(ranges) {}
  void Read(const plan::Parameter& /*parameter*/, int64_t /*first*/,
            const at::Tensor& values) const override {
    values.zero_();
  }
  void WillRead(const plan::Parameter& /*parameter*/, int64_t first, int64_t count) const override {
    ranges_->emplace_back(first, count);
  }
  void HasRead(const plan::Parameter& /*parameter*/, int64_t first, int64_t count) const override {
    ranges_->emplace_back(first, count);
  }

 private:
  std::vector<std::pair<int64_t, int64_t>>* const ranges_;
};

TEST(ShardedUnit, AnnouncesItsRowsAndNearColumnsTogether) {
  const auto announced = [](plan::Parameter parameter, ShardedUnit::Place place, bool is_whole) {
    const ShardedUnit unit({.name = "block0", .parameters = {std::move(parameter)}}, place, {});
    std::vector<std::pair<int64_t, int64_t>> ranges;
    unit.Announce(is_whole, Told(&ranges));
    return ranges;
  };
  const plan::Parameter rows{.name = "weight", .shape = {5, 7}};
  EXPECT_THAT(announced(rows, {.shard_ranks = 2, .shard_index = 0}, false),
              ElementsAre(Pair(0, 21)));
  EXPECT_THAT(announced(rows, {.shard_ranks = 2, .shard_index = 1}, false),
              ElementsAre(Pair(21, 14)));
  EXPECT_THAT(announced(rows, {.shard_ranks = 2, .shard_index = 1}, true),
              ElementsAre(Pair(0, 35)));
  EXPECT_THAT(announced(rows, {.shard_ranks = 6, .shard_index = 5}, false), ElementsAre());
  // Of 4 rows of 20 those on the right, and what is between them.
  const ShardedUnit::Place right{.tensor_ranks = 2, .tensor_index = 1};
  EXPECT_THAT(announced({.name = "weight", .shape = {4, 10}, .split = plan::TensorSplit::kColumns},
                        right, false),
              ElementsAre(Pair(10, 70)));
  EXPECT_THAT(
      announced({.name = "weight", .shape = {2, 70'000}, .split = plan::TensorSplit::kColumns},
                right, false),
      ElementsAre(Pair(70'000, 70'000), Pair(210'000, 70'000)));
}

TEST(ShardedUnit, SaysWhereItHasReadParts) {
  const auto said = [](plan::TensorSplit split) {
    ShardedUnit unit(
        {.name = "block0", .parameters = {{.name = "weight", .shape = {4, 10}, .split = split}}},
        {.tensor_ranks = 2, .tensor_index = 1}, {});
    std::vector<std::pair<int64_t, int64_t>> ranges;
    unit.Initialize(Told(&ranges));
    return ranges;
  };
  EXPECT_THAT(said(plan::TensorSplit::kColumns), ElementsAre(Pair(10, 70)));
  EXPECT_THAT(said(plan::TensorSplit::kRows), ElementsAre());
}

}  // namespace
}  // namespace shardscope::runtime
