#include "ui/panels/compare/compare_parts.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/panels/compare/compare_words.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tables.h"

namespace shardscope::panels {
namespace {

using analysis::Delta;
using ui::Text;
using ui::TrFormat;

constexpr float kHatchSpacing = 4;

// A row of parts, named as the JSON names it.
struct PartRow {
  const char* title;
  std::string id;
  const Delta* delta;
};

void DrawPartRow(const CompareFrame& frame, const PartRow& part, double most_ns) {
  const Delta& delta = *part.delta;
  const ui::Language language = frame.context.language;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  frame.log->Text("part:" + part.id, part.title, widgets::TextCell(part.title));
  DeltaCells(frame, "part_", part.id, delta);
  ImGui::TableNextColumn();
  const std::string words = WithinWords(language, delta.shift);
  const ui::Box within = widgets::TextCell(words);
  frame.log->Int("part_low:" + part.id, words, delta.shift.low_ns, "ns", within);
  frame.log->Int("part_high:" + part.id, words, delta.shift.high_ns, "ns", within);
  DifferenceBarCell(frame, delta, most_ns);
}

std::array<widgets::TableColumn, 6> PartColumns(const CompareFrame& frame) {
  const auto texts = [&](Text title, std::string_view widest, float weight) {
    const float least = widgets::TextSize(frame.look, widgets::TextOf(frame.look), widest).x;
    return widgets::TableColumn{frame.Tr(title), least, weight};
  };
  const auto numbers = [&](const char* title, const char* widest, float weight) {
    return widgets::TableColumn{.title = title,
                                .least = widgets::NumbersWidth(frame.look, title, widest),
                                .weight = weight,
                                .is_number = true};
  };
  const std::string within = fmt::format("{0} .. {0}", kWidestDifference);
  return {texts(Text::kComparePart, frame.Tr(Text::kCompareExposed), 1.7F),
          numbers("A", kWidestTime, 0.8F),
          numbers("B", kWidestTime, 0.8F),
          numbers(frame.Tr(Text::kCompareDifference), kWidestDifference, 0.9F),
          texts(Text::kCompareWithin, within, 1.6F),
          {frame.Tr(Text::kCompareBar), frame.look.Px(kLeastDifferenceBar), 1.2F}};
}

// Of all steps of its side.
double ShareOf(int64_t count, const std::vector<int64_t>& counts) {
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  return sum == 0 ? 0 : static_cast<double>(count) / static_cast<double>(sum);
}

// The largest share of a bin of either side; a side that has fewer steps is seen as well.
double LargestShare(const analysis::StepHistogram& histogram) {
  double most = 0;
  for (const auto* side : {&histogram.a, &histogram.b}) {
    for (const int64_t count : *side) most = std::max(most, ShareOf(count, *side));
  }
  return most;
}

// Bins of A above the line, of B below it: which is which is said by place.
void DrawBins(const CompareFrame& frame, const ui::Box& box, bool is_b) {
  const analysis::StepHistogram& histogram = frame.comparison().histogram;
  const std::vector<int64_t>& counts = is_b ? histogram.b : histogram.a;
  const double most = LargestShare(histogram);
  const float width = (box.x1 - box.x0) / static_cast<float>(std::max<size_t>(counts.size(), 1));
  for (size_t at = 0; at < counts.size(); ++at) {
    const double share = most > 0 ? ShareOf(counts[at], counts) / most : 0;
    const float height = (box.y1 - box.y0) * static_cast<float>(share);
    const float x = box.x0 + width * static_cast<float>(at);
    const ui::Box bin = is_b ? ui::Box{x, box.y0, x + width - 1, box.y0 + height}
                             : ui::Box{x, box.y1 - height, x + width - 1, box.y1};
    frame.log->Int(fmt::format("bin_{}:{}", is_b ? "b" : "a", at), "", counts[at], "", bin);
    if (counts[at] == 0) continue;
    const ui::Color color = is_b ? frame.look.theme.state.accent : frame.look.theme.ink.dim;
    ImGui::GetWindowDrawList()->AddRectFilled({bin.x0, bin.y0}, {bin.x1, bin.y1}, color);
    if (is_b) {
      widgets::DrawHatch(bin, frame.look.Px(kHatchSpacing), frame.look.Px(1),
                         frame.look.theme.surface.panel);
    }
  }
}

}  // namespace

void DeltaCells(const CompareFrame& frame, const std::string& prefix, const std::string& name,
                const analysis::Delta& delta) {
  const auto cell = [&](const char* id, const std::string& text, double ns) {
    ImGui::TableNextColumn();
    frame.log->Real(prefix + id + name, text, ns, "ns", widgets::NumberCell(text));
  };
  cell("a:", ui::FormatDuration(delta.a_ns), delta.a_ns);
  cell("b:", ui::FormatDuration(delta.b_ns), delta.b_ns);
  cell("difference:", SignedDuration(delta.ns()), delta.ns());
}

void DifferenceBarCell(const CompareFrame& frame, const analysis::Delta& delta, double most_ns) {
  ImGui::TableNextColumn();
  const ui::Box box = widgets::CellLine();
  const double share = most_ns > 0 ? delta.ns() / most_ns : 0;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float middle = (box.x0 + box.x1) / 2;
  const float length = (box.x1 - box.x0) / 2 * static_cast<float>(std::clamp(share, -1.0, 1.0));
  const ui::Box bar{std::min(middle, middle + length), box.y0 + frame.look.Px(3),
                    std::max(middle, middle + length), box.y1 - frame.look.Px(2)};
  const ui::StateColors& colors = frame.look.theme.state;
  list->AddRectFilled({bar.x0, bar.y0}, {bar.x1, bar.y1}, share > 0 ? colors.bad : colors.good);
  if (share > 0) {
    widgets::DrawHatch(bar, frame.look.Px(kHatchSpacing), frame.look.Px(1),
                       frame.look.theme.surface.panel);
  }
  list->AddLine({middle, box.y0}, {middle, box.y1}, frame.look.theme.ink.faint);
}

void DrawComparedParts(const CompareFrame& frame, float width) {
  const analysis::Comparison& comparison = frame.comparison();
  std::vector<PartRow> parts = {{frame.Tr(Text::kCompareWholeStep), "step", &comparison.step}};
  double most_ns = std::abs(comparison.step.ns());
  for (size_t at = 0; at < analysis::kNumStepParts; ++at) {
    const auto part = static_cast<analysis::StepPart>(at);
    parts.push_back(
        {PartWord(frame.context.language, part), std::string(Name(part)), &comparison.parts[at]});
    most_ns = std::max(most_ns, std::abs(comparison.parts[at].ns()));
  }
  const auto columns = PartColumns(frame);
  const auto rows = static_cast<int>(parts.size()) + 1;
  const ImVec2 size(width, widgets::TableHeight(columns, rows, width));
  if (!widgets::BeginTable("parts", columns, ImGuiTableFlags_NoSavedSettings, size)) return;
  widgets::HeaderRow(frame.look, columns, -1, frame.log);
  for (const PartRow& part : parts) DrawPartRow(frame, part, most_ns);
  ImGui::EndTable();
}

void DrawStepHistograms(const CompareFrame& frame, ImVec2 size) {
  const analysis::StepHistogram& histogram = frame.comparison().histogram;
  const widgets::TextStyle faint = widgets::FaintOf(frame.look);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::Dummy(size);
  const char* title = frame.Tr(histogram.is_logarithmic ? Text::kCompareHistogramLogarithmic
                                                        : Text::kCompareHistogram);
  const ui::Box head = widgets::DrawText(frame.look, faint, at, title);
  frame.log->Text("histogram", title, head);
  if (histogram.bounds_ns.empty()) return;
  const double most = LargestShare(histogram);
  const std::string scale =
      TrFormat(frame.context.language, Text::kCompareLargestShare, shardscope::FormatPercent(most));
  const float scale_width = widgets::TextSize(frame.look, faint, scale).x;
  if (head.x1 + frame.look.Px(12) + scale_width <= at.x + size.x) {
    frame.log->Real("histogram_most", scale, most, "share",
                    widgets::DrawTextRight(frame.look, faint, {at.x + size.x, at.y}, scale));
  }
  const float left = at.x + frame.look.Px(14);
  const float top = at.y + frame.look.Px(16);
  const float bottom = at.y + size.y - frame.look.Px(16);
  const float middle = (top + bottom) / 2;
  if (bottom - top < frame.look.Px(20)) return;
  widgets::DrawText(frame.look, faint, {at.x, middle - frame.look.Px(14)}, "A");
  widgets::DrawText(frame.look, faint, {at.x, middle + frame.look.Px(2)}, "B");
  DrawBins(frame, {left, top, at.x + size.x, middle}, false);
  DrawBins(frame, {left, middle + 1, at.x + size.x, bottom}, true);
  ImGui::GetWindowDrawList()->AddLine({left, middle}, {at.x + size.x, middle},
                                      frame.look.theme.surface.line);
  const float under = bottom + frame.look.Px(2);
  const ui::Box first = widgets::DrawText(frame.look, faint, {left, under},
                                          ui::FormatDuration(histogram.bounds_ns.front()));
  const ui::Box last = widgets::DrawTextRight(frame.look, faint, {at.x + size.x, under},
                                              ui::FormatDuration(histogram.bounds_ns.back()));
  if (!histogram.is_logarithmic) return;
  // Where the middle is is not seen from the ends.
  const size_t half = histogram.a.size() / 2;
  const std::string text = ui::FormatDuration(histogram.bounds_ns[half]);
  const float share = static_cast<float>(half) / static_cast<float>(histogram.a.size());
  const float x = left + (at.x + size.x - left) * share;
  const float width = widgets::TextSize(frame.look, faint, text).x;
  const float gap = frame.look.Px(4);
  if (x - width / 2 < first.x1 + gap || x + width / 2 > last.x0 - gap) return;
  frame.log->Int("histogram_middle", text, histogram.bounds_ns[half], "ns",
                 widgets::DrawText(frame.look, faint, {x - width / 2, under}, text));
}

void DrawDifferentSettings(const CompareFrame& frame, ImVec2 size) {
  const analysis::Comparison& comparison = frame.comparison();
  if (ImGui::BeginChild("settings", size, ImGuiChildFlags_NavFlattened)) {
    widgets::FaintHeading(frame.look, frame.Tr(Text::kCompareSetUp));
    const auto line = [&frame](const std::string& id, const std::string& name, const std::string& a,
                               const std::string& b) {
      const auto shown = [&frame](const std::string& value) {
        if (value.empty()) return std::string(frame.Tr(Text::kCompareNotSet));
        return ValuesInOrder(frame.context.language, Printable(value, ""));
      };
      const std::string text = fmt::format("{}: {} → {}", name, shown(a), shown(b));
      frame.Say(id, widgets::TextOf(frame.look), text);
    };
    for (const analysis::SettingDifference& setting : comparison.settings) {
      line("setting:" + setting.key, setting.key, setting.a, setting.b);
    }
    const auto done = DoneDifferences(comparison);
    for (const analysis::DoneDifference& one : done) {
      line(fmt::format("done:{}", static_cast<int>(one.fact)),
           FactWord(frame.context.language, one.fact), one.a, one.b);
    }
    if (comparison.settings.empty() && done.empty()) {
      widgets::Paragraph(frame.look, widgets::DimOf(frame.look), frame.Tr(Text::kCompareSame));
    }
  }
  ImGui::EndChild();
}

}  // namespace shardscope::panels
