#include "engine/torch_ranges/open_ranges.h"

#include <algorithm>

#include "trace/base/torch_range_names.h"
#include "trace/base/words.h"

namespace shardscope::torch_ranges {
namespace {

namespace names = torch_range_names;
using words::MemoryCategory;
using words::Phase;

constexpr size_t kMaxInside = 1 << 10;  // a program that leaves forwards by exceptions

struct FsdpName {
  std::string_view what;  // "all_gather" of "FSDP::all_gather (layers.0)"; empty: none of FSDP's
  std::string_view unit;
};

FsdpName ParseFsdp(std::string_view name) {
  if (!name.starts_with(names::kFsdp2)) return {};
  name.remove_prefix(names::kFsdp2.size());
  const size_t space = name.find(" (");
  if (space == std::string_view::npos || !name.ends_with(')')) return {name, {}};
  return {name.substr(0, space), name.substr(space + 2, name.size() - space - 3)};
}

// What is allocated in a range that allocates one thing only. Reduce-scatter's output is the
// gradient's shard from then on, but nothing tells it from the input.
std::string_view CategoryOf(std::string_view name) {
  if (name.starts_with(names::kOptimizerStep)) return Name(MemoryCategory::kOptimizer);
  const std::string_view what = ParseFsdp(name).what;
  if (what == names::kAllGather || what == names::kPostBackwardReduce)
    return Name(MemoryCategory::kCommunicationBuffer);
  if (what == names::kAllGatherCopyOut) return Name(MemoryCategory::kUnshardedParameter);
  if (what == names::kPostBackwardAccumulate) return Name(MemoryCategory::kGradient);
  return {};
}

std::string_view PhaseOf(std::string_view name) {
  if (name.starts_with("Optimizer.")) return Name(Phase::kOptimizer);
  const std::string_view what = ParseFsdp(name).what;
  if (what.find("backward") != std::string_view::npos) return Name(Phase::kBackward);
  return what.find("forward") != std::string_view::npos ? Name(Phase::kForward)
                                                        : std::string_view();
}

}  // namespace

OpenRanges& OpenRanges::OfThread() {
  static thread_local auto* const ranges = new OpenRanges;
  return *ranges;
}

std::shared_ptr<OpenRanges::Range> OpenRanges::Begin(std::string_view name) {
  while (!open_.empty() && open_.back()->has_ended) open_.pop_back();
  const FsdpName fsdp = ParseFsdp(name);
  if (fsdp.what == names::kRootPreForward) inside_.clear();
  if (fsdp.what == names::kPostForward) Leave(fsdp.unit, /*is_backward=*/false);
  if (fsdp.what.starts_with(names::kPostBackward)) Leave(fsdp.unit, /*is_backward=*/true);
  if (fsdp.what.starts_with(names::kRootPostBackward)) inside_.clear();
  open_.push_back(std::make_shared<Range>(name));
  return open_.back();
}

void OpenRanges::End(Range* range) {
  range->has_ended = true;
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const auto& one) { return one.get() == range; });
  if (found == open_.end()) return;
  const std::shared_ptr<Range> kept = *found;
  open_.erase(found);
  const FsdpName fsdp = ParseFsdp(kept->name);
  const bool is_backward = fsdp.what == names::kPreBackward;
  if (fsdp.what != names::kPreForward && !is_backward) return;
  if (inside_.size() < kMaxInside) inside_.push_back({std::string(fsdp.unit), is_backward});
}

// Of units that are inside one another, what began later has ended too, if not by its own range.
void OpenRanges::Leave(std::string_view unit, bool is_backward) {
  const auto last = std::find_if(inside_.rbegin(), inside_.rend(), [&](const Inside& one) {
    return one.unit == unit && one.is_backward == is_backward;
  });
  if (last != inside_.rend()) inside_.erase(std::next(last).base(), inside_.end());
}

Owner OpenRanges::owner() const {
  Owner owner;
  bool is_in_fsdp = false;
  for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
    const std::string_view name = (*open)->name;
    if ((*open)->has_ended) continue;
    const FsdpName fsdp = ParseFsdp(name);
    is_in_fsdp = is_in_fsdp || !fsdp.what.empty();
    if (owner.range.empty()) owner.range = name;
    if (owner.phase.empty()) owner.phase = PhaseOf(name);
    if (owner.unit.empty()) owner.unit = fsdp.unit;
    if (owner.category.empty()) owner.category = CategoryOf(name);
  }
  if (!inside_.empty() && owner.phase != Name(Phase::kOptimizer)) {
    const Inside& inside = inside_.back();
    // What a unit's own forward allocates: none of FSDP's ranges is open meanwhile.
    if (!is_in_fsdp && !inside.is_backward) owner.category = Name(MemoryCategory::kActivation);
    if (!is_in_fsdp) owner.unit = inside.unit;
    if (owner.phase.empty()) {
      owner.phase = Name(inside.is_backward ? Phase::kBackward : Phase::kForward);
    }
  }
  if (owner.category.empty()) owner.category = kUnattributed;
  return owner;
}

}  // namespace shardscope::torch_ranges
