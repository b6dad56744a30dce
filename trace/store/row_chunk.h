// Rows of one table packed in columns: what a row of table row_chunk has as its data. They are
// unpacked in a fraction of the time in which SQLite gives them one by one.
//
// Note: Layout. Numbers are little endian; widths are 0 to 8 bytes.
//   u32 kChunkFormat, u32 rows, u32 columns
//   then each column in the order of its table, a u8 ChunkColumn in front:
//     integers  i64 base, i64 start, u8 width, a number of that width for each row
//     reals     8 bytes for each row
//     texts     u32 texts, the u32 length of each, their bytes one behind the other;
//               i64 base, i64 start (0), u8 width, which of them each row has, as integers
//   8 bytes of zeros, so that every number can be read as one of 8 bytes
// An integer is base + number + what it is a difference to, modulo 2^64. In the first row that is
// `start` where it is the row before.
//
// query::PackedRows packs the same way (trace/base/byte_width.h is what both share), but for
// memory: its rows are read in any order, so that it has neither differences to the row before
// nor texts, and it has no layout that files keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/store/row_batch.h"

namespace shardscope::store {

inline constexpr uint32_t kChunkFormat = 1;
inline constexpr size_t kMostRowsOfChunk = 65'536;
inline constexpr size_t kRowsOfChunk = 16'384;        // as written: reading ahead holds several
inline constexpr size_t kMostTextOfChunk = 64 << 20;  // bytes, with the rows that share a text

enum class ChunkColumn : uint8_t {
  kIntegers,          // as they are
  kFromRowBefore,     // integers, as differences to the row before
  kFromColumnBefore,  // likewise to the integer column before, 0 where there is none
  kReals,
  kTexts
};

// Packs all of 1 to kMostRowsOfChunk rows. Empty: their texts have more than kMostTextOfChunk.
std::string PackRows(const AnyRows& rows);

// Appends the rows that `data` has. False: it is not what PackRows() makes of such rows; then
// appends none. Takes any bytes, and memory for at most kMostRowsOfChunk rows with
// kMostTextOfChunk.
bool UnpackRows(std::string_view data, AnyRows* rows);

}  // namespace shardscope::store
