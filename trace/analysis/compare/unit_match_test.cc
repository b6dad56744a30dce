#include "trace/analysis/compare/unit_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::analysis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(Units, OfOneNameAreOneUnit) {
  const UnitMatch match = MatchUnits({"embedding", "block0", "head"}, {"block0", "extra", "head"});
  EXPECT_FALSE(match.by_order);
  EXPECT_THAT(match.pairs, ElementsAre(Pair("block0", "block0"), Pair("head", "head")));
}

TEST(Units, WithoutCommonNamesAreMatchedByOrder) {
  const UnitMatch match =
      MatchUnits({"embedding", "block0", "block1"}, {"root", "layers.0", "layers.1"});
  EXPECT_TRUE(match.by_order);
  EXPECT_EQ(match.name_in_a.at("layers.1"), "block1");
}

TEST(Units, OfModelsOfDifferentDepthAreMatchedByWhatIsRepeated) {
  const UnitMatch match = MatchUnits({"embedding", "block0", "block1", "block2", "head"},
                                     {"tokens", "layers.0", "layers.1", "out"});
  EXPECT_THAT(match.pairs, ElementsAre(Pair("embedding", "tokens"), Pair("block0", "layers.0"),
                                       Pair("block1", "layers.1"), Pair("head", "out")));
}

TEST(Units, OfNothingAreNone) { EXPECT_THAT(MatchUnits({}, {"a"}).pairs, IsEmpty()); }

}  // namespace
}  // namespace shardscope::analysis
