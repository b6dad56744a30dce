// Checksums of a file by blocks: a reader of a part of it checks the blocks that it touches, and
// no more. XXH3 with 64 bits (https://xxhash.com): as fast as memory, against damage, not malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace shardscope::checkpoint {

inline constexpr size_t kBlockBytes = size_t{1} << 20;

uint64_t HashOf(std::span<const std::byte> bytes);

// Of what is written piece by piece.
class BlockHasher {
 public:
  BlockHasher();
  ~BlockHasher();
  BlockHasher(BlockHasher&&) = delete;

  void Add(std::span<const std::byte> bytes);
  // Of each block, the last one perhaps shorter. To be called once, at the end.
  std::vector<uint64_t> Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
  size_t filled_ = 0;  // of the block that is begun
  std::vector<uint64_t> blocks_;
};

}  // namespace shardscope::checkpoint
