// Which clicks into the list of what would change the peak count.
#include "ui/panels/blocks/choices_list.h"

#include <gtest/gtest.h>

namespace shardscope::panels {
namespace {

constexpr ui::Box kFirstRow = {0, 0, 200, 40};
constexpr ui::Box kSecondRow = {0, 40, 200, 80};

TEST(ClickedRow, WhatComesUnderAMouseThatStaysIsNotClicked) {
  ClickedRow clicked;
  clicked.MouseAt(50, 20, false);
  EXPECT_TRUE(clicked.Takes("a=1", kFirstRow));
  clicked.MouseAt(52, 21, false);
  EXPECT_FALSE(clicked.Takes("b=1", kFirstRow));  // which the answer put there
  EXPECT_TRUE(clicked.Takes("a=1", kFirstRow));   // the same again
  clicked.MouseAt(52, 60, false);                 // another row
  EXPECT_TRUE(clicked.Takes("c=1", kSecondRow));
  clicked.MouseAt(52, 60, false);
  EXPECT_FALSE(clicked.Takes("a=1", kSecondRow));
}

TEST(ClickedRow, ItIsOnceTheMouseHasLeftOrTheListIsScrolled) {
  ClickedRow clicked;
  EXPECT_TRUE(clicked.Takes("a=1", kFirstRow));
  clicked.MouseAt(50, 60, false);
  clicked.MouseAt(50, 20, false);
  EXPECT_TRUE(clicked.Takes("b=1", kFirstRow));
  clicked.MouseAt(50, 20, true);
  EXPECT_TRUE(clicked.Takes("c=1", kFirstRow));
}

}  // namespace
}  // namespace shardscope::panels
