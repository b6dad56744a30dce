#include "ui/panels/blocks/blocks_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "trace/base/units.h"
#include "ui/blocks.h"
#include "ui/memory_choices.h"
#include "ui/panels/blocks/treemap.h"
#include "ui/panels/panel_frame.h"
#include "ui/text.h"
#include "ui/theme.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using query::LiveBlock;
using ui::Text;
using widgets::Look;

constexpr float kBlockRowHeight = 34;
constexpr float kMostMapShare = 0.42F;  // of the room that there is
constexpr float kMostMapHeight = 260;
constexpr float kBlockSwatch = 10;
constexpr float kLeastLabelled = 17;  // high

// "activation  block0.mlp".
std::string TitleOf(ui::Language language, const LiveBlock& block) {
  const std::string category = ui::MemoryCategoryName(language, block.category);
  return block.unit.empty() ? category : category + "  " + block.unit;
}

std::string DetailOf(ui::Language language, const LiveBlock& block, int64_t at_ns) {
  std::string detail =
      TrFormat(language, Text::kBlocksFrom, ui::AllocatedText(language, block, at_ns)) + "\n" +
      TrFormat(language, Text::kBlocksUntil, ui::FreedText(language, block, at_ns));
  if (block.came) detail += std::string("\n") + Tr(language, Text::kBlocksCame);
  if (!block.stack.empty()) detail += "\n" + block.stack;
  return detail;
}

// Those of a category side by side, the largest first; the host's have none.
std::vector<ui::Box> TilesOf(const std::vector<LiveBlock>& blocks, const ui::Box& box) {
  std::map<query::MemoryCategory, std::vector<size_t>> members;
  std::map<query::MemoryCategory, int64_t> sums;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].category == query::MemoryCategory::kHost) continue;
    members[blocks[i].category].push_back(i);
    sums[blocks[i].category] += blocks[i].bytes;
  }
  std::vector<std::pair<int64_t, query::MemoryCategory>> order;
  for (const auto& [category, bytes] : sums) order.emplace_back(bytes, category);
  std::sort(order.rbegin(), order.rend());
  std::vector<int64_t> weights;
  for (const auto& [bytes, category] : order) weights.push_back(bytes);
  const std::vector<ui::Box> groups = Treemap(weights, box);
  std::vector<ui::Box> tiles(blocks.size(), {box.x0, box.y0, box.x0, box.y0});
  for (size_t group = 0; group < order.size(); ++group) {
    const std::vector<size_t>& of_group = members[order[group].second];
    weights.clear();
    for (const size_t i : of_group) weights.push_back(blocks[i].bytes);
    const std::vector<ui::Box> inside = Treemap(weights, groups[group]);
    for (size_t i = 0; i < of_group.size(); ++i) tiles[of_group[i]] = inside[i];
  }
  return tiles;
}

}  // namespace

struct BlocksPanel::Frame {
  const ui::Context& context;
  Look look;
  const query::LiveBlocks& blocks;
  ui::DrawLog* log;
  ui::Commands* commands;

  const char* Tr(Text text) const { return ui::Tr(context.language, text); }
  int64_t at_ns() const { return blocks.asked.at_ns; }
  void Jump(const LiveBlock& block) const {
    const ui::Commands jump = ui::ShowAllocation(*context.snapshot, blocks.asked.rank, block);
    commands->insert(commands->end(), jump.begin(), jump.end());
  }
};

void BlocksPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const auto empty = [&](const std::string& text) {
    PanelFrame{context, look, log, commands}.Empty(text);
  };
  if (context.snapshot == nullptr) return empty(Tr(context.language, Text::kBlocksEmpty));
  if (!ui::IsRecordedProgram(context)) DrawChoice(context, commands);
  if (context.blocks.shows_choices && !ui::IsRecordedProgram(context)) {
    if (context.blocks.choices == nullptr) return empty(Tr(context.language, Text::kChoicesMaking));
    return DrawMemoryChoices(context, *context.blocks.choices, &clicked_choice_, log, commands);
  }
  if (context.place != ui::RunPlace::kThere) {
    return empty(ui::RunPlaceText(context.language, context.place));
  }
  if (context.blocks.answer == nullptr) {
    const bool may_come = context.report == nullptr || ui::WantedBlocks(context).has_value();
    return empty(Tr(context.language, may_come ? Text::kBlocksReading : Text::kBlocksNone));
  }
  if (!context.blocks.answer->ok()) return empty(context.blocks.answer->message());
  const Frame frame{context, look, **context.blocks.answer, log, commands};
  DrawHead(frame);
  DrawTreemap(frame);
  if (ImGui::BeginChild("list", {}, ImGuiChildFlags_NavFlattened)) {
    DrawList(frame, "block", frame.blocks.live);
    if (!frame.blocks.gone.empty()) {
      widgets::FaintHeading(look, frame.Tr(Text::kBlocksGone));
      DrawList(frame, "gone", frame.blocks.gone);
    }
  }
  ImGui::EndChild();
}

// Of the blocks of a moment and of what would change the peak.
void BlocksPanel::DrawChoice(const ui::Context& context, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  widgets::Gap(look, 2);
  const int clicked =
      widgets::Segmented(look, "shown",
                         {.options = {ui::Tr(context.language, Text::kBlocksOfMoment),
                                      ui::Tr(context.language, Text::kBlocksChoices)},
                          .chosen = context.blocks.shows_choices ? 1 : 0});
  if (clicked >= 0) commands->push_back(ui::ShowMemoryChoices{clicked == 1});
  widgets::Gap(look, 4);
}

void BlocksPanel::DrawHead(const Frame& frame) const {
  const ui::Language language = frame.context.language;
  DrawRanks(frame);
  const std::string live = TrFormat(language, Text::kBlocksLive,
                                    FormatBytes(frame.blocks.live_bytes), frame.blocks.live.size());
  frame.log->Int("live", live, frame.blocks.live_bytes, "B",
                 widgets::Paragraph(frame.look, widgets::BoldOf(frame.look), live));
  const bool chosen = frame.context.blocks.at_ns.has_value() || frame.context.lens.is_on;
  const std::string when = TrFormat(language, chosen ? Text::kBlocksAt : Text::kBlocksAtPeak,
                                    ui::FormatMoment(*frame.context.snapshot, frame.at_ns()));
  frame.log->Int("at", when, frame.at_ns(), "ns",
                 widgets::Paragraph(frame.look, widgets::DimOf(frame.look), when));
  if (frame.context.blocks.at_ns && !frame.context.lens.is_on &&
      widgets::LinkText(frame.look, "peak", frame.Tr(Text::kBlocksToPeak))) {
    frame.commands->push_back(ui::AskBlocks{});
  }
  DrawSince(frame);
}

// Whose memory it is, where there is a choice.
void BlocksPanel::DrawRanks(const Frame& frame) const {
  if (frame.context.report == nullptr) return;
  std::vector<std::string> options;
  std::vector<int32_t> ranks;  // of the options
  int chosen = -1;
  for (const analysis::MemoryPeak& peak : frame.context.report->memory) {
    if (peak.peak_bytes == 0) continue;  // nothing was recorded of it
    if (peak.rank == frame.blocks.asked.rank) chosen = static_cast<int>(options.size());
    options.push_back(TrFormat(frame.context.language, Text::kRankN, peak.rank) + "  " +
                      FormatBytes(peak.peak_bytes));
    ranks.push_back(peak.rank);
  }
  if (ranks.size() < 2) return;
  const std::string label = TrFormat(frame.context.language, Text::kRankN, frame.blocks.asked.rank);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const auto menu = widgets::DrawChipMenu(frame.look, "ranks", at,
                                          {label, frame.Tr(Text::kBlocksRankTip),
                                           frame.Tr(Text::kBlocksRankTipDetail), options, chosen});
  frame.log->Int("rank", label, frame.blocks.asked.rank, "", menu.box);
  ImGui::SetCursorScreenPos({at.x, menu.box.y1});
  widgets::Gap(frame.look, 4);
  if (menu.clicked >= 0) {
    frame.commands->push_back(
        ui::AskBlocks{ranks[static_cast<size_t>(menu.clicked)], std::nullopt});
  }
}

void BlocksPanel::DrawSince(const Frame& frame) const {
  const query::LiveBlocks& blocks = frame.blocks;
  if (!blocks.asked.since_ns) {
    const char* how = frame.Tr(Text::kBlocksHow);
    frame.log->Text("how", how, widgets::Paragraph(frame.look, widgets::FaintOf(frame.look), how));
    return;
  }
  const std::string text =
      TrFormat(frame.context.language, Text::kBlocksSince,
               ui::FormatMoment(*frame.context.snapshot, *blocks.asked.since_ns),
               FormatBytes(blocks.came_bytes), FormatBytes(blocks.gone_bytes));
  const ui::Box box = widgets::Paragraph(frame.look, widgets::TextOf(frame.look), text);
  frame.log->Int("came", text, blocks.came_bytes, "B", box);
  frame.log->Int("went", text, blocks.gone_bytes, "B", box);
  if (widgets::LinkText(frame.look, "no_since", frame.Tr(Text::kBlocksNoSince))) {
    frame.commands->push_back(ui::CompareBlocks{});
  }
}

void BlocksPanel::DrawTreemap(const Frame& frame) {
  const Look& look = frame.look;
  const std::vector<LiveBlock>& live = frame.blocks.live;
  widgets::Gap(look, 4);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = std::floor(
      std::min(ImGui::GetContentRegionAvail().y * kMostMapShare, look.Px(kMostMapHeight)));
  const ui::Box box{at.x, at.y, at.x + widgets::ContentWidth(), at.y + height};
  if (height < look.Px(40) || live.empty()) return;
  if (made_of_ != frame.context.blocks.answer || made_in_ != box) {
    made_of_ = frame.context.blocks.answer;
    made_in_ = box;
    tiles_ = TilesOf(live, box);
  }
  ImGui::InvisibleButton("map", {box.x1 - box.x0, height});
  const bool hovered = ImGui::IsItemHovered() && !frame.context.headless;
  const bool clicked = ImGui::IsItemClicked();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float gap = look.Px(1);
  for (size_t i = 0; i < live.size(); ++i) {
    const ui::Box tile{tiles_[i].x0, tiles_[i].y0, tiles_[i].x1 - gap, tiles_[i].y1 - gap};
    if (tile.x1 <= tile.x0 || tile.y1 <= tile.y0) continue;
    const ui::Color color = ui::MemoryColor(look.theme, live[i].category);
    list->AddRectFilled({tile.x0, tile.y0}, {tile.x1, tile.y1}, color);
    if (live[i].came) {
      list->AddRect({tile.x0, tile.y0}, {tile.x1, tile.y1}, look.theme.ink.text, 0, look.Px(1.5F));
    }
    widgets::TextStyle style{look.fonts.text, ui::kSmallTextSize, ui::InkOn(look.theme, color)};
    const float room = tile.x1 - tile.x0 - look.Px(6);
    if (room > look.Px(18) && tile.y1 - tile.y0 > look.Px(kLeastLabelled)) {
      const std::string label = ui::BlockLabel(frame.context.language, live[i]);
      widgets::DrawTextClipped(look, style, {tile.x0 + look.Px(3), tile.y0 + look.Px(2)}, room,
                               label);
      frame.log->Int(fmt::format("tile:{}", i), label, live[i].bytes, "B", tile);
    }
    const bool under_mouse = mouse.x >= tiles_[i].x0 && mouse.x < tiles_[i].x1 &&
                             mouse.y >= tiles_[i].y0 && mouse.y < tiles_[i].y1;
    if (!hovered || !under_mouse) continue;
    if (clicked) frame.Jump(live[i]);
    const std::string title =
        FormatBytes(live[i].bytes) + "  " + TitleOf(frame.context.language, live[i]);
    const std::string detail = DetailOf(frame.context.language, live[i], frame.at_ns());
    frame.log->Text("tooltip", title + "\n" + detail,
                    widgets::Tooltip(look, title, detail, look.theme.surface.line));
  }
  frame.log->Int("map", "", static_cast<int64_t>(live.size()), "", box);
  widgets::Gap(look, 6);
}

void BlocksPanel::DrawList(const Frame& frame, const char* id,
                           const std::vector<LiveBlock>& blocks) {
  const Look& look = frame.look;
  const ui::Language language = frame.context.language;
  const float height = look.Px(kBlockRowHeight);
  const float indent = look.Px(kBlockSwatch + 6);
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(blocks.size()), height);
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const LiveBlock& block = blocks[static_cast<size_t>(i)];
      const ImVec2 top = ImGui::GetCursorScreenPos();
      const float width = widgets::ContentWidth();
      if (widgets::ClickArea(fmt::format("{}{}", id, i).c_str(), {width, height})) {
        frame.Jump(block);
      }
      widgets::ItemGround(look, look.theme.surface.raised);
      const std::string title = (block.came ? "+ " : "") + TitleOf(language, block);
      if (!frame.context.headless) {
        widgets::ItemTooltip(look, title, DetailOf(language, block, frame.at_ns()));
      }
      widgets::DrawSwatch(look, {top.x, top.y + look.Px(5)}, kBlockSwatch,
                          ui::MemoryColor(look.theme, block.category), false);
      const std::string bytes = FormatBytes(block.bytes);
      const ui::Box value = widgets::DrawTextRight(look, widgets::BoldOf(look),
                                                   {top.x + width, top.y + look.Px(2)}, bytes);
      widgets::DrawTextClipped(look, widgets::TextOf(look), {top.x + indent, top.y + look.Px(2)},
                               value.x0 - top.x - indent - look.Px(8), title);
      const std::string from_to = ui::FromTo(language, block, frame.at_ns());
      widgets::DrawTextClipped(look, widgets::FaintOf(look), {top.x + indent, top.y + look.Px(18)},
                               width - indent, from_to);
      frame.log->Int(fmt::format("{}:{}", id, i), title + "\n" + from_to, block.bytes, "B",
                     {top.x, top.y, top.x + width, top.y + height});
    }
  }
}

ui::TableMaker BlocksPanel::AsTable(const ui::Context& context) const {
  if (context.blocks.shows_choices) return TableOfChoices(context.blocks.choices);
  const auto& shown = context.blocks.answer;
  if (shown == nullptr || !shown->ok()) return nullptr;
  return [answer = shown] {
    ui::Table table{{"state", "bytes", "category", "unit", "allocated_ns", "freed_ns",
                     "allocated_by", "freed_by", "step", "stack"},
                    {}};
    const auto add = [&table](const query::LiveBlock& block, const char* state) {
      table.rows.push_back(
          {state, std::to_string(block.bytes), std::string(words::Name(block.category)), block.unit,
           std::to_string(block.allocated_ns),
           block.freed_ns < 0 ? "" : std::to_string(block.freed_ns), block.allocated_by,
           block.freed_by, block.step < 0 ? "" : std::to_string(block.step), block.stack});
    };
    for (const query::LiveBlock& block : (*answer)->live) add(block, block.came ? "came" : "live");
    for (const query::LiveBlock& block : (*answer)->gone) add(block, "gone");
    return table;
  };
}

}  // namespace shardscope::panels
