#include "ui/panels/timeline/flags.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "ui/link.h"
#include "ui/text.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

constexpr float kFlagWidth = 9;
constexpr float kFlagHeight = 8;
constexpr size_t kMostNotes = 4;  // of flags on the same pixels, in one tooltip

// A bookmark in view.
struct Flag {
  float x = 0;      // of its pole
  float end_x = 0;  // of what it marks
  size_t at = 0;    // of the list
};

std::vector<Flag> FlagsInView(const ui::Bookmarks& bookmarks, const timeline::Axis& axis) {
  std::vector<Flag> flags;
  for (size_t at = 0; at < bookmarks.times.size(); ++at) {
    const auto& times = bookmarks.times[at];
    if (!times || times->end_ns < axis.range().start_ns || times->start_ns > axis.range().end_ns) {
      continue;
    }
    const float x = std::max(axis.X(times->start_ns), axis.left());
    flags.push_back({std::round(x), std::min(axis.X(times->end_ns), axis.right()), at});
  }
  std::ranges::stable_sort(flags, {}, &Flag::x);
  return flags;
}

void DrawFlag(const widgets::Look& look, const Flag& flag, const ui::Box& box) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ui::Color color = look.theme.state.accent;
  if (flag.end_x > flag.x + look.Px(2)) {
    list->AddRectFilled({flag.x, box.y1 - look.Px(2)}, {flag.end_x, box.y1},
                        ui::WithAlpha(color, 0.6F));
  }
  list->AddRectFilled({flag.x, box.y0}, {flag.x + look.Px(1.5F), box.y1}, color);
  list->AddTriangleFilled({flag.x, box.y0}, {flag.x + look.Px(kFlagWidth), box.y0 + look.Px(4)},
                          {flag.x, box.y0 + look.Px(kFlagHeight)}, color);
}

}  // namespace

void DrawFlags(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box,
               ui::DrawLog* log, ui::Commands* commands) {
  if (context.bookmarks.list == nullptr || context.bookmarks.times.empty()) return;
  const widgets::Look look = widgets::LookOf(context);
  const std::vector<Flag> flags = FlagsInView(context.bookmarks, axis);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  // The ruler beneath, in which a drag marks a stretch, is the active item meanwhile.
  const bool is_over_window =
      !context.headless && ImGui::IsWindowHovered(ImGuiHoveredFlags_AllowWhenBlockedByActiveItem);
  const bool is_clicked =
      ImGui::IsMouseReleased(ImGuiMouseButton_Left) &&
      std::fabs(ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 0).x) < look.Px(kFlagWidth) / 2;
  std::string notes;
  size_t num_notes = 0;
  float drawn_x = -1;
  for (const Flag& flag : flags) {
    const bookmarks::Bookmark& bookmark = context.bookmarks.list->all[flag.at];
    const ui::Box area{flag.x - look.Px(1), box.y0, flag.x + look.Px(kFlagWidth + 1), box.y1};
    if (flag.x != drawn_x) {
      DrawFlag(look, flag, box);
      log->Text("flag:" + bookmark.id, bookmark.note, area);
    }
    drawn_x = flag.x;
    const bool is_hovered = is_over_window && mouse.x >= area.x0 && mouse.x < area.x1 &&
                            mouse.y >= area.y0 && mouse.y < area.y1;
    if (!is_hovered) continue;
    const auto link = ui::ParseLink(bookmark.link);
    const auto* parsed = std::get_if<ui::Link>(&link);
    if (num_notes++ < kMostNotes) {
      if (!notes.empty()) notes += "\n";
      notes += !bookmark.note.empty() ? bookmark.note
               : parsed != nullptr    ? LinkLabel(context.language, *parsed)
                                      : bookmark.link;
    }
    if (num_notes == 1 && parsed != nullptr && is_clicked) {
      commands->push_back(ui::GoToLink{*parsed});
    }
  }
  if (notes.empty()) return;
  log->Text("flag_note", notes, widgets::Tooltip(look, notes, "", look.theme.surface.line));
}

}  // namespace shardscope::panels
