// PackedRows: rows that no longer change, column by column, each value in as few bytes as the
// largest of its column needs (frame of reference coding: Goldstein, Ramakrishnan and Shaft,
// "Compressing relations and indexes", 1998). Any row is read by itself.
//
// Traces have millions of op runs, collectives and memory events. Packed they take a third of the
// memory; reading one is some instructions a column, of those columns that the reader looks at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trace/base/byte_width.h"

namespace shardscope::query {

// How rows of a type are packed: specialised beside the type, with
//   static constexpr size_t kColumns;
//   static std::array<int64_t, kColumns> Split(const Row& row);
//   template <typename Value> static Row Join(const Value& value);  // value(column) as of Split()
// Columns whose values lie close together in neighbouring rows take the least: times as the
// difference to another time of their row.
template <typename Row>
struct Packing;

template <typename Row>
concept Packable = requires {
  Packing<Row>::kColumns;
};

// Of any two, and back.
inline int64_t Difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t Sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <Packable Row>
class PackedRows {
 public:
  explicit PackedRows(std::span<const Row> rows);  // packed_rows.cc, for the types of Snapshots

  // That the values take.
  size_t bytes() const { return bytes_.size(); }

  // Precondition: index below the number of rows. Inlined, so that columns are left out that the
  // caller does not look at.
  [[gnu::always_inline]] inline Row operator[](size_t index) const {
    const auto value = [ this, index ](size_t column) __attribute__((always_inline)) {
      return Value(column, index);
    };
    return Packing<Row>::Join(value);
  }

 private:
  static constexpr size_t kColumns = Packing<Row>::kColumns;

  struct Column {
    uint64_t smallest = 0;
    uint64_t mask = 0;    // of the bytes of a value
    uint32_t offset = 0;  // of the first value
    uint32_t width = 0;   // bytes a value: 0 to 8
  };

  [[gnu::always_inline]] inline int64_t Value(size_t at, size_t index) const {
    const Column& column = columns_[at];
    const uint8_t* number = bytes_.data() + column.offset + index * column.width;
    return static_cast<int64_t>(column.smallest + MaskedNumber(number, column.mask));
  }

  std::array<Column, kColumns> columns_;
  std::vector<uint8_t> bytes_;
};

// How a full chunk of a list is kept.
template <typename Row>
struct ChunkOf {
  using Type = std::vector<Row>;
};
template <Packable Row>
struct ChunkOf<Row> {
  using Type = PackedRows<Row>;
};

}  // namespace shardscope::query
