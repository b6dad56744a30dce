#include "ui/shell/drawn_text.h"

#include <gtest/gtest.h>

namespace shardscope::shell {
namespace {

TEST(DrawnText, StandsByPanelFromTopToBottomAndFromLeftToRight) {
  ui::DrawLog log(/*enabled=*/true);
  log.SetPanel("details");
  log.Text("title", "all_gather block1", {1200, 60, 1300, 80});
  log.SetPanel("timeline");
  log.Text("rank", "rank 1", {0, 200, 40, 220});
  log.Int("map", "", 3, "", {0, 70, 1100, 90});  // without a text
  log.Text("name", "F block0\nforward", {300, 103, 400, 120});
  log.Text("rank", "rank 0", {0, 100, 40, 120});
  log.SetPanel("top_bar");
  log.Text("state", "LIVE", {10, 5, 50, 25});
  log.SetPanel("details");
  log.Int("came", "1 MB came, 2 MB went", 1, "B", {1200, 90, 1300, 110});
  log.Int("went", "1 MB came, 2 MB went", 2, "B", {1200, 90, 1300, 110});  // likewise
  EXPECT_EQ(PrintDrawnTexts(log),
            "top_bar:\nLIVE\n"
            "\n"
            "timeline:\nrank 0  F block0 forward\nrank 1\n"
            "\n"
            "details:\nall_gather block1\n1 MB came, 2 MB went\n");
}

TEST(DrawnText, OfNothingIsNothing) { EXPECT_EQ(PrintDrawnTexts(ui::DrawLog()), ""); }

}  // namespace
}  // namespace shardscope::shell
