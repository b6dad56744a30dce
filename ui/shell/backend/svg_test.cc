// Frames as SVG: text is text where it was drawn, shapes are closed paths in their colour.
#include "ui/shell/backend/svg.h"

#include <gmock/gmock.h>
#include <imgui.h>

#include <functional>
#include <string>

#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/headless.h"

namespace shardscope::shell {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr ImU32 kRed = IM_COL32(255, 0, 0, 255);

std::string SvgOfFrame(const Gui& gui, const std::function<void(ImDrawList*, ui::Fonts)>& draw) {
  NullSurface surface(400, 200);
  DrawSharpEdges(true);
  for (int frame = 0; frame < 2; ++frame) {
    surface.BeginFrame();
    ImGui::NewFrame();
    draw(ImGui::GetForegroundDrawList(), gui.fonts().fonts);
    ImGui::Render();
    surface.EndFrame();
  }
  return SvgOf(*ImGui::GetDrawData(), "a <test>");
}

TEST(Svg, TextIsOneTextWithItsSpacesPlaceAndSize) {
  const Gui gui;
  const std::string svg = SvgOfFrame(gui, [](ImDrawList* list, const ui::Fonts& fonts) {
    list->AddText(fonts.text, 20, {40, 30}, kRed, "all_gather of <layers.1> & co");
  });
  EXPECT_THAT(svg, HasSubstr(">all_gather of &lt;layers.1&gt; &amp; co</text>"));
  EXPECT_THAT(svg, HasSubstr("fill=\"#ff0000\" x=\"40\""));
  EXPECT_THAT(svg, HasSubstr("font-family=\"Roboto,"));
  EXPECT_THAT(svg, HasSubstr("font-size=\"17.06\""));  // 20 pixels a line
  EXPECT_THAT(svg, HasSubstr("<title>a &lt;test&gt;</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("role=")));  // as "img" its texts would not be read out
  EXPECT_THAT(svg, Not(HasSubstr("<path")));
}

TEST(Svg, TextsOfOtherFontsColoursAndLinesAreTextsOfTheirOwn) {
  const Gui gui;
  const std::string svg = SvgOfFrame(gui, [](ImDrawList* list, const ui::Fonts& fonts) {
    list->AddText(fonts.text, 20, {40, 30}, kRed, "one\ntwo");
    list->AddText(fonts.bold, 20, {140, 30}, kRed, "bold");
    list->AddText(fonts.mono, 20, {240, 30}, IM_COL32(0, 0, 255, 128), "1.25 ms");
  });
  for (const char* text : {">one<", ">two<", ">bold<", ">1.25 ms<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, HasSubstr("font-weight=\"bold\""));
  EXPECT_THAT(svg, HasSubstr("fill=\"#0000ff\" fill-opacity=\"0.502\""));
  EXPECT_THAT(svg, HasSubstr("font-family=\"JetBrains Mono,"));
}

TEST(Svg, TextThatIsCutOffStaysWhereItBegins) {
  const Gui gui;
  const std::string svg = SvgOfFrame(gui, [](ImDrawList* list, const ui::Fonts& fonts) {
    const ImVec4 clip(0, 0, 60, 200);
    list->AddText(fonts.text, 20, {40, 30}, kRed, "reduce", nullptr, 0, &clip);
  });
  EXPECT_THAT(svg, HasSubstr("x=\"40\""));
  EXPECT_THAT(svg, HasSubstr(">re"));
}

TEST(Svg, TextsAreThoseThatCanBeSeenWithTheirPlaceAndWindow) {
  const Gui gui;
  std::vector<WrittenText> texts;
  SvgOfFrame(gui, [](ImDrawList* list, const ui::Fonts& fonts) {
    list->AddText(fonts.text, 20, {40, 30}, kRed, "all_gather block1");
    list->PushClipRect({0, 0}, {100, 100});
    list->AddText(fonts.text, 20, {40, 85}, kRed, "in part");
    list->PopClipRect();
  });
  texts = WrittenTextsOf(*ImGui::GetDrawData());
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].text, "all_gather block1");
  EXPECT_EQ(texts[0].window, "##Foreground");
  EXPECT_EQ(texts[0].box.x0, 40);
  EXPECT_NEAR(texts[0].box.y0, 30, 3);
  EXPECT_NEAR(texts[0].box.y1, 50, 3);
  EXPECT_EQ(texts[1].text, "in part");
}

TEST(Svg, ShapesAreClosedPathsInTheClipOfTheirCommand) {
  const Gui gui;
  const std::string svg = SvgOfFrame(gui, [](ImDrawList* list, const ui::Fonts&) {
    list->PushClipRect({5, 6}, {105, 86});
    list->AddRectFilled({10, 20}, {30, 50}, kRed);
    list->AddRectFilled({40, 20}, {60, 50}, IM_COL32(0, 0, 0, 0));  // nothing to see
    list->PopClipRect();
    list->AddTriangleFilled({210, 20}, {230, 20}, {220, 50}, kRed);
  });
  EXPECT_THAT(svg, HasSubstr("<path fill=\"#ff0000\" d=\"M10 20L30 20L30 50L10 50Z\"/>"));
  EXPECT_THAT(svg, HasSubstr("d=\"M210 20L230 20L220 50Z\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"5\" y=\"6\" width=\"100\" height=\"80\"/>"));
  size_t paths = 0;
  for (size_t at = svg.find("<path"); at != std::string::npos; at = svg.find("<path", at + 1)) {
    ++paths;
  }
  EXPECT_EQ(paths, 2u);
}

}  // namespace
}  // namespace shardscope::shell
