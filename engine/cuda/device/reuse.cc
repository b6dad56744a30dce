#include "engine/cuda/device/reuse.h"

#include <algorithm>
#include <utility>

#include "engine/plan/checks/happens_before.h"
#include "trace/base/round_up.h"

namespace shardscope::cuda {
namespace {

using plan::BufferId;
using plan::HappensBefore;
using plan::OpIndex;
using plan::Program;

// From the op that allocates a buffer to the one that frees it; kNone: persistent.
struct Lifetime {
  OpIndex allocate = plan::kNone;
  OpIndex free = plan::kNone;
};

std::vector<Lifetime> LifetimesOf(const Program& program) {
  std::vector<Lifetime> lifetimes(program.buffers.size());
  for (size_t op = 0; op < program.ops.size(); ++op) {
    for (const BufferId id : program.ops[op].allocates) {
      lifetimes[static_cast<size_t>(id)].allocate = static_cast<OpIndex>(op);
    }
    for (const BufferId id : program.ops[op].frees) {
      lifetimes[static_cast<size_t>(id)].free = static_cast<OpIndex>(op);
    }
  }
  return lifetimes;
}

// The lowest place of `bytes` bytes that touches none of `taken` (offset and end, sorted).
int64_t LowestGap(const std::vector<std::pair<int64_t, int64_t>>& taken, int64_t bytes) {
  int64_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (offset + bytes <= begin) return offset;
    offset = std::max(offset, end);
  }
  return offset;
}

}  // namespace

std::vector<std::vector<BufferId>> FreesByOp(const plan::Schedule& schedule,
                                             const Program& program) {
  const HappensBefore order(program, static_cast<int>(schedule.streams.size()));
  std::vector<std::vector<OpIndex>> ops_of_stream(schedule.streams.size());
  for (size_t op = 0; op < program.ops.size(); ++op) {
    ops_of_stream[static_cast<size_t>(program.ops[op].stream)].push_back(static_cast<OpIndex>(op));
  }
  std::vector<std::vector<BufferId>> frees(program.ops.size() + 1);
  const std::vector<Lifetime> lifetimes = LifetimesOf(program);
  for (size_t id = 0; id < lifetimes.size(); ++id) {
    const Lifetime& lifetime = lifetimes[id];
    if (lifetime.free == plan::kNone) continue;
    const plan::Op& allocate = program.ops[static_cast<size_t>(lifetime.allocate)];
    const std::vector<OpIndex>& ops = ops_of_stream[static_cast<size_t>(allocate.stream)];
    // An op after another on its stream is also after all that the other is after.
    const auto first = std::partition_point(ops.begin(), ops.end(), [&](OpIndex op) {
      return op <= lifetime.free || !order.Ordered(lifetime.free, op);
    });
    const size_t at = first == ops.end() ? program.ops.size() : static_cast<size_t>(*first);
    frees[at].push_back(static_cast<BufferId>(id));
  }
  return frees;
}

// Largest first, each at the lowest place that is free in all of its time: a few per cent above the
// largest sum of what lives at once, where the order of the Schedule allows that.
Placement PlaceBuffers(const plan::Schedule& schedule, const Program& program,
                       const BytesToPlace& bytes_to_place) {
  const HappensBefore order(program, static_cast<int>(schedule.streams.size()));
  const std::vector<Lifetime> lifetimes = LifetimesOf(program);
  Placement placement;
  placement.offsets.assign(program.buffers.size(), kNotPlaced);
  std::vector<int64_t> bytes(program.buffers.size(), 0);
  std::vector<size_t> todo;
  for (size_t id = 0; id < lifetimes.size(); ++id) {
    if (lifetimes[id].allocate == plan::kNone) continue;
    bytes[id] = RoundUp<int64_t>(bytes_to_place(program.buffers[id]), kPlaceAlignment);
    if (bytes[id] > 0) todo.push_back(id);
  }
  std::stable_sort(todo.begin(), todo.end(),
                   [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  const auto is_over_before = [&](size_t first, size_t second) {
    const Lifetime& a = lifetimes[first];
    const Lifetime& b = lifetimes[second];
    return a.free != plan::kNone && a.free < b.allocate && order.Ordered(a.free, b.allocate);
  };
  std::vector<size_t> placed;
  for (const size_t id : todo) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const size_t other : placed) {
      if (is_over_before(id, other) || is_over_before(other, id)) continue;
      const int64_t offset = placement.offsets[other];
      taken.emplace_back(offset, offset + bytes[other]);
    }
    std::sort(taken.begin(), taken.end());
    placement.offsets[id] = LowestGap(taken, bytes[id]);
    placement.bytes = std::max(placement.bytes, placement.offsets[id] + bytes[id]);
    placed.push_back(id);
  }
  return placement;
}

}  // namespace shardscope::cuda
