#include "ui/panels/bookmarks/bookmarks_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "ui/link.h"
#include "ui/panels/panel_frame.h"
#include "ui/text.h"
#include "ui/timeline/link_place.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;
using ui::TrFormat;
using widgets::Look;

constexpr float kBookmarkHeight = 38;
constexpr float kActionGap = 14;
constexpr float kBookmarkPadding = 8;

// Where it is, in words; its text where that is no link.
std::string PlaceText(const ui::Context& context, const std::string& link) {
  const auto parsed = ui::ParseLink(link);
  const auto* place = std::get_if<ui::Link>(&parsed);
  return place == nullptr ? link : LinkLabel(context.language, *place);
}

bool IsInOtherPart(const ui::Context& context, const std::string& link) {
  const auto parsed = ui::ParseLink(link);
  const auto* place = std::get_if<ui::Link>(&parsed);
  return place != nullptr && timeline::StepInOtherPart(*context.snapshot, *place);
}

// When it is, from the start of the run.
std::string WhenText(const ui::Context& context, size_t at) {
  const std::optional<ui::BookmarkTimes>& times = context.bookmarks.times[at];
  if (IsInOtherPart(context, context.bookmarks.list->all[at].link)) {
    return Tr(context.language, Text::kBookmarkInOtherPart);
  }
  if (!times) return Tr(context.language, Text::kBookmarkNowhere);
  return ui::FormatMoment(*context.snapshot, times->start_ns);
}

// At the right of a bookmark, whether it is about to be removed or not.
float ActionsWidth(const Look& look, ui::Language language) {
  const auto width = [&](Text text) {
    return widgets::TextSize(look, widgets::DimOf(look), Tr(language, text)).x;
  };
  return width(Text::kBookmarkEdit) + width(Text::kBookmarkCopy) +
         std::max(width(Text::kBookmarkRemove), width(Text::kBookmarkReallyRemove)) +
         look.Px(2 * kActionGap + kBookmarkPadding);
}

}  // namespace

void BookmarksPanel::DrawHeader(const ui::Context& context, ui::DrawLog* log,
                                ui::Commands* commands) const {
  const Look look = widgets::LookOf(context);
  const ui::BookmarkList& list = *context.bookmarks.list;
  if (widgets::Button(look, "add", Tr(context.language, Text::kBookmarkAdd))) {
    commands->push_back(ui::AddBookmark{});
  }
  ImGui::SameLine(0, look.Px(12));
  if (!list.problem.empty()) {
    widgets::TextStyle style = widgets::TextOf(look);
    style.color = look.theme.state.bad;
    const Text text = list.unsaved > 0 ? Text::kBookmarksNotKept : Text::kBookmarksUnread;
    const std::string problem = TrFormat(context.language, text, list.problem);
    log->Text("problem", problem, widgets::Paragraph(look, style, problem));
  } else {
    const std::string kept = list.file.empty()
                                 ? Tr(context.language, Text::kBookmarksInMemory)
                                 : TrFormat(context.language, Text::kBookmarksIn, list.file);
    log->Text("file", kept, widgets::Paragraph(look, widgets::FaintOf(look), kept));
  }
  widgets::Gap(look, 6);
}

// In a row from the cursor on.
void BookmarksPanel::DrawActions(const ui::Context& context, const std::string& id,
                                 ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const auto link = [&](const char* name, Text text) {
    return widgets::LinkText(look, fmt::format("{}:{}", name, id).c_str(),
                             Tr(context.language, text));
  };
  if (link("edit", Text::kBookmarkEdit)) commands->push_back(ui::EditBookmark{id});
  ImGui::SameLine(0, look.Px(kActionGap));
  if (link("copy", Text::kBookmarkCopy)) commands->push_back(ui::CopyBookmark{id});
  ImGui::SameLine(0, look.Px(kActionGap));
  const bool really = removing_ == id;
  if (link("remove", really ? Text::kBookmarkReallyRemove : Text::kBookmarkRemove)) {
    if (really) commands->push_back(ui::RemoveBookmark{id});
    removing_ = really ? "" : id;
  } else if (really && ImGui::IsMouseClicked(ImGuiMouseButton_Left) && !ImGui::IsItemHovered()) {
    removing_.clear();
  }
}

void BookmarksPanel::DrawBookmark(const ui::Context& context, size_t at, ui::DrawLog* log,
                                  ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const bookmarks::Bookmark& bookmark = context.bookmarks.list->all[at];
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const float height = look.Px(kBookmarkHeight);
  const float width = widgets::ContentWidth() - ActionsWidth(look, context.language);
  ImGui::PushID(static_cast<int>(at));
  if (widgets::ClickArea("go", {width, height})) {
    const auto link = ui::ParseLink(bookmark.link);
    if (const auto* parsed = std::get_if<ui::Link>(&link)) {
      commands->push_back(ui::GoToLink{*parsed});
    }
  }
  widgets::ItemGround(look, look.theme.surface.raised);
  widgets::ItemTooltip(look, bookmark.note.empty() ? bookmark.link : bookmark.note,
                       bookmark.note.empty() ? "" : bookmark.link);
  const float pad = look.Px(kBookmarkPadding);
  const std::string place = PlaceText(context, bookmark.link);
  const std::string& title = bookmark.note.empty() ? place : bookmark.note;
  const ui::Box box = widgets::DrawTextClipped(
      look, widgets::BoldOf(look), {top.x + pad, top.y + look.Px(3)}, width - 2 * pad, title);
  const std::string detail = fmt::format("{} · {}", place, WhenText(context, at));
  widgets::DrawTextClipped(look, widgets::DimOf(look), {top.x + pad, top.y + look.Px(20)},
                           width - 2 * pad, detail);
  log->Text("bookmark:" + bookmark.id, title + "\n" + detail, box);
  ImGui::SetCursorScreenPos({top.x + width, top.y + look.Px(11)});
  DrawActions(context, bookmark.id, commands);
  ImGui::SetCursorScreenPos({top.x, top.y + height});
  ImGui::Dummy({0, 0});
  ImGui::PopID();
}

void BookmarksPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  widgets::Gap(look, 4);
  const PanelFrame frame{context, look, log, commands};
  if (context.snapshot == nullptr) return frame.Empty(Text::kNoRunOpen);
  if (context.bookmarks.list == nullptr) return;  // for the moment until they have been read
  DrawHeader(context, log, commands);
  const size_t count = context.bookmarks.list->all.size();
  if (count == 0 && context.bookmarks.list->problem.empty()) {
    return frame.Empty(Text::kBookmarksEmpty);
  }
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
  if (ImGui::BeginChild("bookmarks", {}, ImGuiChildFlags_NavFlattened)) {
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(count), look.Px(kBookmarkHeight));
    while (clipper.Step()) {
      for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) {
        DrawBookmark(context, static_cast<size_t>(at), log, commands);
      }
    }
  }
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

ui::TableMaker BookmarksPanel::AsTable(const ui::Context& context) const {
  if (context.bookmarks.list == nullptr) return nullptr;
  return [list = context.bookmarks.list] {
    ui::Table table{{"note", "link", "made"}, {}};
    for (const bookmarks::Bookmark& one : list->all) {
      table.rows.push_back({one.note, one.link, one.made});
    }
    return table;
  };
}

}  // namespace shardscope::panels
