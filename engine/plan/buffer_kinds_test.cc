// What words.py says of kinds of buffers fits together.
#include <gmock/gmock.h>

#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/plan/op.h"

namespace shardscope::plan {
namespace {

using testing::Contains;

std::vector<BufferKind> AllBufferKinds() {
  std::vector<BufferKind> kinds;
  for (size_t index = 0; index < words::kBufferKindTraits.size(); ++index) {
    kinds.push_back(static_cast<BufferKind>(index));
  }
  return kinds;
}

TEST(BufferKindsTest, ElementsOfAUnitHaveADType) {
  for (const BufferKind kind : AllBufferKinds()) {
    const BufferKindTraits& traits = TraitsOf(kind);
    EXPECT_EQ(traits.part == UnitPart::kNone, traits.part_dtype == PartDType::kNone) << Name(kind);
  }
}

TEST(BufferKindsTest, TheHostHasTheSameOfAUnitAsItsDevice) {
  for (const BufferKind kind : AllBufferKinds()) {
    const std::string name(Name(kind));
    if (!name.starts_with("host_")) continue;
    const BufferKindTraits& traits = TraitsOf(kind);
    EXPECT_EQ(traits.memory, MemoryCategory::kHost) << name;
    if (kind == BufferKind::kHostReduced) continue;
    const std::optional<BufferKind> on_device = words::ParseBufferKind(name.substr(5));
    ASSERT_TRUE(on_device) << name;
    const auto content = [](const BufferKindTraits& of) {
      return std::tuple(of.form, of.part, of.part_dtype, of.trained_only);
    };
    EXPECT_EQ(content(traits), content(TraitsOf(*on_device))) << name;
  }
}

TEST(BufferKindsTest, ReducedOutputsAreAlikeInBothMemories) {
  const BufferKindTraits& host = TraitsOf(BufferKind::kHostReduced);
  const BufferKindTraits& device = TraitsOf(BufferKind::kReduceScatterOutput);
  EXPECT_EQ(std::tuple(host.form, host.part, host.part_dtype, host.trained_only),
            std::tuple(device.form, device.part, device.part_dtype, device.trained_only));
}

TEST(BufferKindsTest, GradientsAreOfTrainedParametersAndWeightsOfAll) {
  for (const BufferKind kind : AllBufferKinds()) {
    const BufferKindTraits& traits = TraitsOf(kind);
    const MemoryCategory memory = traits.memory;
    if (memory == MemoryCategory::kGradient || memory == MemoryCategory::kGradientShard ||
        traits.kept_as == KeptAs::kOptimizerState || traits.part_dtype == PartDType::kReduce ||
        traits.part_dtype == PartDType::kGradient) {
      EXPECT_TRUE(traits.trained_only) << Name(kind);
    }
    if (memory == MemoryCategory::kParameterShard ||
        memory == MemoryCategory::kUnshardedParameter || traits.part_dtype == PartDType::kMaster) {
      EXPECT_FALSE(traits.trained_only) << Name(kind);
    }
  }
}

TEST(BufferKindsTest, RanksAddUpScalarsAndWhatABufferHasOfAGradient) {
  std::set<SummedPart> seen;
  for (const BufferKind kind : AllBufferKinds()) {
    const BufferKindTraits& traits = TraitsOf(kind);
    seen.insert(traits.summed);
    switch (traits.summed) {
      case SummedPart::kNone:
        break;
      case SummedPart::kScalar:
        EXPECT_EQ(traits.part, UnitPart::kNone) << Name(kind);
        break;
      case SummedPart::kChunk:
        EXPECT_EQ(traits.part, UnitPart::kRankMajor) << Name(kind);
        break;
      case SummedPart::kShard:
        EXPECT_EQ(traits.part, UnitPart::kShard) << Name(kind);
        break;
      case SummedPart::kWhole:
        EXPECT_EQ(traits.part, UnitPart::kWhole) << Name(kind);
        break;
    }
    if (traits.summed == SummedPart::kNone) continue;
    EXPECT_EQ(traits.trained_only, traits.part != UnitPart::kNone) << Name(kind);
  }
  EXPECT_EQ(seen.size(), 5U);
}

TEST(BufferKindsTest, ActivationsAloneHaveRowsOrTensors) {
  for (const BufferKind kind : AllBufferKinds()) {
    EXPECT_EQ(TraitsOf(kind).form != BufferForm::kBlock,
              TraitsOf(kind).memory == MemoryCategory::kActivation)
        << Name(kind);
  }
}

TEST(BufferKindsTest, AUnitKeepsOneBufferForEachUseInOneMemory) {
  std::set<std::pair<KeptAs, bool>> seen;
  for (const BufferKind kind : AllBufferKinds()) {
    const BufferKindTraits& traits = TraitsOf(kind);
    if (traits.kept_as == KeptAs::kNone) continue;
    const bool is_on_host = traits.memory == MemoryCategory::kHost;
    EXPECT_TRUE(seen.emplace(traits.kept_as, is_on_host).second) << Name(kind);
    EXPECT_TRUE(traits.part != UnitPart::kNone || traits.kept_as == KeptAs::kOptimizerState)
        << Name(kind);
  }
  EXPECT_THAT(seen, Contains(std::pair(KeptAs::kHostMaster, true)));
  EXPECT_THAT(seen, Contains(std::pair(KeptAs::kParameterShard, false)));
}

}  // namespace
}  // namespace shardscope::plan
