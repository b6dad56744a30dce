#include <gtest/gtest.h>

#include "ui/widgets/slider.h"

namespace shardscope::widgets {
namespace {

TEST(Slider, ValueAndPlaceAreInverse) {
  const SliderSpec linear{.minimum = -1, .maximum = 3};
  const SliderSpec logarithmic{.minimum = 1e7, .maximum = 1e10, .logarithmic = true};
  for (const double share : {0.0, 0.25, 0.5, 1.0}) {
    EXPECT_NEAR(SliderShare(linear, SliderValue(linear, share)), share, 1e-12);
    EXPECT_NEAR(SliderShare(logarithmic, SliderValue(logarithmic, share)), share, 1e-12);
  }
  EXPECT_NEAR(SliderValue(logarithmic, 1.0 / 3), 1e8, 1);
}

TEST(Slider, WholeNumbersSnapAndOutsideIsClamped) {
  const SliderSpec spec{.minimum = 0, .maximum = 3, .whole_numbers = true};
  EXPECT_EQ(SliderValue(spec, 0.4), 1);
  EXPECT_EQ(SliderValue(spec, 0.6), 2);
  EXPECT_EQ(SliderShare(spec, 99), 1);
  EXPECT_EQ(SliderShare(spec, -99), 0);
}

}  // namespace
}  // namespace shardscope::widgets
