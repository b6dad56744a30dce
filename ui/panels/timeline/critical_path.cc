#include "ui/panels/timeline/critical_path.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/collectives/hang.h"
#include "trace/base/units.h"
#include "trace/query/find_op_run.h"
#include "ui/panels/timeline/hit_marks.h"
#include "ui/text.h"
#include "ui/theme.h"
#include "ui/timeline/steps.h"
#include "ui/values.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using analysis::PathKind;
using analysis::PathPart;
using timeline::Axis;
using timeline::Lane;
using timeline::LaneKind;
using widgets::Look;

constexpr float kPathThickness = 2;
constexpr float kPathHalo = 4;  // in the panel's colour, so that it stands out on every span
constexpr float kPathDash = 4;
constexpr float kPathLine = 18;  // of the legend
constexpr float kPathSwatch = 18;
constexpr size_t kMostNamed = 6;  // in the tooltip of a kind
constexpr size_t kMostRanksNamed = 8;

struct KindTexts {
  ui::Text name;
  ui::Text tip;
};

// In the order of PathKind; the English names are the analysis's.
constexpr std::array<KindTexts, analysis::kNumPathKinds> kKindTexts = {{
    {ui::Text::kPathCompute, ui::Text::kPathComputeTip},
    {ui::Text::kPathOptimizer, ui::Text::kPathOptimizerTip},
    {ui::Text::kPathTransfer, ui::Text::kPathTransferTip},
    {ui::Text::kPathCopy, ui::Text::kPathCopyTip},
    {ui::Text::kPathHost, ui::Text::kPathHostTip},
    {ui::Text::kPathSlot, ui::Text::kPathSlotTip},
    {ui::Text::kPathWait, ui::Text::kPathWaitTip},
}};

bool IsWait(PathKind kind) {
  return kind == PathKind::kHost || kind == PathKind::kSlot || kind == PathKind::kWait;
}

// A line with its halo, straight along one axis.
void DrawPathLine(const Look& look, ImVec2 from, ImVec2 to, bool dashed) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float halo = look.Px(kPathHalo);
  const float width = look.Px(kPathThickness);
  list->AddLine(from, to, look.theme.surface.panel, halo);
  if (!dashed) {
    list->AddLine(from, to, look.theme.ink.text, width);
    return;
  }
  const float dash = look.Px(kPathDash);
  for (float x = from.x; x < to.x; x += 2 * dash) {
    list->AddLine({x, from.y}, {std::min(x + dash, to.x), to.y}, look.theme.ink.text, width);
  }
}

void DrawPathBox(const Look& look, const ui::Box& box) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float half = look.Px(kPathThickness) / 2;
  const ImVec2 min(box.x0 + half, box.y0 + half);
  const ImVec2 max(std::max(box.x1 - half, min.x + 1), box.y1 - half);
  list->AddRect(min, max, look.theme.surface.panel, 0, look.Px(kPathHalo));
  list->AddRect(min, max, look.theme.ink.text, 0, look.Px(kPathThickness));
}

// Draws stretches that follow one another in time.
class PathPainter {
 public:
  PathPainter(const ui::Context& context, const TimelineOverlay::Frame& frame, ui::DrawLog* log)
      : context_(context),
        frame_(frame),
        look_(widgets::LookOf(context)),
        lanes_(*context.snapshot, frame.layout),
        log_(log) {
    for (const Lane& lane : frame.layout.lanes) {
      const bool is_host =
          lane.source.kind == LaneKind::kHost || lane.source.kind == LaneKind::kFolded;
      if (is_host) hosts_[lane.rank] = &lane;
    }
  }

  void Draw(const PathPart& part) {
    const auto run = query::FindOpRun(*context_.snapshot, part.rank, part.op_run);
    const bool ran = run && part.start_ns >= run->started_ns;
    const Lane* lane = LaneOfPart(part, ran ? PathKind::kCompute : part.kind, run);
    if (lane == nullptr) {  // of a rank that is hidden
      before_.reset();
      return;
    }
    const float y = frame_.origin + lane->y;
    const float x0 = std::round(frame_.axis.X(part.start_ns));
    const float x1 = std::max(std::round(frame_.axis.X(part.end_ns)), x0 + 1);
    const ui::Box box{x0, y, x1, y + lane->height};
    const float middle = std::round((box.y0 + box.y1) / 2);
    if (before_ && *before_ != middle) DrawPathLine(look_, {x0, *before_}, {x0, middle}, false);
    // Of those on the same pixels the first.
    const bool is_new = lane != lane_ || x1 > end_;
    if (is_new && ran) DrawPathBox(look_, box);
    if (is_new && !ran) DrawPathLine(look_, {x0, middle}, {x1, middle}, true);
    before_ = middle;
    lane_ = lane;
    end_ = x1;
    if (!log_->enabled()) return;
    log_->Int(fmt::format("path:{}:{}", part.rank, part.op_run.value()),
              fmt::format("{} {}", Name(part.kind), part.name), part.end_ns - part.start_ns, "ns",
              box);
  }

 private:
  // Where the host was not ready, its own; else that of the op that ran or waited.
  const Lane* LaneOfPart(const PathPart& part, PathKind kind,
                         const std::optional<query::OpRun>& run) const {
    if (!run || kind == PathKind::kHost) {
      const auto host = hosts_.find(part.rank);
      return host == hosts_.end() ? nullptr : host->second;
    }
    analysis::SearchHit place;
    place.what = analysis::HitKind::kOp;
    place.rank = part.rank;
    place.track = run->track;
    return lanes_.Find(*context_.snapshot, place);
  }

  const ui::Context& context_;
  const TimelineOverlay::Frame& frame_;
  const Look look_;
  const LanesOfTracks lanes_;
  std::map<int32_t, const Lane*> hosts_;
  ui::DrawLog* log_;
  std::optional<float> before_;  // middle of the lane of the stretch before; none: there is none
  const Lane* lane_ = nullptr;
  float end_ = 0;
};

// Time and share of each kind, in the order of PathKind.
struct KindSum {
  double ns = 0;
  double share = 0;
  std::string names;  // of its dearest groups, with their times
  size_t num_named = 0;
};

std::array<KindSum, analysis::kNumPathKinds> SumsOf(const analysis::StepPath& path) {
  std::array<KindSum, analysis::kNumPathKinds> sums;
  for (const analysis::PathGroup& group : path.groups) {
    KindSum& sum = sums[static_cast<size_t>(group.kind)];
    sum.ns += group.ns_per_step;
    sum.share += group.share;
    if (group.name.empty() || ++sum.num_named > kMostNamed) continue;
    if (!sum.names.empty()) sum.names += ", ";
    sum.names += group.name + " " + ui::FormatDuration(group.ns_per_step);
  }
  return sums;
}

// The ranks that it goes through: those that hold it longest, ascending.
std::string RanksText(ui::Language language, const analysis::StepPath& path) {
  std::map<int32_t, int64_t> of_rank;
  for (const PathPart& part : path.parts) of_rank[part.rank] += part.end_ns - part.start_ns;
  std::vector<std::pair<int64_t, int32_t>> longest;
  for (const auto& [rank, ns] : of_rank) longest.emplace_back(-ns, rank);
  std::sort(longest.begin(), longest.end());
  const size_t more = longest.size() - std::min(longest.size(), kMostRanksNamed);
  longest.resize(longest.size() - more);
  std::vector<int32_t> ranks;
  for (const auto& [ns, rank] : longest) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  const std::string text = analysis::RankList(ranks);
  return more == 0 ? text : text + " " + ui::TrFormat(language, ui::Text::kLensMoreRanks, more);
}

// Writes entries beside one another, wrapped.
class PathLegend {
 public:
  PathLegend(const ui::Context& context, const Axis& axis, float top, ui::DrawLog* log)
      : context_(context),
        look_(widgets::LookOf(context)),
        style_{look_.fonts.text, ui::kSmallTextSize, look_.theme.ink.text},
        left_(axis.left()),
        right_(axis.right()),
        log_(log),
        x_(axis.left()),
        y_(top) {}

  float bottom() const { return y_ + look_.Px(kPathLine); }

  void Title(const std::string& text) {
    widgets::TextStyle style = style_;
    style.font = look_.fonts.bold;
    MakeRoom(widgets::TextSize(look_, style, text).x);
    const ui::Box box = widgets::DrawText(look_, style, {x_, y_ + look_.Px(2)}, text);
    log_->Text("critical_path", text, box);
    x_ = box.x1 + look_.Px(14);
  }

  void Kind(PathKind kind, const KindSum& sum) {
    const KindTexts& texts = kKindTexts[static_cast<size_t>(kind)];
    const std::string text = fmt::format("{} {} {}", ui::Tr(context_.language, texts.name),
                                         ui::FormatDuration(sum.ns), FormatPercent(sum.share));
    const float width = look_.Px(kPathSwatch + 5) + widgets::TextSize(look_, style_, text).x;
    MakeRoom(width);
    const ui::Box swatch{x_, y_ + look_.Px(4), x_ + look_.Px(kPathSwatch), y_ + look_.Px(14)};
    const float middle = std::round((swatch.y0 + swatch.y1) / 2);
    if (IsWait(kind)) {
      DrawPathLine(look_, {swatch.x0, middle}, {swatch.x1, middle}, true);
    } else {
      DrawPathBox(look_, swatch);
    }
    const ui::Box drawn =
        widgets::DrawText(look_, style_, {swatch.x1 + look_.Px(5), y_ + look_.Px(2)}, text);
    const ui::Box box{swatch.x0, y_, drawn.x1, bottom()};
    log_->Real(fmt::format("path_part:{}", Name(kind)), text, sum.ns, "ns", box);
    const bool hovered =
        !context_.headless && ImGui::IsMouseHoveringRect({box.x0, box.y0}, {box.x1, box.y1});
    if (hovered) {
      const std::string tip = ui::Tr(context_.language, texts.tip);
      widgets::Tooltip(look_, text, sum.names.empty() ? tip : tip + " " + sum.names,
                       look_.theme.surface.line);
    }
    x_ += width + look_.Px(14);
  }

 private:
  void MakeRoom(float width) {
    if (x_ <= left_ || x_ + width <= right_) return;
    x_ = left_;
    y_ += look_.Px(kPathLine);
  }

  const ui::Context& context_;
  const Look look_;
  const widgets::TextStyle style_;
  const float left_;
  const float right_;
  ui::DrawLog* log_;
  float x_;
  float y_;
};

}  // namespace

void DrawCriticalPath(const ui::Context& context, const TimelineOverlay::Frame& frame,
                      ui::DrawLog* log) {
  if (!context.critical_path.is_on || context.critical_path.made == nullptr) return;
  const std::vector<PathPart>& parts = context.critical_path.made->parts;
  const timeline::Range& range = frame.axis.range();
  const auto first = std::partition_point(parts.begin(), parts.end(), [&](const PathPart& part) {
    return part.end_ns <= range.start_ns;
  });
  PathPainter painter(context, frame, log);
  for (auto part = first; part != parts.end() && part->start_ns < range.end_ns; ++part) {
    painter.Draw(*part);
  }
}

float DrawPathLegend(const ui::Context& context, const Axis& axis, float top, ui::DrawLog* log) {
  PathLegend legend(context, axis, top, log);
  const auto say = [&](ui::Text text) { legend.Title(ui::Tr(context.language, text)); };
  const analysis::StepPath* path = context.critical_path.made.get();
  if (path == nullptr) {
    const bool none =
        !context.snapshot->loading && analysis::NewestStepOfAll(*context.snapshot) < 0;
    say(!none                                 ? ui::Text::kPathMaking
        : ui::IsRecordedWithoutSteps(context) ? ui::Text::kPathRecorded
                                              : ui::Text::kPathNoStep);
  } else if (path->parts.empty()) {
    legend.Title(ui::TrFormat(context.language, ui::Text::kPathNoOps, path->step));
  } else {
    const int64_t length_ns = path->parts.back().end_ns - path->parts.front().start_ns;
    const bool is_in_view = timeline::IsStepWithin(*context.snapshot, path->step,
                                                   axis.range().start_ns, axis.range().end_ns);
    legend.Title(ui::TrFormat(context.language, ui::Text::kPathOfStep, path->step,
                              ui::FormatDuration(length_ns), RanksText(context.language, *path)) +
                 (is_in_view ? "" : ui::Tr(context.language, ui::Text::kStepNotInView)));
    const auto sums = SumsOf(*path);
    for (size_t kind = 0; kind < sums.size(); ++kind) {
      if (sums[kind].ns > 0) legend.Kind(static_cast<PathKind>(kind), sums[kind]);
    }
  }
  return legend.bottom();
}

}  // namespace shardscope::panels
