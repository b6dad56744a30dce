#include "ui/panels/memory/device_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardscope::panels {
namespace {

using Kind = DeviceBand::Kind;
using Columns = std::vector<int64_t>;                      // bytes in each pixel column of the axis
using Changes = std::vector<std::pair<int64_t, int64_t>>;  // from when on, how many bytes

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

Changes DriverBytes(const query::RankRows& rows) {
  Changes changes;
  for (const query::MemorySegment& segment : rows.segments) {
    changes.emplace_back(segment.time_ns, segment.bytes);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  int64_t held = 0;
  for (auto& [time_ns, bytes] : changes) bytes = held = std::max<int64_t>(held + bytes, 0);
  return changes;
}

Changes ReservedBytes(const query::RankRows& rows) {
  Changes changes;
  for (const query::MemoryCounter& counter : rows.reserved) {
    changes.emplace_back(counter.time_ns, counter.bytes);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return changes;
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

DeviceMemory MakeDeviceMemory(const query::RankRows& rows, const MemoryStack& live,
                              const MemoryStack& issued, const timeline::Axis& axis,
                              int64_t end_ns) {
  DeviceMemory device;
  const float known = std::clamp(axis.X(end_ns), axis.left(), axis.right());
  const auto num_columns = static_cast<size_t>(known - axis.left());
  const Columns tops = TopsOf(live, axis, num_columns);
  const auto most = [](const Columns& values) {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  };
  if (!issued.boxes.empty()) {
    Columns still = TopsOf(issued, axis, num_columns);
    for (size_t at = 0; at < num_columns; ++at) {
      still[at] = std::min(still[at], tops[at]);
      device.gap_bytes = std::max(device.gap_bytes, tops[at] - still[at]);
    }
    AddBands(Kind::kFreeGap, still, tops, axis, &device.bands);
  }
  if (rows.segments.empty()) return device;
  Columns reserved = ValuesOf(ReservedBytes(rows), axis, num_columns);
  device.reserved_bytes = most(reserved);
  for (size_t at = 0; at < num_columns; ++at) reserved[at] = std::max(reserved[at], tops[at]);
  const Columns driver = ValuesOf(DriverBytes(rows), axis, num_columns);
  device.driver_bytes = most(driver);
  AddBands(Kind::kReserved, tops, reserved, axis, &device.bands);
  AddBands(Kind::kOthers, reserved, driver, axis, &device.bands);
  device.max_bytes = std::max(most(reserved), most(driver));
  return device;
}

}  // namespace shardscope::panels
