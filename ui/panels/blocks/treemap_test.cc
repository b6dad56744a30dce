// Tiles of a treemap: their areas, that they cover the box, and how square they are.
#include "ui/panels/blocks/treemap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace shardscope::panels {
namespace {

float AreaOf(const ui::Box& box) { return (box.x1 - box.x0) * (box.y1 - box.y0); }

TEST(Treemap, AreasAreAsTheWeightsAndTilesDoNotOverlap) {
  const ui::Box box{10, 20, 310, 220};
  const std::vector<int64_t> weights = {600, 600, 400, 300, 200, 200, 100};
  const std::vector<ui::Box> tiles = Treemap(weights, box);
  ASSERT_EQ(tiles.size(), weights.size());
  const auto total = static_cast<float>(std::accumulate(weights.begin(), weights.end(), 0L));
  for (size_t i = 0; i < tiles.size(); ++i) {
    EXPECT_NEAR(AreaOf(tiles[i]), AreaOf(box) * static_cast<float>(weights[i]) / total, 0.1F);
    EXPECT_GE(tiles[i].x0, box.x0 - 0.01F);
    EXPECT_LE(tiles[i].x1, box.x1 + 0.01F);
    EXPECT_GE(tiles[i].y0, box.y0 - 0.01F);
    EXPECT_LE(tiles[i].y1, box.y1 + 0.01F);
    for (size_t j = 0; j < i; ++j) {
      const float width = std::min(tiles[i].x1, tiles[j].x1) - std::max(tiles[i].x0, tiles[j].x0);
      const float height = std::min(tiles[i].y1, tiles[j].y1) - std::max(tiles[i].y0, tiles[j].y0);
      EXPECT_TRUE(width < 0.01F || height < 0.01F) << i << " and " << j;
    }
  }
}

// The example of the paper: 6 x 4 of 6, 6, 4, 3, 2, 2 and 1.
TEST(Treemap, TilesAreAsSquareAsThePaperHasThem) {
  const std::vector<ui::Box> tiles =
      Treemap(std::vector<int64_t>{6, 6, 4, 3, 2, 2, 1}, {0, 0, 6, 4});
  EXPECT_NEAR(tiles[0].x1 - tiles[0].x0, 3, 0.01);
  EXPECT_NEAR(tiles[0].y1 - tiles[0].y0, 2, 0.01);
  for (const ui::Box& tile : tiles) {
    const float width = tile.x1 - tile.x0;
    const float height = tile.y1 - tile.y0;
    EXPECT_LT(std::max(width / height, height / width), 3);
  }
}

TEST(Treemap, NothingIsEmpty) {
  EXPECT_TRUE(Treemap({}, {0, 0, 6, 4}).empty());
  for (const ui::Box& tile : Treemap(std::vector<int64_t>{0, 0}, {0, 0, 6, 4})) {
    EXPECT_EQ(AreaOf(tile), 0);
  }
  const std::vector<ui::Box> one = Treemap(std::vector<int64_t>{5, 0}, {0, 0, 6, 4});
  EXPECT_NEAR(AreaOf(one[0]), 24, 0.01F);
  EXPECT_EQ(AreaOf(one[1]), 0);
  EXPECT_EQ(AreaOf(Treemap(std::vector<int64_t>{5}, {0, 0, 0, 4})[0]), 0);
}

}  // namespace
}  // namespace shardscope::panels
