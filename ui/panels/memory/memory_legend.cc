#include "ui/panels/memory/memory_legend.h"

#include <imgui.h>

#include <algorithm>
#include <vector>

#include "ui/widgets/labels.h"
#include "ui/widgets/legend.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using widgets::Look;

// Categories that some rank ever used, in the legend's order: from the bottom of the stack.
std::vector<query::MemoryCategory> UsedCategories(const ui::Context& context) {
  std::vector<query::MemoryCategory> used;
  for (const query::MemoryCategory category : kStackOrder) {
    bool any = context.report == nullptr;
    if (context.report != nullptr) {
      for (const analysis::MemoryPeak& peak : context.report->memory) {
        any = any || peak.peak_of[static_cast<size_t>(category)] > 0;
      }
    }
    if (any) used.push_back(category);
  }
  return used;
}

struct NamedColor {
  ui::Term term;
  ui::Color color;
  bool hatched = false;
};

// What lies over the stack of a GPU's rank, where some rank has rows of it.
void AddDeviceEntries(const ui::Context& context, bool nccl, std::vector<NamedColor>* colors) {
  const auto any = [&](const auto& has) {
    const std::vector<query::RankRows>& ranks = context.snapshot->ranks;
    return std::any_of(ranks.begin(), ranks.end(), has);
  };
  const auto add = [&](DeviceBand::Kind kind) {
    const BandLook look = LookOfBand(*context.theme, kind);
    colors->push_back({look.term, look.color, kind == DeviceBand::Kind::kFreeGap});
  };
  using Rows = query::RankRows;
  if (any([](const Rows& rows) { return !rows.gpu_work.empty() && !rows.memory.empty(); })) {
    add(DeviceBand::Kind::kFreeGap);
  }
  if (any([](const Rows& rows) { return !rows.segments.empty(); })) {
    if (any([](const Rows& rows) { return !rows.reserved.empty(); })) {
      add(DeviceBand::Kind::kReserved);
    }
    if (nccl) add(DeviceBand::Kind::kNccl);
    add(DeviceBand::Kind::kOthers);
  }
  if (any([](const Rows& rows) { return !rows.device_used.empty(); })) {
    if (TracerBytes(*context.snapshot) > 0) add(DeviceBand::Kind::kTracer);
    add(DeviceBand::Kind::kContext);
  }
}

}  // namespace

BandLook LookOfBand(const ui::Theme& theme, DeviceBand::Kind kind) {
  const auto mixed = [&theme](ui::Color color, float share) {
    return ui::Mix(theme.surface.panel, color, share);
  };
  switch (kind) {
    case DeviceBand::Kind::kReserved:
      return {{ui::Text::kMemoryReserved, ui::Text::kMemoryReservedTip},
              mixed(theme.ink.dim, 0.22F)};
    case DeviceBand::Kind::kNccl:
      return {{ui::Text::kMemoryNccl, ui::Text::kMemoryNcclTip}, mixed(theme.op.all_gather, 0.45F)};
    case DeviceBand::Kind::kOthers:
      return {{ui::Text::kMemoryOthers, ui::Text::kMemoryOthersTip}, mixed(theme.ink.dim, 0.6F)};
    case DeviceBand::Kind::kTracer:
      return {{ui::Text::kMemoryTracer, ui::Text::kMemoryTracerTip},
              mixed(theme.state.accent, 0.45F)};
    case DeviceBand::Kind::kContext:
      return {{ui::Text::kMemoryContext, ui::Text::kMemoryContextTip},
              mixed(theme.op.optimizer, 0.35F)};
    case DeviceBand::Kind::kFreeGap:
      break;
  }
  return {{ui::Text::kMemoryFreeGap, ui::Text::kMemoryFreeGapTip}, theme.op.wait};
}

float DrawMemoryLegend(const ui::Context& context, const ui::Box& box, bool nccl,
                       ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const widgets::LegendStyle style{
      .text = {look.fonts.text, ui::kSmallTextSize, look.theme.ink.dim}};
  std::vector<NamedColor> colors;
  for (const query::MemoryCategory category : UsedCategories(context)) {
    colors.push_back(
        {ui::kMemoryTerms[static_cast<size_t>(category)], ui::MemoryColor(look.theme, category)});
  }
  AddDeviceEntries(context, nccl, &colors);
  std::vector<widgets::LegendEntry> entries;
  for (const NamedColor& one : colors) {
    const auto draw = [&look, one](const ui::Box& swatch) {
      widgets::DrawSwatch(look, {swatch.x0, swatch.y0}, 9, one.color, one.hatched);
    };
    entries.push_back({ui::Tr(ui::Language::kEnglish, one.term.name),
                       ui::Tr(context.language, one.term.name),
                       ui::Tr(context.language, one.term.tip), draw});
  }
  ImDrawList* list = ImGui::GetWindowDrawList();
  // The line of the tabs lies outside the panel's own clip rectangle, but in its window, which may
  // be narrower than the axis.
  const ImVec2 window = ImGui::GetWindowPos();
  const ImVec2 window_end(window.x + ImGui::GetWindowWidth(), window.y + ImGui::GetWindowHeight());
  list->PushClipRect({std::max(box.x0, window.x), std::max(box.y0, window.y)},
                     {std::min(box.x1, window_end.x),
                      std::min(std::max(box.y1, box.y0 + look.Px(style.line)), window_end.y)});
  const float bottom = widgets::DrawLegend(look, entries, box, style, log);
  list->PopClipRect();
  return bottom;
}

}  // namespace shardscope::panels
