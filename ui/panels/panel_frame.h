// PanelFrame: what drawing a panel needs, for one frame. Panels add what they show.
#pragma once

#include <imgui.h>

#include <string_view>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/text.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {

struct PanelFrame {
  const ui::Context& context;
  const widgets::Look look;
  ui::DrawLog* log;
  ui::Commands* commands;

  const char* Tr(ui::Text text) const { return ui::Tr(context.language, text); }

  // Of the item that was added last.
  static ui::Box LastItem() {
    return widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  }
  void NoteItem(std::string_view id, std::string_view text) const {
    log->Text(id, text, LastItem());
  }
  // Tooltips stay out of pictures.
  void Tip(std::string_view title, std::string_view detail) const {
    if (!context.headless) widgets::ItemTooltip(look, title, detail);
  }

  void Say(std::string_view id, const widgets::TextStyle& style, std::string_view text) const {
    log->Text(id, text, widgets::Paragraph(look, style, text));
  }
  // Where the panel has nothing to show.
  void Empty(std::string_view text) const {
    log->Text("empty", text, widgets::EmptyState(look, text));
  }
  void Empty(ui::Text text) const { Empty(Tr(text)); }
};

}  // namespace shardscope::panels
