#include "ui/panels/memory/memory_stack.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trace/base/parse_number.h"
#include "trace/base/trace_keys.h"

namespace shardscope::panels {
namespace {

using Point = analysis::MemoryTimeline::Point;

constexpr float kBlur = 0.25F;  // pixels that a column may take of its neighbour

// Grows boxes column by column; a category's box ends where one of its edges changes.
class StackBuilder {
 public:
  explicit StackBuilder(MemoryStack* stack) : stack_(stack) {}

  void Column(const Point& point, float x0, float x1) {
    int64_t low = 0;
    for (size_t at = 0; at < kStackOrder.size(); ++at) {
      const int64_t bytes = std::max<int64_t>(point.bytes[static_cast<size_t>(kStackOrder[at])], 0);
      Extend(at, {x0, x1, low, low + bytes, kStackOrder[at]});
      low += bytes;
    }
    stack_->max_bytes = std::max(stack_->max_bytes, low);
  }

  void Finish() {
    for (size_t at = 0; at < open_.size(); ++at) Close(at);
  }

 private:
  void Extend(size_t at, const StackBox& box) {
    StackBox& open = open_[at];
    if (open.x1 == box.x0 && open.low_bytes == box.low_bytes && open.high_bytes == box.high_bytes) {
      open.x1 = box.x1;
      return;
    }
    Close(at);
    open = box;
  }
  void Close(size_t at) {
    if (open_[at].high_bytes > open_[at].low_bytes) stack_->boxes.push_back(open_[at]);
    open_[at] = {};
  }

  MemoryStack* stack_;
  std::array<StackBox, kStackOrder.size()> open_{};
};

using Kind = DeviceBand::Kind;
using Columns = std::vector<int64_t>;                      // bytes in each pixel column of the axis
using Changes = std::vector<std::pair<int64_t, int64_t>>;  // from when on, how many bytes

// A damaged file may claim anything.
constexpr int64_t kMostTracerBytes = int64_t{1} << 40;

// Height of a stack in each column.
Columns TopsOf(const MemoryStack& stack, const timeline::Axis& axis, size_t num_columns) {
  Columns tops(num_columns, 0);
  for (const StackBox& box : stack.boxes) {
    const auto first = static_cast<size_t>(std::max(0.0F, std::round(box.x0 - axis.left())));
    const auto last = static_cast<size_t>(std::max(0.0F, std::round(box.x1 - axis.left())));
    for (size_t at = first; at < std::min(last, num_columns); ++at) {
      tops[at] = std::max(tops[at], box.high_bytes);
    }
  }
  return tops;
}

// The largest of the values that hold in each column.
Columns ValuesOf(const Changes& changes, const timeline::Axis& axis, size_t num_columns) {
  Columns values(num_columns, 0);
  size_t next = 0;
  int64_t value = 0;
  for (size_t at = 0; at < num_columns; ++at) {
    const int64_t until_ns = axis.Ns(axis.left() + static_cast<float>(at + 1));
    values[at] = value;
    for (; next < changes.size() && changes[next].first < until_ns; ++next) {
      value = changes[next].second;
      values[at] = std::max(values[at], value);
    }
  }
  return values;
}

Changes InOrder(Changes changes) {
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return changes;
}

// What was held of the driver's memory: by NCCL only, or by all of the process.
Changes DriverBytes(const query::RankRows& rows, const std::vector<bool>& of_nccl, bool only_nccl) {
  Changes changes;
  for (size_t at = 0; at < rows.segments.size(); ++at) {
    if (only_nccl && (at >= of_nccl.size() || !of_nccl[at])) continue;
    changes.emplace_back(rows.segments[at].time_ns, rows.segments[at].bytes);
  }
  changes = InOrder(std::move(changes));
  int64_t held = 0;
  for (auto& [time_ns, bytes] : changes) bytes = held = std::max<int64_t>(held + bytes, 0);
  return changes;
}

Changes CounterBytes(const query::RowList<query::MemoryCounter>& rows) {
  Changes changes;
  for (const query::MemoryCounter& counter : rows) {
    changes.emplace_back(counter.time_ns, counter.bytes);
  }
  return InOrder(std::move(changes));
}

// Read at the ends of steps only. Before the first reading an allocator holds as much as it did
// then, as far as the driver had handed out that.
Changes ReservedBytes(const query::RankRows& rows, const Changes& driver) {
  Changes reserved = CounterBytes(rows.reserved);
  if (reserved.empty()) return reserved;
  Changes before;
  for (const auto& [time_ns, bytes] : driver) {
    if (time_ns >= reserved.front().first) break;
    before.emplace_back(time_ns, std::min(bytes, reserved.front().second));
  }
  reserved.insert(reserved.begin(), before.begin(), before.end());
  return reserved;
}

int64_t Most(const Columns& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Columns of equal heights are one band.
void AddBands(Kind kind, const Columns& low, const Columns& high, const timeline::Axis& axis,
              std::vector<DeviceBand>* bands) {
  for (size_t at = 0; at < low.size(); ++at) {
    if (high[at] <= low[at]) continue;
    const float x0 = axis.left() + static_cast<float>(at);
    DeviceBand* last = bands->empty() ? nullptr : &bands->back();
    const bool joins = last != nullptr && last->kind == kind && last->x1 == x0 &&
                       last->low_bytes == low[at] && last->high_bytes == high[at];
    if (joins) {
      last->x1 = x0 + 1;
    } else {
      bands->push_back({kind, x0, x0 + 1, low[at], high[at]});
    }
  }
}

}  // namespace

MemoryStack MakeStack(const analysis::MemoryTimeline& memory, const timeline::Axis& axis,
                      int64_t end_ns) {
  MemoryStack stack;
  StackBuilder builder(&stack);
  const float right = std::min(axis.right(), axis.X(end_ns));
  size_t next = memory.FirstAt(axis.range().start_ns);
  for (float x0 = axis.left(); x0 < right; x0 += 1) {
    const size_t first = next;
    const size_t last = memory.FirstNear(axis.Ns(x0 + 1), axis.Ns(x0 + 1 + kBlur), first);
    next = last;
    if (first < last) {
      builder.Column(memory.At(memory.Largest(first, last)), x0, std::min(x0 + 1, right));
    } else if (last > 0) {
      builder.Column(memory.At(last - 1), x0, std::min(x0 + 1, right));
    }
  }
  builder.Finish();
  return stack;
}

int64_t TracerBytes(const query::Snapshot& snapshot) {
  const auto found = snapshot.meta.find(std::string(trace_keys::kCuptiDeviceBytes));
  if (found == snapshot.meta.end()) return 0;
  const int64_t bytes = ParseInteger<int64_t>(found->second).value_or(0);
  return std::clamp<int64_t>(bytes, 0, kMostTracerBytes);
}

DeviceMemory MakeDeviceMemory(const query::RankRows& rows, const DeviceOwners& owners,
                              const MemoryStacks& stacks, const timeline::Axis& axis,
                              int64_t end_ns) {
  DeviceMemory device;
  const float known = std::clamp(axis.X(end_ns), axis.left(), axis.right());
  const auto num_columns = static_cast<size_t>(known - axis.left());
  const Columns tops = TopsOf(stacks.live, axis, num_columns);
  if (!stacks.issued.boxes.empty()) {
    Columns still = TopsOf(stacks.issued, axis, num_columns);
    for (size_t at = 0; at < num_columns; ++at) {
      still[at] = std::min(still[at], tops[at]);
      device.gap_bytes = std::max(device.gap_bytes, tops[at] - still[at]);
    }
    AddBands(Kind::kFreeGap, still, tops, axis, &device.bands);
  }
  if (rows.segments.empty() && rows.device_used.empty()) return device;
  const auto columns = [&](const Changes& changes) { return ValuesOf(changes, axis, num_columns); };
  Columns top = tops;
  // Up to `until` in each column, from where the band below ends.
  const auto add = [&](Kind kind, const Columns& until) {
    Columns low = top;
    for (size_t at = 0; at < num_columns; ++at) top[at] = std::max(top[at], until[at]);
    AddBands(kind, low, top, axis, &device.bands);
  };
  const Changes driver_changes = DriverBytes(rows, owners.of_nccl, false);
  const Columns nccl = columns(DriverBytes(rows, owners.of_nccl, true));
  const Columns driver = columns(driver_changes);
  const Columns reserved = columns(ReservedBytes(rows, driver_changes));
  const Columns used = columns(CounterBytes(rows.device_used));
  device.reserved_bytes = Most(reserved);
  device.nccl_bytes = Most(nccl);
  device.driver_bytes = Most(driver);
  device.used_bytes = Most(used);
  add(Kind::kReserved, reserved);
  Columns with_nccl = top;
  for (size_t at = 0; at < num_columns; ++at) with_nccl[at] += nccl[at];
  add(Kind::kNccl, with_nccl);
  add(Kind::kOthers, driver);
  Columns with_tracer = used;
  for (size_t at = 0; at < num_columns; ++at) {
    const int64_t bytes = std::clamp<int64_t>(used[at] - top[at], 0, owners.tracer_bytes);
    with_tracer[at] = top[at] + bytes;
    device.tracer_bytes = std::max(device.tracer_bytes, bytes);
  }
  add(Kind::kTracer, with_tracer);
  add(Kind::kContext, used);
  device.max_bytes = Most(top);
  return device;
}

}  // namespace shardscope::panels
