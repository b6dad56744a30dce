#include "engine/transport/copy.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace shardscope::transport {
#if defined(__SSE2__)  // part of x86-64
namespace {

constexpr size_t kLineBytes = 64;

// Whole lines only, so that each is written to memory in one go. `to` is aligned to kLineBytes.
void StreamLines(std::byte* to, const std::byte* from, size_t lines) {
  for (size_t line = 0; line < lines; ++line, to += kLineBytes, from += kLineBytes) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i first = _mm_loadu_si128(source);
    const __m128i second = _mm_loadu_si128(source + 1);
    const __m128i third = _mm_loadu_si128(source + 2);
    const __m128i fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, first);
    _mm_stream_si128(target + 1, second);
    _mm_stream_si128(target + 2, third);
    _mm_stream_si128(target + 3, fourth);
  }
  // Streamed stores are not ordered with others: without this, a thread that is told that the
  // collective is done could read old bytes.
  _mm_sfence();
}

}  // namespace

void CopyPiece(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes < kStreamedBytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  const size_t head = (0 - reinterpret_cast<uintptr_t>(to)) % kLineBytes;
  const size_t lines = (bytes - head) / kLineBytes;
  const size_t tail = bytes - head - lines * kLineBytes;
  std::memcpy(to, from, head);
  StreamLines(to + head, from + head, lines);
  std::memcpy(to + bytes - tail, from + bytes - tail, tail);
}
#else
void CopyPiece(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
#endif

}  // namespace shardscope::transport
