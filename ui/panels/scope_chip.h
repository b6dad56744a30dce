// The chip with the steps that the figures beside it are of, which lets others be chosen: the same
// in every panel.
#pragma once

#include <imgui.h>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/scope.h"
#include "ui/text.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {

inline float ScopeChipWidth(const ui::Context& context) {
  return widgets::ChipMenuWidth(widgets::LookOf(context), ui::ScopeMenuOf(context).label);
}

// With figures only. Returns the chip's box.
inline ui::Box DrawScopeChip(const ui::Context& context, ImVec2 at, ui::DrawLog* log,
                             ui::Commands* commands) {
  const ui::ScopeMenu menu = ui::ScopeMenuOf(context);
  const widgets::ChipMenuResult result = widgets::DrawChipMenu(
      widgets::LookOf(context), "scope", at,
      {menu.label, menu.tip, ui::Tr(context.language, ui::Text::kScopeTipChoose), menu.options,
       menu.chosen});
  log->Text("scope", menu.label, result.box);
  if (result.clicked >= 0) commands->push_back(ui::ScopeOption(result.clicked));
  return result.box;
}

}  // namespace shardscope::panels
