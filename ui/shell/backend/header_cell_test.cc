// Titles of columns as they are seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <string>
#include <vector>

#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/headless.h"
#include "ui/shell/backend/svg.h"
#include "ui/widgets/tables.h"

namespace shardscope::shell {
namespace {

// What is written of a table with two columns of these titles.
std::vector<std::string> TextsOf(const std::string& first, const std::string& second) {
  NullSurface surface(600, 300);
  DrawSharpEdges(true);
  for (int frame = 0; frame < 4; ++frame) {
    surface.BeginFrame();
    NewFrame();
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize({600, 100});
    ImGui::Begin("window", nullptr, ImGuiWindowFlags_NoDecoration);
    if (ImGui::BeginTable("table", 2, ImGuiTableFlags_SizingFixedFit)) {
      for (int column = 0; column < 2; ++column) {
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, 250);
      }
      ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
      for (const std::string& title : {first, second}) {
        if (ImGui::TableNextColumn()) widgets::HeaderCell(title);
      }
      ImGui::EndTable();
    }
    ImGui::End();
    ImGui::Render();
    surface.EndFrame();
  }
  std::vector<std::string> texts;
  for (const WrittenText& one : WrittenTextsOf(*ImGui::GetDrawData())) texts.push_back(one.text);
  return texts;
}

// Where ImGui ends what it shows of a label, and what it takes for a format.
TEST(HeaderCell, TitlesWithSignsOfImGuiAreSeenWhole) {
  const Gui gui;
  EXPECT_THAT(TextsOf("count ## of these", "100 %s"),
              testing::UnorderedElementsAre("count ## of these", "100 %s"));
  EXPECT_THAT(TextsOf("##", "##"), testing::UnorderedElementsAre("##", "##"));
}

}  // namespace
}  // namespace shardscope::shell
