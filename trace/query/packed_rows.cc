#include "trace/query/packed_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "trace/base/byte_width.h"
#include "trace/query/gpu.h"
#include "trace/query/rows.h"

namespace shardscope::query {

template <Packable Row>
PackedRows<Row>::PackedRows(std::span<const Row> rows) {
  // Column by column: each is looked at twice.
  // Kept for the next ones: so much memory, given back each time, would each time be cleared again.
  static thread_local std::vector<int64_t> all;
  all.resize(std::max(all.size(), kColumns * rows.size()));
  const auto values = [&](size_t at) {
    return std::span<int64_t>(all.data() + at * rows.size(), rows.size());
  };
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::array<int64_t, kColumns> split = Packing<Row>::Split(rows[row]);
    for (size_t at = 0; at < kColumns; ++at) values(at)[row] = split[at];
  }
  size_t size = 0;
  for (size_t at = 0; at < kColumns; ++at) {
    int64_t smallest = INT64_MAX;
    int64_t largest = INT64_MIN;
    for (const int64_t value : values(at)) {
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
    }
    Column& column = columns_[at];
    column.smallest = static_cast<uint64_t>(smallest);
    const uint64_t range = static_cast<uint64_t>(largest) - column.smallest;
    column.width = rows.empty() ? 0 : static_cast<uint32_t>(ByteWidth(range));
    column.mask = ByteMask(column.width);
    column.offset = static_cast<uint32_t>(size);
    size += rows.size() * column.width;
  }
  bytes_.resize(size + kByteWidthPadding);
  for (size_t at = 0; at < kColumns; ++at) {
    const Column& column = columns_[at];
    if (column.width == 0) continue;
    uint8_t* to = bytes_.data() + column.offset;
    for (const int64_t value : values(at)) {
      // What 8 bytes are too many for this value, the next ones write over.
      const uint64_t word = static_cast<uint64_t>(value) - column.smallest;
      std::memcpy(to, &word, sizeof(word));
      to += column.width;
    }
  }
}

template class PackedRows<OpRun>;
template class PackedRows<Collective>;
template class PackedRows<MemoryEvent>;
template class PackedRows<Span>;
template class PackedRows<GpuWork>;

}  // namespace shardscope::query
