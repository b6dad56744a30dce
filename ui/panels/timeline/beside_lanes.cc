#include "ui/panels/timeline/beside_lanes.h"

#include <imgui.h>

#include <cmath>

#include "trace/base/text.h"
#include "ui/open_error.h"
#include "ui/panels/timeline/under_lanes.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::panels {
namespace {

using ui::Text;

const ui::BesideStep* StepOf(const ui::Context& context) {
  const ui::CompareState& compare = context.compare;
  if (!compare.under_lanes || compare.beside == nullptr || compare.made == nullptr) return nullptr;
  return compare.beside->step_b >= 0 ? compare.beside.get() : nullptr;
}

}  // namespace

void DrawBesideLanes(const ui::Context& context, const TimelineOverlay::Frame& frame,
                     ui::DrawLog* log) {
  const ui::BesideStep* step = StepOf(context);
  if (step == nullptr) return;
  const int64_t shown_at_ns = step->shown_at_ns();
  int64_t drawn = 0;
  for (const timeline::Lane& lane : frame.layout.lanes) {
    const auto ops = step->ranks.find(lane.rank);
    const UnderLane under(context, frame, lane);
    const bool has_ops = lane.source.rows == timeline::LaneRows::kOps && ops != step->ranks.end();
    if (!has_ops || !under.is_in_sight()) continue;
    for (const ui::BesideOp& op : ops->second) {
      if (timeline::LaneThatShows(op.role) != lane.source.kind) continue;
      const auto box = under.BoxOf({shown_at_ns + op.started_ns, shown_at_ns + op.ended_ns});
      if (!box) continue;
      const ui::Color color = ui::OpColor(*context.theme, op.op_class);
      ImDrawList* list = ImGui::GetWindowDrawList();
      list->AddRectFilled({box->x0, box->y0}, {box->x1, box->y1}, ui::WithAlpha(color, 0.55F));
      list->AddRect({box->x0, box->y0}, {box->x1, box->y1}, color, 0, 1);
      ++drawn;
    }
  }
  log->Int("beside_ops", "", drawn, "", frame.box);
}

std::string BesideSentence(const ui::Context& context) {
  const ui::Language language = context.language;
  const ui::CompareState& compare = context.compare;
  if (!compare.asked) return ui::Tr(language, Text::kBesideChoose);
  if (compare.made == nullptr || compare.is_making()) return ui::Tr(language, Text::kBesideMaking);
  const ui::Compared& made = *compare.made;
  if (!made.error.empty()) {
    return Printable(ui::OpenErrorText(language, made.with.path, made.is_missing, made.error), "");
  }
  if (compare.beside == nullptr) return ui::Tr(language, Text::kBesideMaking);
  const ui::BesideStep& step = *compare.beside;
  if (step.step_b < 0) return ui::Tr(language, Text::kBesideNoStep);
  std::string sentence = ui::TrFormat(
      language, Text::kBesideStep, Printable(compare.made->comparison.b.name, ""), step.step_b,
      ui::FormatDuration(step.b_ns), step.step_a, ui::FormatDuration(step.a_ns));
  if (step.num_missing_ranks > 0) {
    sentence += ui::TrFormat(language, Text::kBesideRanks, step.num_missing_ranks);
  }
  if (!step.has_selected) return sentence;
  if (!step.match) return sentence + ui::Tr(language, Text::kBesideNotInB);
  const ui::BesideMatch& match = *step.match;
  return sentence + ui::TrFormat(language,
                                 match.later_ns < 0 ? Text::kBesideEarlier : Text::kBesideLater,
                                 ui::FormatDuration(std::abs(match.later_ns)),
                                 ui::FormatDuration(match.b_ns), ui::FormatDuration(match.a_ns));
}

float DrawBesideSentence(const ui::Context& context, const timeline::Axis& axis, float top,
                         ui::DrawLog* log) {
  return DrawLineUnderRuler(context, axis, top, {"beside", BesideSentence(context)}, log);
}

}  // namespace shardscope::panels
