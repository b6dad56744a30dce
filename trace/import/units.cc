#include "trace/import/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "trace/base/text.h"

namespace shardscope::imports {
namespace {

using words::Category;
using words::OpKind;

const std::string& NameOfWork(const Piece& piece, const Recording& recording) {
  return recording
      .names[piece.work < 0 ? 0 : recording.works[static_cast<size_t>(piece.work)].name];
}

// PyTorch's kernels that copy what was gathered out of its buffer, and gradients into theirs
// (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py).
HostAction ActionOfKernel(std::string_view name) {
  if (Contains(name, "split_with_sizes_copy")) return HostAction::kCopyOut;
  if (Contains(name, "chunk_cat")) return HostAction::kReduce;
  return HostAction::kCompute;
}

bool IsOfOptimizer(std::string_view name) {
  return Contains(name, "multi_tensor_apply") || Contains(name, "adam") || Contains(name, "Adam");
}

struct StepPieces {
  std::vector<Piece*> gathers;  // of the sharding group; all by issue
  std::vector<Piece*> reductions;
  std::vector<Piece*> others;
};

// The group with most all-gathers among those that reduce-scatter too; nullopt: none does.
std::optional<std::string> ShardingGroup(const Recording& recording,
                                         const std::vector<Piece>& pieces) {
  struct Count {
    int64_t gathers = 0;
    int64_t reductions = 0;
  };
  std::map<std::string, Count> counts;
  for (const Piece& piece : pieces) {
    if (piece.collective < 0) continue;
    const RecordedCollective& collective =
        recording.collectives[static_cast<size_t>(piece.collective)];
    Count& count = counts[collective.group];
    if (collective.kind == Name(OpKind::kAllGather)) ++count.gathers;
    if (collective.kind == Name(OpKind::kReduceScatter)) ++count.reductions;
  }
  std::optional<std::string> group;
  int64_t most = 0;
  for (const auto& [name, count] : counts) {
    if (count.reductions == 0 || count.gathers <= most) continue;
    most = count.gathers;
    group = name;
  }
  return group;
}

std::map<int32_t, StepPieces> BySteps(const Recording& recording, const std::string& group,
                                      std::vector<Piece>* pieces) {
  std::map<int32_t, StepPieces> steps;
  for (Piece& piece : *pieces) {
    StepPieces& step = steps[piece.step];
    if (piece.category != Category::kCommunication) {
      step.others.push_back(&piece);
    } else if (piece.collective >= 0) {
      const RecordedCollective& collective =
          recording.collectives[static_cast<size_t>(piece.collective)];
      if (collective.group != group) continue;
      if (collective.kind == Name(OpKind::kAllGather)) step.gathers.push_back(&piece);
      if (collective.kind == Name(OpKind::kReduceScatter)) step.reductions.push_back(&piece);
    }
  }
  for (auto& [number, step] : steps) {
    for (std::vector<Piece*>* list : {&step.gathers, &step.reductions, &step.others}) {
      std::stable_sort(list->begin(), list->end(), [](const Piece* a, const Piece* b) {
        return std::pair(a->issued_ns, a->start_ns) < std::pair(b->issued_ns, b->start_ns);
      });
    }
  }
  return steps;
}

// The number of reductions that most steps have.
size_t NumUnits(const std::map<int32_t, StepPieces>& steps) {
  std::map<size_t, size_t> counts;
  for (const auto& [number, step] : steps) ++counts[step.reductions.size()];
  counts.erase(0);
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? 0 : most->first;
}

class UnitsOfStep {
 public:
  UnitsOfStep(const Recording& recording, const std::vector<Names::Index>& units, StepPieces* step)
      : recording_(recording), units_(units), step_(*step) {}

  // false, and nothing is changed: this step is another one.
  bool Infer() {
    if (step_.reductions.size() != units_.size() || step_.gathers.size() < units_.size())
      return false;
    if (!MatchGathers()) return false;
    for (size_t at = 0; at < step_.gathers.size(); ++at) {
      HostContext& context = step_.gathers[at]->context;
      context.unit = units_[unit_of_gather_[at]];
      context.phase = at < units_.size() ? Phase::kForward : Phase::kBackward;
    }
    for (size_t at = 0; at < units_.size(); ++at) {
      HostContext& context = step_.reductions[at]->context;
      context.unit = units_[units_.size() - 1 - at];
      context.phase = Phase::kBackward;
    }
    NameCompute();
    return true;
  }

 private:
  int64_t BytesOf(const Piece& piece) const {
    return recording_.collectives[static_cast<size_t>(piece.collective)].payload_bytes;
  }

  // Those behind the first ones gather again for backward: each the last unit of its size that was
  // not gathered again yet.
  bool MatchGathers() {
    const size_t count = units_.size();
    std::vector<bool> again(count);
    for (size_t at = 0; at < step_.gathers.size(); ++at) {
      if (at < count) {
        unit_of_gather_.push_back(at);
        continue;
      }
      size_t unit = count;
      for (size_t candidate = count; candidate-- > 0;) {
        const bool fits =
            !again[candidate] && BytesOf(*step_.gathers[candidate]) == BytesOf(*step_.gathers[at]);
        if (!fits) continue;
        unit = candidate;
        break;
      }
      if (unit == count) return false;
      again[unit] = true;
      unit_of_gather_.push_back(unit);
    }
    return true;
  }

  // When the host asked that compute goes on with the k-th unit of forward.
  std::vector<int64_t> ForwardMarks() const {
    std::vector<int64_t> marks = WaitsForGathers();
    if (marks.size() != step_.gathers.size()) marks = CopiesOut();
    if (marks.size() != step_.gathers.size()) {
      marks.clear();
      for (const Piece* gather : step_.gathers) marks.push_back(gather->issued_ns);
    }
    marks.resize(units_.size());
    return marks;
  }

  // Moments at which a stream that computes was told to wait for the stream that gathers.
  std::vector<int64_t> WaitsForGathers() const {
    std::vector<int64_t> marks;
    const RecordedTrack& gathering = recording_.tracks[step_.gathers.front()->track];
    const int64_t from_ns = step_.gathers.front()->issued_ns;
    const int64_t to_ns = step_.others.empty() ? from_ns : step_.others.back()->issued_ns;
    const auto first =
        std::ranges::lower_bound(recording_.waits, from_ns, {}, &RecordedWait::time_ns);
    for (auto wait = first; wait != recording_.waits.end() && wait->time_ns <= to_ns; ++wait) {
      if (gathering.IsOfDevice() && wait->waited_stream == gathering.stream &&
          recording_.tracks[wait->track].stream != gathering.stream) {
        marks.push_back(wait->time_ns);
      }
    }
    return marks;
  }

  std::vector<int64_t> CopiesOut() const {
    std::vector<int64_t> marks;
    for (const Piece* piece : step_.others) {
      if (ActionOfKernel(NameOfWork(*piece, recording_)) == HostAction::kCopyOut)
        marks.push_back(piece->issued_ns);
    }
    return marks;
  }

  void NameCompute() {
    const std::vector<int64_t> marks = ForwardMarks();
    const bool knows_phases = std::ranges::any_of(
        step_.others, [](const Piece* piece) { return piece->context.phase != Phase::kForward; });
    const size_t count = units_.size();
    const bool gathers_again = step_.gathers.size() > count;
    const int64_t backward_ns = gathers_again ? step_.gathers[count]->issued_ns : INT64_MAX;
    size_t forward = 0;   // units whose forward has begun
    size_t backward = 0;  // reductions that were asked for
    for (Piece* const piece : step_.others) {
      while (forward < count && marks[forward] <= piece->issued_ns) ++forward;
      while (backward < count && step_.reductions[backward]->issued_ns <= piece->issued_ns)
        ++backward;
      HostContext& context = piece->context;
      const std::string& name = NameOfWork(*piece, recording_);
      if (!knows_phases) {
        const bool is_late = backward == count && IsOfOptimizer(name);
        const bool is_backward = piece->issued_ns >= backward_ns || backward > 0;
        context.phase = is_late       ? Phase::kOptimizer
                        : is_backward ? Phase::kBackward
                                      : Phase::kForward;
      }
      const HostAction action = ActionOfKernel(name);
      if (action != HostAction::kCompute) {
        context.action = action;
        piece->category = Category::kCopy;
      } else if (piece->category != Category::kCopy) {
        piece->category =
            context.phase == Phase::kOptimizer ? Category::kOptimizer : Category::kCompute;
      }
      if (context.phase == Phase::kForward && forward > 0) {
        context.unit = units_[forward - 1];
      } else if (context.phase == Phase::kBackward && backward < count) {
        context.unit = units_[count - 1 - backward];
      }
    }
  }

  const Recording& recording_;
  const std::vector<Names::Index>& units_;
  StepPieces& step_;
  std::vector<size_t> unit_of_gather_;
};

}  // namespace

void InferUnits(Recording* recording, std::vector<Piece>* pieces) {
  const bool has_units =
      std::ranges::any_of(*pieces, [](const Piece& piece) { return piece.context.unit != 0; });
  if (has_units) return;
  const std::optional<std::string> group = ShardingGroup(*recording, *pieces);
  if (!group) return;
  std::ranges::sort(recording->waits, {}, &RecordedWait::time_ns);
  std::map<int32_t, StepPieces> steps = BySteps(*recording, *group, pieces);
  std::vector<Names::Index> units(NumUnits(steps));
  for (size_t unit = 0; unit < units.size(); ++unit)
    units[unit] = recording->names.Add(fmt::format("unit {}", unit));
  for (auto& [number, step] : steps) (void)UnitsOfStep(*recording, units, &step).Infer();
}

}  // namespace shardscope::imports
