#include "ui/shell/drawn_text.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shardscope::shell {
namespace {

// How much lower, in pixels, what stands in the same line may begin: texts of several sizes do.
constexpr float kSameTextLine = 8;
constexpr float kSamePanelRow = 24;

struct ReadText {
  ui::Box box;
  std::string text;
};

struct ReadPanel {
  ui::Box box;  // its upper left corner
  std::string name;
  std::vector<ReadText> texts;
};

// From top to bottom; those that begin within `same` pixels of the first of them from left to
// right.
template <typename Read>
std::vector<std::vector<Read>> LinesOf(std::vector<Read> all, float same) {
  std::ranges::stable_sort(all, {}, [](const Read& one) { return one.box.y0; });
  std::vector<std::vector<Read>> lines;
  for (Read& one : all) {
    if (lines.empty() || one.box.y0 - lines.back().front().box.y0 > same) lines.emplace_back();
    lines.back().push_back(std::move(one));
  }
  for (std::vector<Read>& line : lines) {
    std::ranges::stable_sort(line, {}, [](const Read& one) { return one.box.x0; });
  }
  return lines;
}

// A text of several lines is one of the line that it begins in.
std::string InOneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::vector<ReadPanel> PanelsOf(const ui::DrawLog& log) {
  std::vector<ReadPanel> panels;
  for (const ui::DrawnItem& item : log.items()) {
    auto panel = std::ranges::find(panels, item.panel, &ReadPanel::name);
    if (panel == panels.end()) {
      panel = panels.insert(panel, ReadPanel{.box = item.box, .name = item.panel, .texts = {}});
    }
    panel->box.x0 = std::min(panel->box.x0, item.box.x0);
    panel->box.y0 = std::min(panel->box.y0, item.box.y0);
    if (!item.text.empty()) panel->texts.push_back({item.box, InOneLine(item.text)});
  }
  std::erase_if(panels, [](const ReadPanel& panel) { return panel.texts.empty(); });
  return panels;
}

void PrintPanel(ReadPanel panel, std::string* text) {
  if (!text->empty()) *text += '\n';
  *text += panel.name + ":\n";
  for (const std::vector<ReadText>& line : LinesOf(std::move(panel.texts), kSameTextLine)) {
    const ReadText* before = nullptr;
    for (const ReadText& one : line) {
      const bool is_again = before != nullptr && before->text == one.text && before->box == one.box;
      if (is_again) continue;
      *text += (before == nullptr ? "" : "  ") + one.text;
      before = &one;
    }
    *text += '\n';
  }
}

}  // namespace

std::string PrintDrawnTexts(const ui::DrawLog& log) {
  std::string text;
  for (std::vector<ReadPanel>& row : LinesOf(PanelsOf(log), kSamePanelRow)) {
    for (ReadPanel& panel : row) PrintPanel(std::move(panel), &text);
  }
  return text;
}

}  // namespace shardscope::shell
