#include "ui/panels/memory/memory_panel.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/units.h"
#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/memory/live_bytes.h"
#include "ui/panels/memory/memory_legend.h"
#include "ui/panels/memory/memory_limit.h"
#include "ui/panels/memory/plot_lines.h"
#include "ui/panels/panel_frame.h"
#include "ui/ranks.h"
#include "ui/text.h"
#include "ui/timeline/axis.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/run_index.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using timeline::Axis;
using widgets::Look;

constexpr float kMemoryRowHeight = 104;  // wanted; rows are lower when two would not fit
constexpr float kLegendGap = 6;
constexpr float kHeadroom = 1.06F;           // over the highest line, for its label
constexpr float kLeastMemoryRowHeight = 62;  // name, peak and plot stand under one another
constexpr int kLeastRows = 2;                // where that height allows it

// Of all Schedules of the run.
int64_t LargestPrediction(const query::Snapshot& snapshot) {
  int64_t largest = 0;
  for (const auto& [id, schedule] : snapshot.schedules) {
    largest = std::max({largest, schedule.largest.predicted_bytes, schedule.largest.bound_bytes});
  }
  return largest;
}

// Beside the panel's own title, unless other panels' tabs stand there too.
float LegendY(const Look& look, float content_top) {
  const ImGuiWindow* window = ImGui::GetCurrentWindow();
  const ImGuiDockNode* node = window->DockNode;
  if (node == nullptr || node->TabBar == nullptr || node->Windows.Size > 1) return content_top;
  return window->Pos.y + (node->TabBar->BarRect.GetHeight() - look.Px(18)) / 2;
}

// In a plot from 0 at the bottom to `max_bytes` at the top.
float BytesY(const ui::Box& plot, int64_t bytes, int64_t max_bytes) {
  const double share = static_cast<double>(bytes) / static_cast<double>(max_bytes);
  return plot.y1 - std::round((plot.y1 - plot.y0) * static_cast<float>(share));
}

// Bytes under the word that says what of.
void DrawPeak(const Look& look, const std::string& id, const char* word, int64_t bytes, ImVec2 at,
              ui::DrawLog* log) {
  widgets::DrawText(look, widgets::FaintOf(look), at, word);
  const std::string value = FormatBytes(bytes);
  widgets::TextStyle style = widgets::DimOf(look);
  style.size = ui::kSmallTextSize;
  log->Int(id, value, bytes, "B",
           widgets::DrawText(look, style, {at.x, at.y + look.Px(13)}, value));
}

// Most of the GPU that was in use, or that its driver handed to this process.
void DrawDevicePeak(const Look& look, const ui::Context& context, const analysis::MemoryPeak& peak,
                    ImVec2 at, float bottom, ui::DrawLog* log) {
  const bool used = peak.device_peak_bytes > 0;
  const int64_t bytes = used ? peak.device_peak_bytes : peak.driver_peak_bytes;
  if (bytes == 0) return;
  if (peak.peak_bytes == 0) at.y -= look.Px(28);  // stands in its place
  if (at.y + look.Px(27) > bottom) return;
  const char* word =
      ui::Tr(context.language, used ? ui::Text::kMemoryGpuUsed : ui::Text::kMemoryFromDriver);
  DrawPeak(look, "device_peak:" + std::to_string(peak.rank), word, bytes, at, log);
}

// The bands at this place, from the top, a line each.
std::string DeviceText(const ui::Context& context, const DeviceMemory& device, float x) {
  std::string text;
  for (auto band = device.bands.rbegin(); band != device.bands.rend(); ++band) {
    if (x < band->x0 || x >= band->x1) continue;
    if (!text.empty()) text += '\n';
    text +=
        std::string(ui::Tr(context.language, LookOfBand(*context.theme, band->kind).term.name)) +
        "  " + FormatBytes(band->high_bytes - band->low_bytes);
  }
  return text;
}

// Which of a rank's segments are NCCL's; empty until the Report is there.
const std::vector<bool>& NcclSegments(const ui::Context& context, int32_t rank) {
  static const std::vector<bool> kNone;
  if (context.report == nullptr) return kNone;
  const auto found = context.report->nccl_segments.find(rank);
  return found == context.report->nccl_segments.end() ? kNone : found->second;
}

// And none will come.
bool HasNone(const query::Snapshot& snapshot) {
  if (snapshot.loading || query::MayGrow(snapshot.state)) return false;
  return std::all_of(snapshot.ranks.begin(), snapshot.ranks.end(), [](const query::RankRows& rows) {
    return rows.memory.empty() && rows.segments.empty() && rows.device_used.empty();
  });
}

// What the highest place of a drawn stack is made of, its first column where several are as high.
void NoteHighest(const MemoryStack& stack, int32_t rank, const ui::Box& row, ui::DrawLog* log) {
  if (!log->enabled()) return;
  const StackBox* highest = nullptr;
  for (const StackBox& box : stack.boxes) {
    const bool is_higher = highest == nullptr || box.high_bytes > highest->high_bytes ||
                           (box.high_bytes == highest->high_bytes && box.x0 < highest->x0);
    if (is_higher) highest = &box;
  }
  if (highest == nullptr) return;
  for (const StackBox& box : stack.boxes) {
    if (box.x0 > highest->x0 || box.x1 <= highest->x0) continue;
    const int64_t bytes = box.high_bytes - box.low_bytes;
    log->Int(fmt::format("highest:{}:{}", rank, Name(box.category)), FormatBytes(bytes), bytes, "B",
             {box.x0, row.y0, box.x1, row.y1});
  }
}

}  // namespace

void MemoryPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const query::Snapshot* snapshot = context.snapshot.get();
  const PanelFrame frame{context, look, log, commands};
  if (snapshot == nullptr || snapshot->ranks.empty()) {
    return frame.Empty(ui::Text::kMemoryEmpty);
  }
  if (HasNone(*snapshot)) {
    return frame.Empty(snapshot->IsImported() ? ui::Text::kMemoryNoneImported
                                              : ui::Text::kMemoryNone);
  }
  if (snapshot->run_folder != run_folder_ || snapshot->generation < generation_) ranks_.clear();
  if (snapshot->run_folder != run_folder_) first_row_ = 0;
  run_folder_ = snapshot->run_folder;
  generation_ = snapshot->generation;

  const Axis axis = timeline::WindowAxis(context);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const float bottom = top.y + std::max(ImGui::GetContentRegionAvail().y, look.Px(40));
  const float legend_y = LegendY(look, top.y);
  const bool nccl =
      std::any_of(snapshot->ranks.begin(), snapshot->ranks.end(), [&](const auto& rows) {
        const std::vector<bool>& of_nccl = NcclSegments(context, rows.rank);
        return std::find(of_nccl.begin(), of_nccl.end(), true) != of_nccl.end();
      });
  const ui::Box legend{axis.left(), legend_y, axis.right(),
                       bottom - look.Px(kLeastMemoryRowHeight)};
  const float legend_end = DrawMemoryLegend(context, legend, nccl, log);
  const float plots_top = std::max(top.y, legend_end + look.Px(kLegendGap));
  const ui::Box below{top.x, plots_top, axis.right(), bottom - look.Px(kLeastMemoryRowHeight)};
  const ui::Box box{axis.left(), DrawOutOfMemory(context, below, &put_away_, log), axis.right(),
                    bottom};
  // Lines of changes and errors run through no text over the plots.
  const float lines_top = box.y0 > plots_top ? box.y0 : std::max(top.y, legend_end);
  const std::vector<Row> rows = MakeRows(context, axis, box);
  const int64_t max_bytes = TopBytes(context, rows);
  HandleMouse(context, axis, box, rows, log, commands);
  for (const Row& row : rows) DrawRow(context, axis, row, max_bytes, log);
  timeline::DrawChanges(context, timeline::ChangesOf(*snapshot), axis,
                        {box.x0, lines_top, box.x1, box.y1}, -1, nullptr);
  timeline::DrawErrors(context, analysis::ErrorsOf(*snapshot), axis,
                       {box.x0, lines_top, box.x1, box.y1}, -1, nullptr);
  log->Text("lines", "", {box.x0, lines_top, box.x1, box.y1});
  timeline::DrawArea(context, axis, box.y0, box.y1);
  timeline::DrawLens(context, axis, box.y0, box.y1);
  for (const Row& row : rows) {
    DrawBlockMoments(context, axis, row.rank, row.box, log);
    DrawLiveBytes(context, axis, row.rank, row.box, log);
  }
  timeline::DrawCursor(context, axis, box.y0, box.y1);
  DrawScrollBar(context, box, rows.size());
}

// That there are more ranks than `num_shown`, and where these are among them; as in the timeline.
void MemoryPanel::DrawScrollBar(const ui::Context& context, const ui::Box& box,
                                size_t num_shown) const {
  if (num_shown >= order_.size() || context.headless) return;
  const float pitch = (box.y1 - box.y0) / static_cast<float>(order_.size());
  const float y0 = box.y0 + pitch * std::round(first_row_);
  const float y1 = y0 + pitch * static_cast<float>(num_shown);
  ImGui::GetWindowDrawList()->AddRectFilled(
      {box.x1 + 2 * context.scale, y0}, {box.x1 + 5 * context.scale, y1},
      ui::WithAlpha(context.theme->ink.faint, 0.6F), 1.5F * context.scale);
}

int64_t MemoryPanel::TopBytes(const ui::Context& context, const std::vector<Row>& rows) const {
  int64_t largest = LargestPrediction(*context.snapshot);
  for (const Row& row : rows) {
    const RankMemory& memory = ranks_.at(row.rank);
    largest = std::max({largest, memory.stack.max_bytes, memory.device.max_bytes});
  }
  if (context.report != nullptr) {
    // The whole run's peak, so that the axis stays when the view moves.
    for (const analysis::MemoryPeak& peak : context.report->memory) {
      largest = std::max(largest, peak.peak_bytes);
    }
  }
  // A limit far above all that is there would leave no room for it.
  const int64_t limit_bytes = MemoryLimitOf(*context.snapshot);
  if (limit_bytes <= 2 * largest) largest = std::max(largest, limit_bytes);
  return timeline::RoundMaxBytes(
      std::llround(static_cast<double>(largest) * static_cast<double>(kHeadroom)));
}

// `ranks` may be others than in the frame before, or in another order: the first one that was shown
// stays, or, where it is hidden now, the next one. What is at the top stays there, and pinned ranks
// come into sight, as their lanes do.
void MemoryPanel::KeepFirstRow(const ui::Context& context, std::vector<int32_t> ranks) {
  const std::set<int32_t> pinned = std::exchange(pinned_, context.lanes.pinned_ranks);
  const std::vector<int32_t> before = std::exchange(order_, std::move(ranks));
  if (!std::includes(pinned.begin(), pinned.end(), pinned_.begin(), pinned_.end())) first_row_ = 0;
  const auto row = static_cast<size_t>(std::lround(std::max(first_row_, 0.0F)));
  if (row == 0 || before == order_) return;
  for (size_t at = row; at < before.size(); ++at) {
    const auto found = std::find(order_.begin(), order_.end(), before[at]);
    if (found == order_.end()) continue;
    first_row_ = static_cast<float>(found - order_.begin());
    return;
  }
}

// The rank of a hit at the top, unless it is in sight.
void MemoryPanel::ScrollToRevealed(const ui::Context& context, int num_shown) {
  if (!context.revealed.what) return;
  const auto found = std::find(order_.begin(), order_.end(), context.revealed.what->rank);
  if (found == order_.end()) return;
  const auto row = static_cast<float>(found - order_.begin());
  const float first = std::round(first_row_);
  if (row < first || row >= first + static_cast<float>(num_shown)) first_row_ = row;
}

std::vector<MemoryPanel::Row> MemoryPanel::MakeRows(const ui::Context& context, const Axis& axis,
                                                    const ui::Box& box) {
  const Look look = widgets::LookOf(context);
  KeepFirstRow(context, ui::RanksInOrder(*context.snapshot, context.lanes));
  const std::vector<int32_t>& ranks = order_;
  const int num_ranks = static_cast<int>(ranks.size());
  if (num_ranks == 0) return {};  // all are hidden
  const float height = box.y1 - box.y0;
  const int fitting = static_cast<int>(height / look.Px(kMemoryRowHeight));
  const int squeezed =
      std::clamp(static_cast<int>(height / look.Px(kLeastMemoryRowHeight)), 1, kLeastRows);
  const int shown = std::min(std::max(fitting, squeezed), num_ranks);
  const auto most = static_cast<float>(num_ranks - shown);
  if (std::exchange(shown_, context.lanes.shown) != context.lanes.shown) {
    const auto wanted = std::find(ranks.begin(), ranks.end(), context.lanes.shown_rank);
    if (wanted != ranks.end()) first_row_ = static_cast<float>(wanted - ranks.begin());
  }
  if (std::exchange(revealed_, context.revealed.count) != context.revealed.count) {
    ScrollToRevealed(context, shown);
  }
  first_row_ = std::clamp(first_row_, 0.0F, most);
  const auto first = static_cast<size_t>(std::lround(first_row_));
  const float pitch = height / static_cast<float>(shown);
  std::vector<Row> rows;
  for (int at = 0; at < shown; ++at) {
    const int32_t rank = ranks[first + static_cast<size_t>(at)];
    const float y = std::round(box.y0 + pitch * static_cast<float>(at));
    rows.push_back({rank, {box.x0, y + look.Px(12), box.x1, std::round(y + pitch - look.Px(10))}});
    Update(context, axis, rank);
  }
  return rows;
}

void MemoryPanel::Update(const ui::Context& context, const Axis& axis, int32_t rank) {
  RankMemory& memory = ranks_[rank];
  const timeline::RankIndex* index = context.index->Find(rank);
  const bool same = memory.version == context.index->rows_version() &&
                    memory.report == context.report && memory.range == axis.range() &&
                    memory.left == axis.left() && memory.width == axis.width();
  if (same || index == nullptr) return;
  memory.stack = MakeStack(index->memory, axis, context.snapshot->end_ns);
  if (const query::RankRows* rows = context.snapshot->FindRank(rank)) {
    const MemoryStack issued =
        index->issued_memory.size() == 0
            ? MemoryStack()
            : MakeStack(index->issued_memory, axis, context.snapshot->end_ns);
    memory.device =
        MakeDeviceMemory(*rows, {NcclSegments(context, rank), TracerBytes(*context.snapshot)},
                         {memory.stack, issued}, axis, context.snapshot->end_ns);
  }
  memory.version = context.index->rows_version();
  memory.report = context.report;
  memory.range = axis.range();
  memory.left = axis.left();
  memory.width = axis.width();
}

void MemoryPanel::DrawRow(const ui::Context& context, const Axis& axis, const Row& row,
                          int64_t max_bytes, ui::DrawLog* log) const {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ui::Theme& theme = *context.theme;
  const auto y_of = [&](int64_t bytes) { return BytesY(row.box, bytes, max_bytes); };
  for (const StackBox& box : ranks_.at(row.rank).stack.boxes) {
    const float y0 = y_of(box.high_bytes);
    const float y1 = y_of(box.low_bytes);
    if (y1 <= y0) continue;
    list->AddRectFilled({box.x0, y0}, {box.x1, y1}, ui::MemoryColor(theme, box.category));
  }
  NoteHighest(ranks_.at(row.rank).stack, row.rank, row.box, log);
  DrawDevice(context, row, max_bytes, log);
  list->AddRectFilled({row.box.x0, row.box.y1}, {row.box.x1, row.box.y1 + 1}, theme.surface.line);
  DrawRowLabels(context, row, max_bytes, log);
  DrawPlotLines(context, axis, {row.rank, row.box, max_bytes}, log);
}

void MemoryPanel::DrawDevice(const ui::Context& context, const Row& row, int64_t max_bytes,
                             ui::DrawLog* log) const {
  const DeviceMemory& device = ranks_.at(row.rank).device;
  const Look look = widgets::LookOf(context);
  const auto y_of = [&](int64_t bytes) { return BytesY(row.box, bytes, max_bytes); };
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (const DeviceBand& band : device.bands) {
    const ui::Box box{band.x0, y_of(band.high_bytes), band.x1, y_of(band.low_bytes)};
    if (box.y1 <= box.y0) continue;
    if (band.kind == DeviceBand::Kind::kFreeGap) {
      widgets::DrawHatch(box, look.Px(5), look.Px(1), look.theme.op.hatch);
    } else {
      list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1},
                          LookOfBand(look.theme, band.kind).color);
    }
  }
  const std::string rank = std::to_string(row.rank);
  const auto note = [&](const std::string& id, int64_t bytes) {
    if (bytes > 0) log->Int(id + ":" + rank, FormatBytes(bytes), bytes, "B", row.box);
  };
  note("driver", device.driver_bytes);
  note("reserved", device.reserved_bytes);
  note("nccl", device.nccl_bytes);
  note("tracer", device.tracer_bytes);
  note("used", device.used_bytes);
  note("free_gap", device.gap_bytes);
}

void MemoryPanel::DrawRowLabels(const ui::Context& context, const Row& row, int64_t max_bytes,
                                ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const float left = ImGui::GetWindowPos().x + look.Px(ui::kPanelPadding);
  const std::string name = ui::TrFormat(context.language, ui::Text::kRankN, row.rank);
  log->Int("rank:" + std::to_string(row.rank), name, row.rank, "",
           widgets::DrawText(look, widgets::BoldOf(look), {left, row.box.y0 - look.Px(7)}, name));
  if (context.report != nullptr) {
    for (const analysis::MemoryPeak& peak : context.report->memory) {
      if (peak.rank != row.rank) continue;
      DrawDevicePeak(look, context, peak, {left, row.box.y0 + look.Px(38)}, row.box.y1, log);
      if (peak.peak_bytes == 0) continue;  // nothing was recorded of it
      const ImVec2 at(left, row.box.y0 + look.Px(10));
      const char* word = ui::Tr(context.language, ui::Text::kMemoryRunPeak);
      DrawPeak(look, "peak:" + std::to_string(row.rank), word, peak.peak_bytes, at, log);
    }
  }
  const float right = row.box.x0 - look.Px(8);
  std::string top = FormatBytes(max_bytes);  // a round number: "40.0 MB" reads better as "40 MB"
  const size_t zeros = top.find(".0");
  if (zeros != std::string::npos) top.erase(zeros, top.find(' ') - zeros);
  log->Int(
      "axis_max:" + std::to_string(row.rank), top, max_bytes, "B",
      widgets::DrawTextRight(look, widgets::FaintOf(look), {right, row.box.y0 - look.Px(7)}, top));
  widgets::DrawTextRight(look, widgets::FaintOf(look), {right, row.box.y1 - look.Px(7)}, "0");
}

// A click asks for what is live there, block by block; with Ctrl for what came since.
void MemoryPanel::AskForBlocks(const Axis& axis, const std::vector<Row>& rows,
                               ui::Commands* commands) const {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!input_.clicked() || mouse.x < axis.left()) return;
  for (const Row& row : rows) {
    if (mouse.y < row.box.y0 || mouse.y > row.box.y1) continue;
    if (ImGui::GetIO().KeyCtrl) {
      commands->push_back(ui::CompareBlocks{axis.Ns(mouse.x), row.rank});
    } else {
      commands->push_back(ui::AskBlocks{row.rank, axis.Ns(mouse.x)});
    }
  }
}

void MemoryPanel::HandleMouse(const ui::Context& context, const Axis& axis, const ui::Box& box,
                              const std::vector<Row>& rows, ui::DrawLog* log,
                              ui::Commands* commands) {
  input_.Handle(context, axis, "##memory", box, commands);
  if (context.headless) return;
  // A drag scrolls rows, as it does the timeline's lanes.
  const float pitch =
      std::max(box.y1 - box.y0, 1.0F) / std::max(1.0F, static_cast<float>(rows.size()));
  first_row_ -= input_.vertical_drag() / pitch;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const auto on_plot = [&](const Row& row) {
    return mouse.y >= row.box.y0 && mouse.y <= row.box.y1;
  };
  const auto under_mouse = std::find_if(rows.begin(), rows.end(), on_plot);
  input_.Hold(under_mouse != rows.end(), commands);
  if (input_.on_axis() && under_mouse != rows.end()) {
    commands->push_back(ui::SetHover{axis.Ns(mouse.x), under_mouse->rank});
  }
  AskForBlocks(axis, rows, commands);
  if (!ImGui::IsItemHovered()) return;
  if (mouse.x < axis.left()) {
    first_row_ -= ImGui::GetIO().MouseWheel;
    return;
  }
  if (ImGui::IsItemActive()) return;
  const Look look = widgets::LookOf(context);
  for (const Row& row : rows) {
    if (!on_plot(row)) continue;
    const int64_t at_ns = axis.Ns(mouse.x);
    const timeline::RankIndex* index = context.index->Find(row.rank);
    if (index == nullptr || at_ns > context.snapshot->end_ns) return;
    const size_t after = index->memory.FirstAt(at_ns + 1);
    analysis::MemoryTimeline::Point live;
    if (after > 0) live = index->memory.At(after - 1);
    std::string detail = DeviceText(context, ranks_.at(row.rank).device, mouse.x);
    if (after == 0 && detail.empty()) return;
    for (size_t at = kStackOrder.size(); at-- > 0;) {
      const int64_t bytes = live.bytes[static_cast<size_t>(kStackOrder[at])];
      if (bytes <= 0) continue;
      if (!detail.empty()) detail += '\n';
      detail += std::string(ui::MemoryCategoryName(context.language, kStackOrder[at])) + "  " +
                FormatBytes(bytes);
    }
    const std::string title =
        ui::TrFormat(context.language, ui::Text::kMemoryLive, FormatBytes(live.total));
    log->Text("tooltip", title + "\n" + detail,
              widgets::Tooltip(look, title, detail, look.theme.surface.line));
  }
}

}  // namespace shardscope::panels
