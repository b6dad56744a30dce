#include "ui/panels/overlays/bookmark_form.h"

#include <imgui.h>

#include <algorithm>
#include <variant>

#include "trace/base/text.h"
#include "ui/link.h"
#include "ui/text.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/keys.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {

void DrawBookmarkForm(const ui::Context& context, std::string* note, ui::DrawLog* log,
                      ui::Commands* commands) {
  using ui::Text;
  if (!context.bookmarks.form) return;
  const widgets::Look look = widgets::LookOf(context);
  const bookmarks::Bookmark& bookmark = *context.bookmarks.form;
  if (ImGui::IsWindowAppearing()) *note = bookmark.note;
  const char* title =
      ui::Tr(context.language, bookmark.id.empty() ? Text::kBookmarkNew : Text::kBookmarkChange);
  log->Text("title", title, widgets::Heading(look, title));
  const auto parsed = ui::ParseLink(bookmark.link);
  const auto* link = std::get_if<ui::Link>(&parsed);
  const std::string place = link == nullptr ? bookmark.link : LinkLabel(context.language, *link);
  log->Text("place", place, widgets::Paragraph(look, widgets::DimOf(look), place));
  const bool is_long = note->size() > bookmarks::kMostNoteBytes;
  widgets::TextField(look, "##note", note,
                     {.hint = ui::Tr(context.language, Text::kBookmarkHint), .invalid = is_long});
  if (is_long) {
    widgets::TextStyle style = widgets::DimOf(look);
    style.color = look.theme.state.bad;
    const std::string error =
        ui::TrFormat(context.language, Text::kBookmarkTooLong, bookmarks::kMostNoteBytes);
    log->Text("error", error, widgets::Paragraph(look, style, error));
  }
  widgets::Gap(look, 6);
  const bool kept = widgets::Button(look, "keep", ui::Tr(context.language, Text::kBookmarkKeep),
                                    widgets::Emphasis::kPrimary, 0, !is_long);
  ImGui::SameLine(0, look.Px(ui::kGrid));
  const bool left = widgets::Button(look, "cancel", ui::Tr(context.language, Text::kCancel));
  if ((kept || (widgets::PressesEnter() && !left)) && !is_long) {
    std::string text(Trim(*note));
    // A paste may have lines; a note is one.
    std::ranges::replace(text, '\n', ' ');
    commands->push_back(ui::KeepBookmark{text});
  }
  if (left) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
