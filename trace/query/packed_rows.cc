#include "trace/query/packed_rows.h"

#include <algorithm>

#include "trace/query/gpu.h"
#include "trace/query/rows.h"

namespace shardscope::query {

template <Packable Row>
PackedRows<Row>::PackedRows(std::span<const Row> rows) {
  std::vector<std::array<int64_t, kColumns>> values;
  values.reserve(rows.size());
  for (const Row& row : rows) values.push_back(Packing<Row>::Split(row));
  size_t size = 0;
  for (size_t at = 0; at < kColumns; ++at) {
    int64_t smallest = INT64_MAX;
    int64_t largest = INT64_MIN;
    for (const auto& row : values) {
      smallest = std::min(smallest, row[at]);
      largest = std::max(largest, row[at]);
    }
    Column& column = columns_[at];
    column.smallest = static_cast<uint64_t>(smallest);
    const uint64_t range = static_cast<uint64_t>(largest) - column.smallest;
    column.width = rows.empty() ? 0 : static_cast<uint32_t>((std::bit_width(range) + 7) / 8);
    column.mask = column.width == 8 ? UINT64_MAX : (uint64_t{1} << (8 * column.width)) - 1;
    column.offset = static_cast<uint32_t>(size);
    size += rows.size() * column.width;
  }
  bytes_.resize(size + sizeof(uint64_t));  // a value is read as the 8 bytes from its first one on
  for (size_t at = 0; at < kColumns; ++at) {
    const Column& column = columns_[at];
    if (column.width == 0) continue;
    uint8_t* to = bytes_.data() + column.offset;
    for (const auto& row : values) {
      // What 8 bytes are too many for this value, the next ones write over.
      const uint64_t word = static_cast<uint64_t>(row[at]) - column.smallest;
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
