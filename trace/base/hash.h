// FNV-1a of 64 bits (Fowler, Noll, Vo): what initial weights and names of cached files are made
// from, so the numbers stay what they are.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardscope {

inline constexpr uint64_t kFnvBasis = 0xcbf29ce484222325;  // of nothing

// `hash` and one more word; by the definition one byte.
constexpr uint64_t FnvStep(uint64_t hash, uint64_t word) { return (hash ^ word) * 0x100000001b3; }

// Of `bytes` behind what `hash` is of.
constexpr uint64_t Fnv1a(std::string_view bytes, uint64_t hash = kFnvBasis) {
  for (const char byte : bytes) hash = FnvStep(hash, static_cast<unsigned char>(byte));
  return hash;
}

}  // namespace shardscope
