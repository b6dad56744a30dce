#include "engine/checkpoint/blocks.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace shardscope::checkpoint {

struct BlockHasher::State {
  XXH3_state_t hash;
};

uint64_t HashOf(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

BlockHasher::BlockHasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }

BlockHasher::~BlockHasher() = default;

void BlockHasher::Add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kBlockBytes - filled_);
    XXH3_64bits_update(&state_->hash, bytes.data(), count);
    bytes = bytes.subspan(count);
    filled_ += count;
    if (filled_ < kBlockBytes) continue;
    blocks_.push_back(XXH3_64bits_digest(&state_->hash));
    XXH3_64bits_reset(&state_->hash);
    filled_ = 0;
  }
}

std::vector<uint64_t> BlockHasher::Finish() {
  if (filled_ > 0) blocks_.push_back(XXH3_64bits_digest(&state_->hash));
  return std::move(blocks_);
}

}  // namespace shardscope::checkpoint
