#include "engine/transport/copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardscope::transport {
namespace {

std::vector<std::byte> Counting(size_t bytes) {
  std::vector<std::byte> data(bytes);
  uint32_t state = 1;
  for (std::byte& one : data) {
    state = state * 1664525 + 1013904223;
    one = static_cast<std::byte>(state >> 24);
  }
  return data;
}

// Every alignment of both ends around the size from which on copies are streamed.
TEST(CopyPieceTest, CopiesEveryByteAndNoOther) {
  constexpr size_t kMargin = 128;
  const std::vector<std::byte> source = Counting(kStreamedBytes + 2 * kMargin);
  for (const size_t size : {size_t{0}, size_t{1}, kStreamedBytes - 1, kStreamedBytes,
                            kStreamedBytes + 1, kStreamedBytes + 63}) {
    for (const size_t to_offset : {0, 1, 4, 60, 63}) {
      for (const size_t from_offset : {0, 3, 16}) {
        std::vector<std::byte> target(kStreamedBytes + 2 * kMargin + 64, std::byte{0xA5});
        CopyPiece(target.data() + to_offset, source.data() + from_offset, size);
        for (size_t i = 0; i < target.size(); ++i) {
          const bool is_copied = i >= to_offset && i < to_offset + size;
          const std::byte expected =
              is_copied ? source[i - to_offset + from_offset] : std::byte{0xA5};
          if (target[i] != expected) {
            FAIL() << size << " bytes to +" << to_offset << " from +" << from_offset << ": byte "
                   << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardscope::transport
