#include "ui/panels/details/area_details.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/find/area.h"
#include "trace/analysis/names.h"
#include "trace/base/units.h"
#include "ui/panels/details/stall_texts.h"
#include "ui/terms.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using analysis::Area;
using analysis::AreaRank;
using ui::Text;
using widgets::Look;

constexpr float kAreaTitleSize = 15;
constexpr float kBarHeight = 13;
constexpr float kBarRow = 19;
constexpr float kBarLeft = 52;  // right of the rank's name
constexpr float kHistogramHeight = 44;
constexpr float kNameRow = 34;
constexpr size_t kMostBars = 16;
constexpr size_t kMostNames = 40;

// A part of the identity.
struct SplitPart {
  const char* id;
  ui::Term term;
  int64_t (*time_ns)(const AreaRank&);
  ui::Color (*color)(const ui::Theme&);
};
constexpr std::array kParts = {
    SplitPart{"compute", ui::kTermCompute,
              [](const AreaRank& rank) { return rank.compute.union_ns; },
              [](const ui::Theme& theme) { return theme.op.forward; }},
    SplitPart{"exposed", ui::kTermExposed, [](const AreaRank& rank) { return rank.exposed_ns; },
              [](const ui::Theme& theme) { return theme.op.exposed; }},
    SplitPart{"exposed_copy", ui::kTermExposedCopy,
              [](const AreaRank& rank) { return rank.exposed_copy_ns; },
              [](const ui::Theme& theme) { return theme.op.copy; }},
    SplitPart{"idle", ui::kTermIdle, [](const AreaRank& rank) { return rank.idle_ns; },
              [](const ui::Theme& theme) { return theme.op.idle; }},
};

double ShareOfArea(int64_t time_ns, int64_t whole_ns) {
  return whole_ns <= 0 ? 0 : static_cast<double>(time_ns) / static_cast<double>(whole_ns);
}

// How long it is, of what, and whether that is the last word.
void DrawTitle(const ui::Context& context, const Area& area, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const std::string length = ui::FormatDuration(area.length_ns());
  const widgets::TextStyle style{look.fonts.mono, kAreaTitleSize, look.theme.ink.text};
  log->Int("area_length", length, area.length_ns(), "ns",
           widgets::DrawText(look, style, at, length));
  ImVec2 chip_at(at.x, at.y + look.Px(26));
  float bottom = chip_at.y;
  const auto chip = [&](const std::string& text) {
    widgets::ChipStyle plain;
    plain.bold = false;
    const float right = at.x + widgets::ContentWidth();
    if (chip_at.x > at.x && chip_at.x + widgets::ChipWidth(look, text, plain) > right) {
      chip_at = {at.x, chip_at.y + look.Px(26)};
    }
    const ui::Box box = widgets::DrawChip(look, chip_at, text, plain);
    chip_at.x = box.x1 + look.Px(6);
    bottom = box.y1;
    return box;
  };
  int64_t count = 0;
  for (const AreaRank& rank : area.ranks) count += rank.count;
  const std::string ranks =
      area.ranks.size() == 1 ? ui::TrFormat(context.language, Text::kRankN, area.ranks.front().rank)
                             : ui::TrFormat(context.language, Text::kAreaRanks, area.ranks.size());
  log->Int("area_ranks", ranks, static_cast<int64_t>(area.ranks.size()), "", chip(ranks));
  const std::string ops = ui::TrFormat(context.language, Text::kAreaOps, count);
  log->Int("area_count", ops, count, "", chip(ops));
  const bool is_old = context.area.query != area.query;
  if (is_old || !area.complete) {
    const std::string state =
        ui::Tr(context.language, is_old ? Text::kAreaMeasuring : Text::kAreaIncomplete);
    log->Text("area_state", state, chip(state));
  }
  ImGui::SetCursorScreenPos({at.x, bottom + look.Px(10)});
}

// Over `box`, as far as it has not been scrolled out of sight.
void TermTooltip(const ui::Context& context, const ui::Box& box, const ui::Term& term) {
  if (!ImGui::IsMouseHoveringRect({box.x0, box.y0}, {box.x1, box.y1})) return;
  widgets::BoxTooltip(widgets::LookOf(context), box, ui::Tr(context.language, term.name),
                      ui::Tr(context.language, term.tip));
}

// Over the name of the row that begins at `at` and ends at `right`.
void RowTooltip(const ui::Context& context, ImVec2 at, float right, const ui::Term& term) {
  const float height = widgets::LookOf(context).Px(kBarRow);
  TermTooltip(context, {at.x, at.y, right, at.y + height}, term);
}

// A swatch, what it is, time and share.
void DrawSums(const ui::Context& context, const Area& area, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const int64_t whole_ns = area.length_ns() * static_cast<int64_t>(area.ranks.size());
  for (const SplitPart& part : kParts) {
    int64_t sum_ns = 0;
    for (const AreaRank& rank : area.ranks) sum_ns += part.time_ns(rank);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float right = at.x + widgets::ContentWidth();
    widgets::DrawSwatch(look, {at.x, at.y + look.Px(3)}, look.Px(9), part.color(look.theme), false);
    widgets::DrawText(look, widgets::DimOf(look), {at.x + look.Px(16), at.y},
                      ui::Tr(context.language, part.term.name));
    RowTooltip(context, at, right, part.term);
    widgets::DrawTextRight(look, widgets::BoldOf(look), {right, at.y},
                           FormatPercent(ShareOfArea(sum_ns, whole_ns)));
    const std::string value = ui::FormatDuration(sum_ns);
    log->Int(
        fmt::format("area_{}", part.id), value, sum_ns, "ns",
        widgets::DrawTextRight(look, widgets::TextOf(look), {right - look.Px(48), at.y}, value));
    ImGui::Dummy({widgets::ContentWidth(), look.Px(kBarRow)});
  }
}

void DrawBar(const ui::Context& context, const Area& area, const AreaRank& rank, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  widgets::TextStyle style = widgets::DimOf(look);
  style.size = ui::kSmallTextSize;
  widgets::DrawText(look, style, at, ui::TrFormat(context.language, Text::kRankN, rank.rank));
  const float left = at.x + look.Px(kBarLeft);
  const float width = widgets::ContentWidth() - look.Px(kBarLeft);
  int64_t before_ns = 0;
  std::string parts;
  for (const SplitPart& part : kParts) {
    const int64_t time_ns = part.time_ns(rank);
    const auto x = [&](int64_t time) {
      return left + width * static_cast<float>(ShareOfArea(time, area.length_ns()));
    };
    const ui::Box box{x(before_ns), at.y, x(before_ns + time_ns), at.y + look.Px(kBarHeight)};
    ImGui::GetWindowDrawList()->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1},
                                              part.color(look.theme));
    const std::string value = ui::FormatDuration(time_ns);
    log->Int(fmt::format("area_{}:{}", part.id, rank.rank), value, time_ns, "ns", box);
    if (!parts.empty()) parts += ", ";
    parts += fmt::format("{} {}", ui::Tr(context.language, part.term.name), value);
    before_ns += time_ns;
  }
  ImGui::Dummy({widgets::ContentWidth(), look.Px(kBarRow)});
  if (context.headless) return;
  widgets::ItemTooltip(look, ui::TrFormat(context.language, Text::kRankN, rank.rank), parts);
}

void DrawBars(const ui::Context& context, const Area& area, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  widgets::Gap(look, 6);
  for (size_t at = 0; at < std::min(area.ranks.size(), kMostBars); ++at) {
    DrawBar(context, area, area.ranks[at], log);
  }
  if (area.ranks.size() <= kMostBars) return;
  widgets::Paragraph(
      look, widgets::FaintOf(look),
      ui::TrFormat(context.language, Text::kAreaMoreRanks, area.ranks.size() - kMostBars));
}

// A time as the log has it.
struct LoggedTime {
  std::string id;
  int64_t time_ns = 0;
};

// Two times a row, under a heading with what they are.
class TimeRows {
 public:
  TimeRows(const ui::Context& context, ui::DrawLog* log) : context_(context), log_(*log) {}

  void DrawHeading(Text title, const ui::Term& first, const ui::Term& second) const {
    widgets::Gap(look_, 8);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float right = at.x + widgets::ContentWidth();
    widgets::Heading(look_, ui::Tr(context_.language, title));
    DrawColumn(first, {right - look_.Px(kTimeColumn), at.y});
    DrawColumn(second, {right, at.y});
    widgets::Gap(look_, 5);
  }

  void DrawRow(const ui::Term& term, const LoggedTime& first,
               const std::optional<LoggedTime>& second) const {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float right = at.x + widgets::ContentWidth();
    const float middle = right - look_.Px(kTimeColumn);
    widgets::DrawTextClipped(look_, widgets::DimOf(look_), at, middle - at.x - look_.Px(56),
                             ui::Tr(context_.language, term.name));
    RowTooltip(context_, at, right, term);
    DrawTime(first, {middle, at.y});
    if (second) DrawTime(*second, {right, at.y});
    ImGui::Dummy({widgets::ContentWidth(), look_.Px(kBarRow)});
  }

 private:
  static constexpr float kTimeColumn = 76;

  void DrawColumn(const ui::Term& term, ImVec2 right_top) const {
    const char* const name = ui::Tr(context_.language, term.name);
    const ui::Box drawn = widgets::DrawTextRight(look_, widgets::FaintOf(look_), right_top, name);
    TermTooltip(context_, drawn, term);
  }

  void DrawTime(const LoggedTime& time, ImVec2 right_top) const {
    const std::string text = ui::FormatDuration(time.time_ns);
    log_.Int(time.id, text, time.time_ns, "ns",
             widgets::DrawTextRight(look_, widgets::TextOf(look_), right_top, text));
  }

  const ui::Context& context_;
  ui::DrawLog& log_;
  const Look look_ = widgets::LookOf(context_);
};

// Of each category when any op of it ran, and all its ops added up, over the ranks.
void DrawCategories(const ui::Context& context, const Area& area, ui::DrawLog* log) {
  struct AreaCategory {
    const char* id;
    ui::Term term;
    analysis::AreaTime AreaRank::*time;
  };
  constexpr std::array kCategories = {
      AreaCategory{"compute", ui::kTermCompute, &AreaRank::compute},
      AreaCategory{"communication",
                   {Text::kAreaCommunication, Text::kAreaCommunicationTip},
                   &AreaRank::communication},
      AreaCategory{"copy", {Text::kWorkCopy, Text::kAreaCopyTip}, &AreaRank::copy},
  };
  const TimeRows rows(context, log);
  rows.DrawHeading(Text::kAreaCategories, {Text::kAreaUnion, Text::kAreaUnionTip},
                   {Text::kAreaNameSum, Text::kAreaNameSumTip});
  for (const AreaCategory& category : kCategories) {
    analysis::AreaTime all;
    for (const AreaRank& rank : area.ranks) {
      all.union_ns += (rank.*category.time).union_ns;
      all.sum_ns += (rank.*category.time).sum_ns;
    }
    rows.DrawRow(category.term, {fmt::format("area_union:{}", category.id), all.union_ns},
                 LoggedTime{fmt::format("area_sum:{}", category.id), all.sum_ns});
  }
}

// Idle time and, beside it, exposed communication.
void DrawCauses(const ui::Context& context, const Area& area, ui::DrawLog* log) {
  int64_t unexplained_ns = 0;
  for (const AreaRank& rank : area.ranks) unexplained_ns += rank.unexplained_ns();
  const std::vector<analysis::AreaCause> causes = SumOfCauses(area.ranks);
  if (area.has_causes && causes.empty()) return;
  const TimeRows rows(context, log);
  rows.DrawHeading(Text::kAreaIdleByCause, ui::kTermIdle, ui::kTermExposed);
  for (const analysis::AreaCause& cause : causes) {
    const std::string_view name = analysis::Name(cause.cause);
    rows.DrawRow(StallTextsOf(cause.cause).term,
                 {fmt::format("area_cause:{}", name), cause.idle_ns},
                 LoggedTime{fmt::format("area_cause_exposed:{}", name), cause.exposed_ns});
  }
  if (!area.has_causes) {
    const Look look = widgets::LookOf(context);
    const char* text = ui::Tr(context.language, Text::kAreaMeasuring);
    log->Text("area_causes", text, widgets::Paragraph(look, widgets::FaintOf(look), text));
  } else if (unexplained_ns > 0) {
    rows.DrawRow({Text::kAreaNoStall, Text::kAreaNoStallTip}, {"area_cause:none", unexplained_ns},
                 std::nullopt);
  }
}

void DrawHistogram(const ui::Context& context, const Area& area, ui::DrawLog* log) {
  if (area.histogram.empty()) return;
  const Look look = widgets::LookOf(context);
  widgets::Gap(look, 8);
  widgets::Heading(look, ui::Tr(context.language, Text::kAreaDurations));
  widgets::Gap(look, 3);
  int64_t most = 1;
  for (const analysis::AreaBucket& bucket : area.histogram) most = std::max(most, bucket.count);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = widgets::ContentWidth();
  const float height = look.Px(kHistogramHeight);
  const float step = width / static_cast<float>(area.histogram.size());
  for (size_t i = 0; i < area.histogram.size(); ++i) {
    const analysis::AreaBucket& bucket = area.histogram[i];
    const float x = at.x + step * static_cast<float>(i);
    const float share = static_cast<float>(bucket.count) / static_cast<float>(most);
    const float rise = bucket.count == 0 ? 0 : std::max(look.Px(1.5F), height * share);
    const ui::Box box{x, at.y + height - rise, x + step - look.Px(1), at.y + height};
    ImGui::GetWindowDrawList()->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1},
                                              look.theme.op.forward);
    const std::string text =
        ui::TrFormat(context.language, Text::kAreaBucket, ui::FormatDuration(bucket.from_ns),
                     ui::FormatDuration(bucket.to_ns), bucket.count);
    log->Int(fmt::format("area_bucket:{}", bucket.from_ns), text, bucket.count, "", box);
    if (context.headless) continue;
    ImGui::SetCursorScreenPos({x, at.y});
    ImGui::Dummy({step, height});
    widgets::ItemTooltip(look, text, "");
  }
  const float below = at.y + height + look.Px(2);
  widgets::DrawText(look, widgets::FaintOf(look), {at.x, below},
                    ui::FormatDuration(area.histogram.front().from_ns));
  widgets::DrawTextRight(look, widgets::FaintOf(look), {at.x + width, below},
                         ui::FormatDuration(area.histogram.back().to_ns));
  ImGui::SetCursorScreenPos(at);
  ImGui::Dummy({width, height + look.Px(18)});
}

// Two lines: the name with the sum, below the rest.
void DrawName(const ui::Context& context, const analysis::AreaName& row, size_t at_row,
              ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float right = at.x + widgets::ContentWidth();
  const std::string sum = ui::FormatDuration(row.sum_ns);
  const ui::Box value = widgets::DrawTextRight(look, widgets::BoldOf(look), {right, at.y}, sum);
  log->Int(fmt::format("area_name_sum:{}", at_row), sum, row.sum_ns, "ns", value);
  widgets::TextStyle name = widgets::MonoOf(look);
  name.color = look.theme.ink.text;
  log->Int(fmt::format("area_name:{}", at_row), row.name, row.count, "",
           widgets::DrawTextClipped(look, name, at, value.x0 - at.x - look.Px(8), row.name));
  widgets::DrawTextClipped(
      look, widgets::FaintOf(look), {at.x, at.y + look.Px(15)}, widgets::ContentWidth(),
      ui::TrFormat(context.language, Text::kAreaNameFigures, row.count,
                   ui::FormatDuration(row.duration_ns.p50), ui::FormatDuration(row.duration_ns.p95),
                   ui::FormatDuration(row.longest_ns)));
  ImGui::Dummy({widgets::ContentWidth(), look.Px(kNameRow)});
  if (!context.headless) widgets::ItemTooltip(look, row.name, row.kind);
}

void DrawNames(const ui::Context& context, const Area& area, ui::DrawLog* log) {
  if (area.names.empty()) return;
  const Look look = widgets::LookOf(context);
  widgets::Gap(look, 8);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  widgets::Heading(look, ui::Tr(context.language, Text::kAreaNames));
  widgets::DrawTextRight(look, widgets::FaintOf(look), {top.x + widgets::ContentWidth(), top.y},
                         ui::Tr(context.language, Text::kAreaNameSum));
  widgets::Gap(look, 5);
  for (size_t at = 0; at < std::min(area.names.size(), kMostNames); ++at) {
    DrawName(context, area.names[at], at, log);
  }
  if (area.names.size() <= kMostNames) return;
  const size_t more = area.names.size() - kMostNames;
  widgets::Paragraph(look, widgets::FaintOf(look),
                     ui::TrFormat(context.language, Text::kAreaMoreNames, more));
}

}  // namespace

void DrawAreaDetails(const ui::Context& context, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  if (context.area.measured == nullptr) {
    const bool loading = context.snapshot != nullptr && context.snapshot->loading;
    const char* text =
        ui::Tr(context.language, loading ? Text::kAreaLoading : Text::kAreaMeasuring);
    log->Text("area_state", text, widgets::EmptyState(look, text));
    return;
  }
  const Area& area = *context.area.measured;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
  DrawTitle(context, area, log);
  DrawSums(context, area, log);
  DrawBars(context, area, log);
  DrawCategories(context, area, log);
  DrawCauses(context, area, log);
  DrawHistogram(context, area, log);
  DrawNames(context, area, log);
  ImGui::PopStyleVar();
}

}  // namespace shardscope::panels
