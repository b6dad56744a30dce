#include "engine/transport/reduce.h"

#include <algorithm>
#include <array>

#include "engine/plan/formats.h"

namespace shardscope::transport {
namespace {

// Accumulators of a block stay in the first-level cache while the inputs stream by: 8 KiB of fp64.
constexpr size_t kBlockElements = 1024;

template <typename Format>
void AddBlock(const typename Format::Stored* __restrict input, size_t elements,
              typename Format::Sum* __restrict sums) {
  for (size_t i = 0; i < elements; ++i) sums[i] += Format::Load(input[i]);
}

template <typename Format>
void Sum(std::span<const std::byte* const> inputs, size_t elements, double scale,
         std::byte* output) {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  const auto factor = static_cast<Sum>(scale);
  std::array<Sum, kBlockElements> sums;
  for (size_t from = 0; from < elements; from += kBlockElements) {
    const size_t count = std::min(kBlockElements, elements - from);
    const auto block_of = [&](const std::byte* data) {
      return reinterpret_cast<const Stored*>(data) + from;
    };
    // The first input starts the sum: adding it to zero would turn -0 into +0.
    const Stored* first = block_of(inputs.front());
    for (size_t i = 0; i < count; ++i) sums[i] = Format::Load(first[i]);
    for (const std::byte* input : inputs.subspan(1)) {
      AddBlock<Format>(block_of(input), count, sums.data());
    }
    Stored* result = reinterpret_cast<Stored*>(output) + from;
    for (size_t i = 0; i < count; ++i) result[i] = Format::Store(sums[i] * factor);
  }
}

}  // namespace

std::pair<size_t, size_t> ChunkOf(size_t elements, int rank, int num_ranks) {
  const auto at = [&](int r) {
    return elements * static_cast<size_t>(r) / static_cast<size_t>(num_ranks);
  };
  return {at(rank), at(rank + 1)};
}

void SumInOrder(std::span<const std::byte* const> inputs, size_t elements, plan::DType dtype,
                double scale, std::byte* output) {
  switch (dtype) {
    case plan::DType::kFp32:
      return Sum<plan::Fp32Format>(inputs, elements, scale, output);
    case plan::DType::kFp64:
      return Sum<plan::Fp64Format>(inputs, elements, scale, output);
    case plan::DType::kBf16:
      return Sum<plan::Bf16Format>(inputs, elements, scale, output);
    case plan::DType::kFp16:
      return Sum<plan::Fp16Format>(inputs, elements, scale, output);
  }
}

}  // namespace shardscope::transport
