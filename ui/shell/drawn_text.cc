#include "ui/shell/drawn_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "ui/text.h"

namespace shardscope::shell {
namespace {

// How much lower, in pixels, what stands in the same line may begin: texts of several sizes do.
constexpr float kSameTextLine = 8;
constexpr float kSameWindowRow = 24;

// A window and those inside it.
struct ReadWindow {
  ui::Box box;  // its upper left corner
  std::string name;
  std::vector<WrittenText> texts;
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

std::vector<ReadWindow> WindowsOf(const std::vector<WrittenText>& texts) {
  std::vector<ReadWindow> windows;
  for (const WrittenText& one : texts) {
    const std::string name = one.window.substr(0, one.window.find('/'));
    auto window = std::ranges::find(windows, name, &ReadWindow::name);
    if (window == windows.end()) window = windows.insert(window, {one.box, name, {}});
    window->box.x0 = std::min(window->box.x0, one.box.x0);
    window->box.y0 = std::min(window->box.y0, one.box.y0);
    window->texts.push_back(one);
  }
  return windows;
}

// As it was written: whole, cut with an ellipsis, or the first of its lines.
bool IsTextOf(const TextRemark& remark, const WrittenText& written) {
  constexpr std::string_view kEllipsis = "…";
  std::string_view begin = written.text;
  if (begin.ends_with(kEllipsis)) begin.remove_suffix(kEllipsis.size());
  const float x = (written.box.x0 + written.box.x1) / 2;
  const float y = (written.box.y0 + written.box.y1) / 2;
  const ui::Box& box = remark.box;
  return remark.text.starts_with(begin) && box.x0 <= x && x <= box.x1 && box.y0 <= y && y <= box.y1;
}

// What is read of this text. A remark is used once.
std::string ReadOf(const WrittenText& written, std::vector<TextRemark>* remarks) {
  const auto remark =
      std::ranges::find_if(*remarks, [&](const TextRemark& one) { return IsTextOf(one, written); });
  if (remark == remarks->end()) return written.text;
  std::string words = std::move(remark->words);
  remarks->erase(remark);
  return words;
}

void PrintWindow(ReadWindow window, std::vector<TextRemark>* remarks, std::string* text) {
  if (!text->empty()) *text += '\n';
  // "Steps" of "Steps###steps"; of a window without a title nothing.
  const std::string title = window.name.substr(0, window.name.find("##"));
  if (!title.empty()) *text += title + ":\n";
  for (const std::vector<WrittenText>& line : LinesOf(std::move(window.texts), kSameTextLine)) {
    const WrittenText* before = nullptr;
    for (const WrittenText& one : line) {
      const bool is_again = before != nullptr && before->text == one.text && before->box == one.box;
      if (is_again) continue;
      *text += (before == nullptr ? "" : "  ") + ReadOf(one, remarks);
      before = &one;
    }
    *text += '\n';
  }
}

}  // namespace

std::vector<TextRemark> RemarksOf(const ui::DrawLog& widgets, ui::Language language) {
  std::vector<TextRemark> remarks;
  for (const ui::DrawnItem& item : widgets.items()) {
    const bool chosen = item.id.starts_with("chosen:");
    if (!chosen && !item.id.starts_with("asked_for:")) continue;
    const ui::Text words = chosen ? ui::Text::kReadChosen : ui::Text::kReadAskedFor;
    remarks.push_back({item.box, item.text, ui::TrFormat(language, words, item.text)});
  }
  return remarks;
}

std::string PrintTexts(const std::vector<WrittenText>& texts, std::vector<TextRemark> remarks) {
  std::string text;
  for (std::vector<ReadWindow>& row : LinesOf(WindowsOf(texts), kSameWindowRow)) {
    for (ReadWindow& window : row) PrintWindow(std::move(window), &remarks, &text);
  }
  return text;
}

}  // namespace shardscope::shell
