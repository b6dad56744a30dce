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

TEST(DrawnText, TellsWhichChoiceIsOnAndWhichIsAskedFor) {
  ui::DrawLog widgets(true);
  widgets.Text("segment:off", "off", {100, 10, 140, 34});
  widgets.Text("asked_for:off", "off", {100, 10, 140, 34});
  widgets.Text("chosen:on", "on", {142, 10, 182, 34});
  widgets.Text("chosen:all", "all-gather and reduce-scatter", {100, 50, 182, 90});
  const std::vector<WrittenText> texts = {{{110, 15, 130, 29}, "Run###run", "off"},
                                          {{150, 15, 170, 29}, "Run###run", "on"},
                                          {{190, 15, 210, 29}, "Run###run", "on"},
                                          {{100, 52, 180, 66}, "Run###run", "all-gather…"},
                                          {{100, 72, 180, 86}, "Run###run", "reduce-scatter"}};
  EXPECT_EQ(PrintTexts(texts, RemarksOf(widgets, ui::Language::kEnglish)),
            "Run:\noff (asked for)  on (chosen)  on\nall-gather and reduce-scatter (chosen)\n"
            "reduce-scatter\n");
  EXPECT_EQ(PrintTexts({texts[1]}, RemarksOf(widgets, ui::Language::kChinese)),
            "Run:\non（已选）\n");
}

TEST(DrawnText, OfNothingIsNothing) { EXPECT_EQ(PrintTexts({}), ""); }

}  // namespace
}  // namespace shardscope::shell
