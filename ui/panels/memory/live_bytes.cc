#include "ui/panels/memory/live_bytes.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trace/base/units.h"
#include "ui/panels/memory/memory_stack.h"
#include "ui/text.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using query::MemoryCategory;
using widgets::Look;

constexpr float kLiveLineHeight = 13;
constexpr size_t kMostUnits = 4;  // of a category
constexpr float kMostWidth = 420;

bool ComesAndGoes(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kUnshardedParameter:
    case MemoryCategory::kGradient:
    case MemoryCategory::kCommunicationBuffer:
    case MemoryCategory::kActivation:
    case MemoryCategory::kTemporary:
      return true;
    default:
      return false;
  }
}

// The largest first.
std::string UnitsText(const analysis::RankMoment& moment, MemoryCategory category) {
  std::vector<std::pair<int64_t, std::string>> units;
  for (const auto& [key, bytes] : moment.live_of_units) {
    if (key.first == category && !key.second.empty()) units.emplace_back(bytes, key.second);
  }
  std::stable_sort(units.begin(), units.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t at = 0; at < units.size() && at < kMostUnits; ++at) {
    text += (at == 0 ? ": " : ", ") + units[at].second + " " + FormatBytes(units[at].first);
  }
  return units.size() > kMostUnits ? text + ", ..." : text;
}

struct LiveLine {
  std::string text;
  int64_t bytes = 0;
};

std::vector<LiveLine> AllLiveLines(ui::Language language, const analysis::RankMoment& moment) {
  std::vector<LiveLine> lines;
  for (const bool wanted : {true, false}) {
    for (size_t at = kStackOrder.size(); at-- > 0;) {
      const MemoryCategory category = kStackOrder[at];
      const int64_t bytes = moment.live[static_cast<size_t>(category)];
      if (bytes == 0 || ComesAndGoes(category) != wanted) continue;
      lines.push_back({std::string(ui::MemoryCategoryName(language, category)) + " " +
                           FormatBytes(bytes) + (wanted ? UnitsText(moment, category) : ""),
                       bytes});
    }
  }
  return lines;
}

}  // namespace

std::vector<std::string> LiveLines(ui::Language language, const analysis::RankMoment& moment,
                                   size_t most) {
  std::vector<LiveLine> lines = AllLiveLines(language, moment);
  std::vector<std::string> texts;
  if (most == 0) return texts;
  size_t left_out = 0;
  int64_t left_out_bytes = 0;
  while (lines.size() + (left_out > 0 ? 1 : 0) > most) {
    const auto least = std::min_element(
        lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    ++left_out;
    left_out_bytes += least->bytes;
    lines.erase(least);
  }
  for (LiveLine& line : lines) texts.push_back(std::move(line.text));
  if (left_out > 0) {
    texts.push_back(
        ui::TrFormat(language, ui::Text::kMemoryMore, left_out, FormatBytes(left_out_bytes)));
  }
  return texts;
}

void DrawLiveBytes(const ui::Context& context, const timeline::Axis& axis, int32_t rank,
                   const ui::Box& box, ui::DrawLog* log) {
  if (!context.lens.moment) return;
  const std::vector<analysis::RankMoment>& ranks = context.lens.moment->ranks;
  const auto moment =
      std::find_if(ranks.begin(), ranks.end(), [&](const auto& it) { return it.rank == rank; });
  if (moment == ranks.end() || !moment->has_memory) return;
  const Look look = widgets::LookOf(context);
  const std::string title =
      ui::TrFormat(context.language, ui::Text::kMemoryLive, FormatBytes(moment->live_bytes));
  const float height_left = std::max(box.y1 - box.y0, 0.0F);
  const auto room = static_cast<size_t>(height_left / look.Px(kLiveLineHeight));
  const std::vector<std::string> lines =
      LiveLines(context.language, *moment, room > 1 ? room - 1 : 0);
  const widgets::TextStyle title_style{look.fonts.bold, ui::kSmallTextSize, look.theme.ink.text};
  const widgets::TextStyle style{look.fonts.text, ui::kSmallTextSize, look.theme.ink.dim};
  float width = widgets::TextSize(look, title_style, title).x;
  std::string text = title;
  for (const std::string& line : lines) {
    width = std::max(width, widgets::TextSize(look, style, line).x);
    text += "\n" + line;
  }
  const float margin = look.Px(6);
  width = std::min({width, look.Px(kMostWidth), box.x1 - box.x0 - 2 * margin});
  const float now = axis.X(context.lens.now_ns);
  const bool fits_right = now + margin * 2 + width <= box.x1;
  const float left = fits_right ? now + margin : now - margin - width;
  // Both are one where it is as wide as the plot, but for rounding.
  const float x = std::round(std::max(box.x0 + margin, std::min(left, box.x1 - margin - width)));
  const float height = look.Px(kLiveLineHeight) * static_cast<float>(lines.size() + 1);
  const ui::Box ground{x - look.Px(3), box.y0, x + width + look.Px(3), box.y0 + height};
  ImGui::GetWindowDrawList()->AddRectFilled({ground.x0, ground.y0}, {ground.x1, ground.y1},
                                            ui::WithAlpha(look.theme.surface.panel, 0.88F),
                                            look.Px(3));
  float y = box.y0;
  widgets::DrawTextClipped(look, title_style, {x, y}, width, title);
  for (const std::string& line : lines) {
    y += look.Px(kLiveLineHeight);
    widgets::DrawTextClipped(look, style, {x, y}, width, line);
  }
  log->Int("live:" + std::to_string(rank), text, moment->live_bytes, "B", ground);
}

void DrawBlockMoments(const ui::Context& context, const timeline::Axis& axis, int32_t rank,
                      const ui::Box& box, ui::DrawLog* log) {
  const auto& answer = context.blocks.answer;
  if (answer == nullptr || !answer->ok() || (*answer)->asked.rank != rank) return;
  const query::BlocksQuery& asked = (*answer)->asked;
  const Look look = widgets::LookOf(context);
  const auto draw = [&](const char* id, int64_t time_ns, ui::Color color) {
    const float x = std::round(axis.X(time_ns));
    if (x < box.x0 || x > box.x1) return;
    const float size = look.Px(4);
    ImDrawList* list = ImGui::GetWindowDrawList();
    list->AddLine({x, box.y0}, {x, box.y1}, color, look.Px(1));
    list->AddTriangleFilled({x - size, box.y0 - size}, {x + size, box.y0 - size},
                            {x, box.y0 + size}, color);
    log->Int(id, "", time_ns, "ns", {x - size, box.y0 - size, x + size, box.y1});
  };
  if (asked.since_ns) draw("blocks_since", *asked.since_ns, look.theme.ink.dim);
  draw("blocks_at", asked.at_ns, look.theme.state.accent);
}

}  // namespace shardscope::panels
