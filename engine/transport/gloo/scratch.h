// Scratch: memory for what other ranks send to be summed, for the length of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/transport/transport.h"

namespace shardscope::transport {

inline constexpr size_t kScratchAlignment = 64;

inline size_t AlignedUp(size_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

class Scratch {
 public:
  Scratch(const Call& call, size_t bytes)
      : owner_(call.scratch),
        bytes_(bytes),
        own_(owner_ == nullptr ? bytes + kScratchAlignment : 0),
        data_(owner_ == nullptr ? Aligned(own_.data()) : owner_->Take(bytes)) {}
  ~Scratch() {
    if (owner_ != nullptr) owner_->GiveBack(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* data() const { return data_; }

 private:
  static std::byte* Aligned(std::byte* block) {
    const auto address = reinterpret_cast<uintptr_t>(block);
    return block + (kScratchAlignment - address % kScratchAlignment) % kScratchAlignment;
  }

  ScratchMemory* const owner_;
  const size_t bytes_;
  std::vector<std::byte> own_;
  std::byte* const data_;
};

}  // namespace shardscope::transport
