#include "trace/export/fsdp_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "trace/base/torch_range_names.h"
#include "trace/base/words.h"

namespace shardscope::exports {
namespace {

using torch_range_names::kFsdp2;
using torch_range_names::kOptimizerStep;
using words::Category;
using words::OpClass;
using words::OpKind;
using words::Phase;

// What is around the launches of an op. Equal for what shares ranges.
struct Place {
  std::string outer;     // encloses the other; empty: none
  std::string inner;     // empty: the op is part of what is around it
  std::string computes;  // "pre_forward" or "pre_backward" of a unit; empty: it computes nothing
  bool operator==(const Place&) const = default;
};

using Units = std::set<std::string, std::less<>>;  // that something is launched for by name

// The index in "block3"; -1 if it is none.
int BlockOf(std::string_view name) {
  int block = -1;
  return std::sscanf(std::string(name).c_str(), "block%d", &block) == 1 ? block : -1;
}

// Compute has a segment, which is a unit, or a part of one: of its block, of several blocks
// ("blocks0-1") or of the root, which has the rest.
std::string UnitOf(const schema::PlanOpRow& op, const Units& units) {
  const std::string_view segment = op.segment;
  if (!op.unit.empty() || segment.empty()) return std::string(op.unit);
  if (units.contains(segment)) return std::string(segment);
  const std::string_view block = segment.substr(0, segment.find('.'));
  if (units.contains(block)) return std::string(block);
  for (const std::string& unit : units) {
    int first = 0;
    int last = 0;
    if (std::sscanf(unit.c_str(), "blocks%d-%d", &first, &last) != 2) continue;
    if (BlockOf(block) >= first && BlockOf(block) <= last) return unit;
  }
  return units.contains("root") ? "root" : std::string(block);
}

Place PlaceOf(const schema::PlanOpRow& op, const Units& units) {
  const std::optional<OpKind> kind = words::ParseOpKind(op.kind);
  const std::optional<Category> category = words::ParseCategory(op.category);
  if (!kind || !category || *category == Category::kHost) return {};
  if (op.phase == Name(Phase::kOptimizer))
    return {"", fmt::format("{}AdamW.step", kOptimizerStep), ""};
  const std::string unit = UnitOf(op, units);
  if (unit.empty()) return {};
  const bool in_backward = op.phase == Name(Phase::kBackward);
  const auto range = [&unit](std::string_view verb) {
    return fmt::format("{}{} ({})", kFsdp2, verb, unit);
  };
  const Place gather = {
      in_backward ? fmt::format("{}{} for {}", kFsdp2, torch_range_names::kBackwardPrefetch, unit)
                  : "",
      range(torch_range_names::kAllGather), ""};
  switch (TraitsOf(*kind).op_class) {
    case OpClass::kAllGather:
      return gather;
    case OpClass::kReduceScatter:
    case OpClass::kAllReduce:
      return {"", range(torch_range_names::kPostBackwardReduce), ""};
    case OpClass::kCopy:
      if (*kind == OpKind::kCast) return gather;
      if (*kind == OpKind::kCopyOut) return {"", range(torch_range_names::kAllGatherCopyOut), ""};
      if (*kind == OpKind::kAccumulate)
        return {"", range(torch_range_names::kPostBackwardAccumulate), ""};
      return {};  // copies in: PlaceCopiesIn(); those from and to the host have no range
    case OpClass::kForward:
    case OpClass::kBackward:
    case OpClass::kRecompute: {
      const std::string computes =
          range(in_backward ? torch_range_names::kPreBackward : torch_range_names::kPreForward);
      return {"", computes, computes};
    }
    // Nothing that FSDP marks.
    case OpClass::kSendReceive:
    case OpClass::kBroadcast:
    case OpClass::kReduce:
    case OpClass::kOptimizer:
    case OpClass::kHost:
    case OpClass::kBookkeeping:
      return {};
  }
  return {};
}

// "FSDP::post_forward (block1)" of "FSDP::pre_forward (block1)".
std::string EndOf(const std::string& computes) {
  constexpr std::string_view kBegin = "pre_";
  return fmt::format("{}post_{}", kFsdp2, computes.substr(kFsdp2.size() + kBegin.size()));
}

// Copies go in front of a collective of their unit: which one, the next says.
void PlaceCopiesIn(const std::vector<Launch>& launches, std::vector<Place>* places) {
  for (size_t at = launches.size(); at-- > 0;) {
    if (launches[at].op->kind != Name(OpKind::kCopyIn)) continue;
    for (size_t next = at + 1; next < launches.size(); ++next) {
      const schema::PlanOpRow& op = *launches[next].op;
      if (op.unit != launches[at].op->unit || op.category != Name(Category::kCommunication))
        continue;
      (*places)[at] = (*places)[next];
      break;
    }
  }
}

class Ranges {
 public:
  // Ascending in time.
  void Add(const Place& place, int64_t time_ns) {
    if (place != place_) Enter(place, time_ns);
    last_ns_ = time_ns;
  }

  std::vector<TorchRange> Take() {
    End(last_ns_ + 1);
    return std::move(ranges_);
  }

 private:
  void Enter(const Place& place, int64_t time_ns) {
    const bool leaves = !computes_.empty() && computes_ != place.computes &&
                        (!place.computes.empty() || place.inner.starts_with(kOptimizerStep));
    const int64_t end_ns = leaves ? std::min(last_ns_ + 1, time_ns) : time_ns;
    End(end_ns);
    if (leaves) ranges_.push_back({EndOf(computes_), end_ns, time_ns});
    for (const std::string& name : {place.outer, place.inner}) {
      if (name.empty()) continue;
      open_.push_back(ranges_.size());
      ranges_.push_back({name, time_ns, time_ns});
    }
    if (leaves || !place.computes.empty()) computes_ = place.computes;
    place_ = place;
  }

  void End(int64_t time_ns) {
    for (const size_t index : open_) ranges_[index].end_ns = time_ns;
    open_.clear();
  }

  std::vector<TorchRange> ranges_;
  std::vector<size_t> open_;  // of them
  Place place_;
  std::string computes_;  // as in a Place: the last one that did
  int64_t last_ns_ = 0;
};

}  // namespace

std::vector<TorchRange> FsdpRanges(std::vector<Launch> launches) {
  std::ranges::stable_sort(launches, {}, &Launch::time_ns);
  std::vector<Place> places;
  places.reserve(launches.size());
  Units units;
  for (const Launch& launch : launches) {
    if (!launch.op->unit.empty()) units.insert(std::string(launch.op->unit));
  }
  for (const Launch& launch : launches) places.push_back(PlaceOf(*launch.op, units));
  PlaceCopiesIn(launches, &places);
  Ranges ranges;
  for (size_t at = 0; at < launches.size(); ++at) {
    if (!places[at].inner.empty()) ranges.Add(places[at], launches[at].time_ns);
  }
  return ranges.Take();
}

}  // namespace shardscope::exports
