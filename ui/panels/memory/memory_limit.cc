#include "ui/panels/memory/memory_limit.h"

#include <imgui.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "trace/analysis/report/report.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/out_of_memory.h"
#include "ui/text.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/line_breaks.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

constexpr std::string_view kKey = "engine.memory_limit";
constexpr std::string_view kOutOfMemory = "out of memory: ";
constexpr float kLineHeight = 16;
constexpr float kBarPadding = 5;
constexpr float kBarCross = 22;  // width of the place that puts the bar away

// The last change; a run that it ended has no such answer.
bool IsRefused(const ui::Context& context) { return Contains(context.control.error, kOutOfMemory); }

// As it was written; empty: there is none.
std::string ErrorOf(const ui::Context& context) {
  if (IsRefused(context)) return context.control.error;
  if (context.snapshot == nullptr) return "";
  for (const query::Marker& error : analysis::ErrorsOf(*context.snapshot)) {
    if (Contains(error.new_value, kOutOfMemory)) return error.new_value;
  }
  return "";
}

struct Sentence {
  std::string text;
  std::string lines;  // the same, with a '\n' where a line ends
};

// As wide as in bold, which any of them may be.
Sentence Wrapped(const widgets::Look& look, const std::string& text, float width) {
  const widgets::TextStyle style = widgets::BoldOf(look);
  return {text, widgets::BreakLines(text, width, [&](std::string_view line) {
            return widgets::TextSize(look, style, line).x;
          })};
}

float BarHeight(const widgets::Look& look, const std::vector<Sentence>& sentences) {
  std::ptrdiff_t lines = 0;
  for (const Sentence& sentence : sentences) {
    lines += 1 + std::count(sentence.lines.begin(), sentence.lines.end(), '\n');
  }
  return look.Px(kLineHeight * static_cast<float>(lines) + 2 * kBarPadding);
}

}  // namespace

int64_t MemoryLimitOf(const query::Snapshot& snapshot) {
  const auto found = snapshot.config.find(std::string(kKey));
  return found == snapshot.config.end() ? 0 : ParseBytes(found->second).value_or(0);
}

std::string OutOfMemoryOf(const ui::Context& context) {
  return ui::ErrorText(context.language, ErrorOf(context));
}

std::vector<std::string> OutOfMemorySentences(const ui::Context& context) {
  const std::string error = ErrorOf(context);
  if (error.empty()) return {};
  std::vector<std::string> sentences = ui::ErrorSentences(context.language, error);
  if (IsRefused(context)) {
    sentences.insert(sentences.begin(), ui::Tr(context.language, ui::Text::kMemoryRefused));
  }
  return sentences;
}

float DrawOutOfMemory(const ui::Context& context, const ui::Box& box, std::string* put_away,
                      ui::DrawLog* log) {
  const std::string error = ErrorOf(context);
  if (error != *put_away) put_away->clear();
  if (error.empty() || error == *put_away) return box.y0;
  std::vector<Sentence> sentences;
  const widgets::Look look = widgets::LookOf(context);
  const float cross = context.headless ? 0 : look.Px(kBarCross);  // pictures have none
  const float x = box.x0 + look.Px(ui::kPanelPadding);
  for (const std::string& text : OutOfMemorySentences(context)) {
    sentences.push_back(Wrapped(look, text, box.x1 - cross - look.Px(ui::kGrid) - x));
  }
  // What to do is the last that may be left out, and that nothing was changed.
  const size_t least = IsRefused(context) ? 2 : 1;
  while (sentences.size() > least && box.y0 + BarHeight(look, sentences) > box.y1) {
    sentences.erase(sentences.end() - 2);
  }
  std::string& remedy = sentences.back().lines;  // all of it stands in the tooltip
  while (box.y0 + BarHeight(look, sentences) > box.y1 && Contains(remedy, "\n")) {
    remedy = remedy.substr(0, remedy.rfind('\n')) + "…";
  }
  const float end = box.y0 + BarHeight(look, sentences);
  const float rounding = look.Px(ui::kRounding);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({box.x0, box.y0}, {box.x1, end},
                      ui::Mix(look.theme.surface.panel, look.theme.op.exposed, 0.14F), rounding);
  list->AddRect({box.x0, box.y0}, {box.x1, end}, look.theme.op.exposed, rounding, look.Px(1));
  float y = box.y0 + look.Px(kBarPadding);
  for (size_t at = 0; at < sentences.size(); ++at) {
    const bool stands_out = at + 1 == sentences.size() || (at == 0 && IsRefused(context));
    const widgets::TextStyle style = stands_out ? widgets::BoldOf(look) : widgets::DimOf(look);
    ui::Box drawn{x, y, x, y};
    for (const std::string_view line : Split(sentences[at].lines, '\n')) {
      drawn.x1 = std::max(drawn.x1, widgets::DrawText(look, style, {x, y}, line).x1);
      y += look.Px(kLineHeight);
    }
    drawn.y1 = y;
    log->Text("out_of_memory:" + std::to_string(at), sentences[at].text, drawn);
  }
  if (context.headless) return end + look.Px(kBarPadding);
  if (ImGui::IsMouseHoveringRect({box.x0, box.y0}, {box.x1 - cross, end})) {
    widgets::Tooltip(look, sentences.back().text, OutOfMemoryOf(context), look.theme.op.exposed);
  }
  const ui::Box corner{box.x1 - cross, box.y0, box.x1,
                       box.y0 + look.Px(kLineHeight + 2 * kBarPadding)};
  ImGui::SetCursorScreenPos({corner.x0, corner.y0});
  if (widgets::ClickArea("put_away", {cross, corner.y1 - corner.y0})) *put_away = error;
  widgets::ItemGround(look, look.theme.surface.raised);
  widgets::DrawCross(look, corner);
  log->Text("put_away", "", corner);
  return end + look.Px(kBarPadding);
}

}  // namespace shardscope::panels
