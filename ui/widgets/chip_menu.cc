#include "ui/widgets/chip_menu.h"

#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::widgets {
namespace {

constexpr float kArrowRoom = 12;

}  // namespace

float ChipMenuWidth(const Look& look, std::string_view label) {
  return ChipWidth(look, label, {.room_right = kArrowRoom});
}

ChipMenuResult DrawChipMenu(const Look& look, const char* id, ImVec2 at, const ChipMenu& menu) {
  ChipMenuResult result;
  result.box = DrawChip(look, at, menu.label, {.room_right = kArrowRoom});
  const float middle = (result.box.y0 + result.box.y1) / 2;
  DrawMenuArrow(look, {result.box.x1 - look.Px(kArrowRoom), middle});
  ImGui::PushID(id);
  ImGui::SetCursorScreenPos({result.box.x0, result.box.y0});
  if (ImGui::InvisibleButton("chip",
                             {result.box.x1 - result.box.x0, result.box.y1 - result.box.y0})) {
    ImGui::OpenPopup("options");
  }
  ItemTooltip(look, menu.tip, menu.tip_detail);
  if (ImGui::BeginPopup("options")) {
    for (size_t i = 0; i < menu.options.size(); ++i) {
      const int option = static_cast<int>(i);
      if (ImGui::Selectable(menu.options[i].c_str(), option == menu.chosen)) {
        result.clicked = option;
      }
      LogControl(look, "option", menu.options[i], menu.options[i]);
    }
    ImGui::EndPopup();
  }
  ImGui::PopID();
  return result;
}

}  // namespace shardscope::widgets
