#include "ui/panels/collectives/collective_scatter.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using analysis::CollectivePoint;
using analysis::CollectiveTable;
using widgets::Look;

constexpr float kAxisLeft = 74;
constexpr float kAxisBottom = 18;
constexpr float kPointSize = 3.2F;
constexpr float kGrasp = 9;  // pixels from the mouse to a point
constexpr int kNumShapes = 4;

// One axis, in powers of ten, with room beside what it has to show.
class LogAxis {
 public:
  void Include(double value) {
    low_ = std::min(low_, std::log10(value));
    high_ = std::max(high_, std::log10(value));
  }
  bool has_any() const { return low_ <= high_; }
  void Settle() {
    const double room = std::max(0.12, (high_ - low_) * 0.08);
    low_ -= room;
    high_ += room;
  }
  float Share(double value) const {
    return static_cast<float>((std::log10(value) - low_) / (high_ - low_));
  }
  int first_power() const { return static_cast<int>(std::floor(low_)); }
  int last_power() const { return static_cast<int>(std::ceil(high_)); }
  bool Shows(double value) const { return std::log10(value) >= low_ && std::log10(value) <= high_; }

 private:
  double low_ = std::numeric_limits<double>::max();
  double high_ = std::numeric_limits<double>::lowest();
};

// The order of kinds gives each its shape.
std::map<std::string, int> ShapesOf(const CollectiveTable& table) {
  std::map<std::string, int> shapes;
  for (const analysis::CollectiveGroup& group : table.groups) shapes[group.key.kind] = 0;
  int next = 0;
  for (auto& [kind, shape] : shapes) shape = next++ % kNumShapes;
  return shapes;
}

void DrawShape(ImVec2 at, float size, int shape, ui::Color color) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  switch (shape) {
    case 0:
      list->AddCircleFilled(at, size, color, 10);
      break;
    case 1:
      list->AddTriangleFilled({at.x, at.y - size * 1.2F}, {at.x + size * 1.1F, at.y + size * 0.9F},
                              {at.x - size * 1.1F, at.y + size * 0.9F}, color);
      break;
    case 2:
      list->AddRectFilled({at.x - size * 0.9F, at.y - size * 0.9F},
                          {at.x + size * 0.9F, at.y + size * 0.9F}, color);
      break;
    default:
      list->AddQuadFilled({at.x, at.y - size * 1.3F}, {at.x + size * 1.3F, at.y},
                          {at.x, at.y + size * 1.3F}, {at.x - size * 1.3F, at.y}, color);
  }
}

ui::Color ColorOfKind(const ui::Theme& theme, const std::string& kind) {
  const auto op_class = words::ParseOpClass(kind);
  return ui::OpColor(theme, op_class.value_or(query::OpClass::kSendReceive));
}

struct Plot {
  ui::Box box;
  LogAxis x;
  LogAxis y;

  ImVec2 At(const CollectivePoint& point) const {
    return {box.x0 + (box.x1 - box.x0) * x.Share(static_cast<double>(point.payload_bytes)),
            box.y1 - (box.y1 - box.y0) * y.Share(point.bus_bandwidth)};
  }
};

void DrawAxes(const Look& look, const Plot& plot) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ui::Box& box = plot.box;
  list->AddRect({box.x0, box.y0}, {box.x1, box.y1}, look.theme.surface.line);
  const widgets::TextStyle style = widgets::FaintOf(look);
  for (const double step : {1.0, 2.0, 5.0}) {
    for (int power = plot.x.first_power(); power <= plot.x.last_power(); ++power) {
      const double value = step * std::pow(10, power);
      if (!plot.x.Shows(value)) continue;
      const float x = box.x0 + (box.x1 - box.x0) * plot.x.Share(value);
      list->AddLine({x, box.y0}, {x, box.y1}, ui::WithAlpha(look.theme.surface.line, 0.6F));
      const bool is_wide = plot.x.last_power() - plot.x.first_power() > 3;
      if (step > 1 && is_wide) continue;
      const std::string text = FormatBytes(std::llround(value));
      widgets::DrawText(
          look, style, {x - widgets::TextSize(look, style, text).x / 2, box.y1 + look.Px(3)}, text);
    }
    for (int power = plot.y.first_power(); power <= plot.y.last_power(); ++power) {
      const double value = step * std::pow(10, power);
      if (!plot.y.Shows(value)) continue;
      const float y = box.y1 - (box.y1 - box.y0) * plot.y.Share(value);
      list->AddLine({box.x0, y}, {box.x1, y}, ui::WithAlpha(look.theme.surface.line, 0.6F));
      const bool is_wide = plot.y.last_power() - plot.y.first_power() > 3;
      if (step > 1 && is_wide) continue;
      widgets::DrawTextRight(look, style, {box.x0 - look.Px(6), y - look.Px(6)},
                             FormatBandwidth(value));
    }
  }
}

}  // namespace

void DrawCollectiveScatter(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                           ui::Commands* commands) {
  const CollectiveTable& table = *context.collectives;
  const Look look = widgets::LookOf(context);
  const std::map<std::string, int> shapes = ShapesOf(table);
  const char* title = ui::Tr(context.language, ui::Text::kCollectivesScatter);
  float x = widgets::DrawText(look, widgets::BoldOf(look), {box.x0, box.y0}, title).x1;
  for (const auto& [kind, shape] : shapes) {
    x += look.Px(18);
    DrawShape({x, box.y0 + look.Px(7)}, look.Px(4), shape, ColorOfKind(look.theme, kind));
    x = widgets::DrawText(look, widgets::FaintOf(look), {x + look.Px(8), box.y0}, kind).x1;
  }
  Plot plot;
  plot.box = {box.x0 + look.Px(kAxisLeft), box.y0 + look.Px(20), box.x1 - look.Px(8),
              box.y1 - look.Px(kAxisBottom)};
  for (const CollectivePoint& point : table.points) {
    if (point.payload_bytes <= 0) continue;
    plot.x.Include(static_cast<double>(point.payload_bytes));
    plot.y.Include(point.bus_bandwidth);
  }
  if (!plot.x.has_any() || plot.box.y1 - plot.box.y0 < look.Px(20)) return;
  plot.x.Settle();
  plot.y.Settle();
  DrawAxes(look, plot);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const CollectivePoint* nearest = nullptr;
  float nearest_distance = look.Px(kGrasp);
  for (const CollectivePoint& point : table.points) {
    if (point.payload_bytes <= 0) continue;
    const std::string& kind = table.groups[point.group].key.kind;
    const ImVec2 at = plot.At(point);
    DrawShape(at, look.Px(kPointSize), shapes.at(kind),
              ui::WithAlpha(ColorOfKind(look.theme, kind), 0.75F));
    const float distance = std::hypot(at.x - mouse.x, at.y - mouse.y);
    if (distance >= nearest_distance) continue;
    nearest_distance = distance;
    nearest = &point;
  }
  log->Int("points", title, static_cast<int64_t>(table.points.size()), "", plot.box);
  ImGui::SetCursorScreenPos({plot.box.x0, plot.box.y0});
  const bool clicked =
      ImGui::InvisibleButton("##scatter", {plot.box.x1 - plot.box.x0, plot.box.y1 - plot.box.y0});
  if (nearest == nullptr || !ImGui::IsItemHovered() || context.headless) return;
  DrawShape(plot.At(*nearest), look.Px(5), shapes.at(table.groups[nearest->group].key.kind),
            look.theme.ink.text);
  const analysis::CollectiveGroupKey& key = table.groups[nearest->group].key;
  const std::string name = key.kind + " " + key.unit;
  widgets::Tooltip(
      look, name,
      ui::TrFormat(context.language, ui::Text::kCollectivesPointTip,
                   FormatBytes(nearest->payload_bytes), FormatBandwidth(nearest->bus_bandwidth),
                   nearest->rank, nearest->step),
      look.theme.surface.line);
  if (!clicked) return;
  commands->push_back(ui::ShowOp{nearest->op_run, nearest->rank});
}

}  // namespace shardscope::panels
