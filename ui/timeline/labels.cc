#include "ui/timeline/labels.h"

#include <algorithm>

#include "trace/analysis/names.h"
#include "trace/query/rows.h"
#include "ui/timeline/geometry.h"
#include "ui/value_label.h"

namespace shardscope::timeline {
namespace {

constexpr float kClipTolerance = 2;

std::string WithPhase(const query::PlanOp& op, std::string_view name) {
  const std::string_view letter = analysis::PhaseLetter(op);
  if (letter.empty()) return std::string(name);
  return std::string(letter) + " " + std::string(name);
}

std::string_view LastPart(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// "prefetch" of "prefetch.backward".
std::string_view FirstPart(std::string_view key) { return key.substr(0, key.find('.')); }

}  // namespace

SpanLabel LabelOf(const query::PlanOp& op) {
  const query::Category category = TraitsOf(op.op_class).category;
  if (category == query::Category::kCommunication) return {op.unit, op.unit};
  if (category == query::Category::kCompute) {
    return {WithPhase(op, op.segment), WithPhase(op, LastPart(op.segment))};
  }
  const std::string name = analysis::ShortName(op);
  return {name, name.substr(0, name.find(' '))};
}

LabelFit FitLabel(float visible, float full_width, float shorter_width) {
  if (visible < kMinLabel) return LabelFit::kNone;
  if (full_width <= visible + kClipTolerance) return LabelFit::kFull;
  if (shorter_width <= visible + kClipTolerance) return LabelFit::kShorter;
  return LabelFit::kClipped;
}

std::string ChangeLabel(const std::vector<query::Marker>& markers) {
  if (markers.empty()) return "";
  const std::string_view shared = FirstPart(markers.front().key);
  const bool same = std::all_of(
      markers.begin(), markers.end(),
      [shared](const query::Marker& marker) { return FirstPart(marker.key) == shared; });
  std::string label;
  for (const query::Marker& marker : markers) {
    if (!label.empty()) label += ", ";
    if (markers.size() == 1 || !same) {
      label += marker.key + " ";
    } else if (label.empty()) {
      label += std::string(shared) + " ";
    }
    label += ui::ValueLabel(marker.old_value) + " → " + ui::ValueLabel(marker.new_value);
  }
  return label;
}

std::vector<Change> ChangesOf(const query::Snapshot& snapshot) {
  std::vector<query::Marker> markers;
  for (const query::Marker& marker : snapshot.markers) {
    if (query::IsKnobChange(marker)) markers.push_back(marker);
  }
  std::stable_sort(
      markers.begin(), markers.end(),
      [](const query::Marker& a, const query::Marker& b) { return a.time_ns < b.time_ns; });
  std::vector<Change> changes;
  for (query::Marker& marker : markers) {
    if (changes.empty() || changes.back().step != marker.step) {
      changes.push_back({marker.time_ns, marker.step, {}});
    }
    changes.back().markers.push_back(std::move(marker));
  }
  return changes;
}

}  // namespace shardscope::timeline
