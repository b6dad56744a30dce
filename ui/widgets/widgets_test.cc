#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ui/commands.h"
#include "ui/theme.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/legend.h"
#include "ui/widgets/line_breaks.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::widgets {
namespace {

TEST(Look, EveryTextReadsOnWhatItStandsOnInBothThemes) {
  for (const ui::ThemeName name : {ui::ThemeName::kDark, ui::ThemeName::kLight}) {
    const ui::Theme& theme = ui::GetTheme(name);
    const Look look{theme, {}};
    for (const TextStyle& style :
         {TextOf(look), DimOf(look), FaintOf(look), BoldOf(look), MonoOf(look)}) {
      for (const Color ground : {theme.surface.window, theme.surface.panel, theme.surface.raised,
                                 theme.surface.button}) {
        EXPECT_GE(ui::Contrast(style.color, ground), 4.5);
      }
    }
  }
}

TEST(Look, EveryTextReadsOnItsButtonInBothThemes) {
  for (const ui::ThemeName name : {ui::ThemeName::kDark, ui::ThemeName::kLight}) {
    const ui::Theme& theme = ui::GetTheme(name);
    std::vector<ButtonColors> colors;
    for (const bool hovered : {false, true}) {
      for (const Emphasis emphasis : {Emphasis::kQuiet, Emphasis::kPrimary}) {
        colors.push_back(ColorsOfButton(theme, emphasis, {.hovered = hovered}));
      }
      for (const bool chosen : {false, true}) {
        colors.push_back(ColorsOfSegment(theme, {.hovered = hovered, .chosen = chosen}));
      }
    }
    colors.push_back(ColorsOfSegment(theme, {.enabled = false, .chosen = true}));
    for (const ButtonColors& one : colors) {
      EXPECT_GE(ui::Contrast(one.text, one.ground), 4.5) << std::hex << one.ground;
    }
    // The mouse is seen, and what is in force.
    for (const Emphasis emphasis : {Emphasis::kQuiet, Emphasis::kPrimary}) {
      EXPECT_NE(ColorsOfButton(theme, emphasis, {}).ground,
                ColorsOfButton(theme, emphasis, {.hovered = true}).ground);
    }
    EXPECT_NE(ColorsOfSegment(theme, {.enabled = false}).ground,
              ColorsOfSegment(theme, {.enabled = false, .chosen = true}).ground);
  }
}

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

bool Overlap(const ui::Box& a, const ui::Box& b) {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

TEST(Legend, EntriesFillLinesFromTheLeftTop) {
  const ui::Theme theme{};
  const Look look{theme, {}};
  const std::vector<float> widths = {40, 40, 40};
  const LegendPlaces line = PlaceLegend(look, widths, {10, 20, 300, 38}, 18, 10);
  ASSERT_EQ(line.entries.size(), 3U);
  EXPECT_EQ(line.entries[2].x, 110);
  EXPECT_EQ(line.entries[2].y, 20);
  EXPECT_EQ(line.bottom, 38);
  const LegendPlaces lines = PlaceLegend(look, widths, {10, 20, 105, 100}, 18, 10);
  ASSERT_EQ(lines.entries.size(), 3U);
  EXPECT_EQ(lines.entries[1].x, 60);
  EXPECT_EQ(lines.entries[2].x, 10);
  EXPECT_EQ(lines.entries[2].y, 38);
  EXPECT_EQ(lines.bottom, 56);
}

TEST(Tooltip, IsWhollyInTheWindowAndClearOfMouseAndCallout) {
  const ui::Box window{0, 0, 1600, 900};
  const ImVec2 size(300, 60);
  for (const float x : {0.0F, 400.0F, 800.0F, 1590.0F}) {
    for (const float y : {0.0F, 300.0F, 890.0F}) {
      for (const float callout_x : {x - 120, x - 10, x + 20}) {
        for (const float callout_y : {y - 40, y + 10, y + 25}) {
          const ui::Box callout{callout_x, callout_y, callout_x + 130, callout_y + 42};
          const ImVec2 at = PlaceTooltip({x, y}, 14, size, window, {&callout, 1});
          const ui::Box box{at.x, at.y, at.x + size.x, at.y + size.y};
          EXPECT_GE(box.x0, window.x0);
          EXPECT_GE(box.y0, window.y0);
          EXPECT_LE(box.x1, window.x1);
          EXPECT_LE(box.y1, window.y1);
          EXPECT_FALSE(Overlap(box, callout)) << x << " " << y << " " << callout_x << callout_y;
          EXPECT_FALSE(Overlap(box, {x, y, x + 1, y + 1}));
        }
      }
    }
  }
  // With nothing in the way: right under the mouse.
  const ImVec2 at = PlaceTooltip({400, 300}, 14, size, window, {});
  EXPECT_GT(at.x, 400);
  EXPECT_GT(at.y, 300);
  EXPECT_LT(at.x, 430);
  EXPECT_LT(at.y, 330);
}

// As wide as it has characters.
float CharactersOf(std::string_view text) {
  return static_cast<float>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(LineBreaks, ChineseBreaksBetweenAnyTwoCharactersAndWordsAtSpaces) {
  EXPECT_EQ(BreakLines("计算等待通信", 3, CharactersOf), "计算等\n待通信");
  EXPECT_EQ(BreakLines("等待 all-gather 之后", 11, CharactersOf), "等待 \nall-gather \n之后");
  EXPECT_EQ(BreakLines("等待 abc 之后", 6, CharactersOf), "等待 abc \n之后");
  EXPECT_EQ(BreakLines("短\n计算等待", 3, CharactersOf), "短\n计算等\n待");
  EXPECT_EQ(BreakLines("all-gather", 3, CharactersOf), "all-gather");
  EXPECT_EQ(BreakLines("", 3, CharactersOf), "");
}

TEST(LineBreaks, WordsOfLatinAreWholeAndNumbersKeepTheirUnits) {
  EXPECT_EQ(BreakLines("turn prefetch.backward_depth", 12, CharactersOf),
            "turn \nprefetch.backward_depth");
  EXPECT_EQ(BreakLines("one two three", 7, CharactersOf), "one two \nthree");
  EXPECT_EQ(BreakLines("it takes 13.9 ms a step", 11, CharactersOf), "it takes \n13.9 ms a \nstep");
  EXPECT_EQ(BreakLines("step 3 made it", 7, CharactersOf), "step 3 \nmade it");
  EXPECT_EQ(BreakLines("等待 7 \xC2\xB5s。", 6, CharactersOf), "等待 \n7 \xC2\xB5s。");
}

TEST(LineBreaks, NoLineBeginsWithWhatClosesOrEndsWithWhatOpens) {
  EXPECT_EQ(BreakLines("计算等，待", 3, CharactersOf), "计算\n等，待");
  EXPECT_EQ(BreakLines("计算（等）", 3, CharactersOf), "计算\n（等）");
  EXPECT_EQ(BreakLines("计算等, 待 (2)", 3, CharactersOf), "计算\n等, \n待 \n(2)");
  EXPECT_EQ(BreakLines("显存占5%", 4, CharactersOf), "显存占\n5%");
}

}  // namespace
}  // namespace shardscope::widgets
