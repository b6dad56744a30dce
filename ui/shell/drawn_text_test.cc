#include "ui/shell/drawn_text.h"

#include <gtest/gtest.h>

namespace shardscope::shell {
namespace {

TEST(DrawnText, StandsByWindowFromTopToBottomAndFromLeftToRight) {
  EXPECT_EQ(PrintTexts({{{1200, 60, 1300, 80}, "Details###details", "all_gather block1"},
                        {{0, 200, 40, 220}, "Timeline###timeline/lanes_12", "rank 1"},
                        {{300, 103, 400, 120}, "Timeline###timeline", "forward"},
                        {{0, 100, 40, 120}, "Timeline###timeline/lanes_12", "rank 0"},
                        {{0, 70, 40, 90}, "Timeline###timeline", "step 10"},
                        {{10, 5, 50, 25}, "##top_bar", "LIVE"},
                        {{1200, 90, 1300, 110}, "Details###details", "1 MB came"},
                        {{1200, 90, 1300, 110}, "Details###details", "1 MB came"}}),
            "LIVE\n"
            "\n"
            "Timeline:\nstep 10\nrank 0  forward\nrank 1\n"
            "\n"
            "Details:\nall_gather block1\n1 MB came\n");
}

TEST(DrawnText, OfNothingIsNothing) { EXPECT_EQ(PrintTexts({}), ""); }

}  // namespace
}  // namespace shardscope::shell
