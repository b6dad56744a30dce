// A drop-down as it is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <string>
#include <vector>

#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/headless.h"
#include "ui/shell/backend/svg.h"
#include "ui/theme.h"
#include "ui/widgets/fields.h"

namespace shardscope::shell {
namespace {

using testing::ElementsAre;

class ChoiceTest : public testing::Test {
 protected:
  void Draw() {
    const widgets::Look look{theme_, gui_.fonts().fonts};
    for (int frame = 0; frame < 4; ++frame) {
      surface_.BeginFrame();
      NewFrame();
      ImGui::SetNextWindowPos({0, 0});
      ImGui::SetNextWindowSize({300, 100});
      ImGui::Begin("window", nullptr, ImGuiWindowFlags_NoDecoration);
      widgets::Choice(look, "##choice", options_, &chosen_);
      ImGui::End();
      ImGui::Render();
      surface_.EndFrame();
    }
  }
  void Click(float x, float y) {
    ImGui::GetIO().AddMousePosEvent(x, y);
    Draw();
    ImGui::GetIO().AddMouseButtonEvent(0, true);
    Draw();
    ImGui::GetIO().AddMouseButtonEvent(0, false);
    Draw();
  }
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const WrittenText& one : WrittenTextsOf(*ImGui::GetDrawData())) texts.push_back(one.text);
    return texts;
  }

  const Gui gui_;
  const ui::Theme theme_{};
  NullSurface surface_{400, 300};
  const std::vector<std::string> options_ = {"one ## of these", "two ## of these", "##"};
  int chosen_ = 0;
};

// Where ImGui ends what it shows of a label.
TEST_F(ChoiceTest, OptionsWithTwoSignsAreSeenWholeAndAreOptionsOfTheirOwn) {
  DrawSharpEdges(true);
  Draw();
  EXPECT_THAT(Texts(), ElementsAre("one ## of these"));
  Click(60, 16);
  ASSERT_THAT(Texts(), ElementsAre("one ## of these", "one ## of these", "two ## of these", "##"));
  const ui::Box second = WrittenTextsOf(*ImGui::GetDrawData())[2].box;
  Click((second.x0 + second.x1) / 2, (second.y0 + second.y1) / 2);
  EXPECT_EQ(chosen_, 1);
  EXPECT_THAT(Texts(), ElementsAre("two ## of these"));
}

}  // namespace
}  // namespace shardscope::shell
