// What the threads of a block do of a copy or a sum, on the CPU: every byte and element once, sums
// equal to those of the CPU's transports bit for bit, wherever the pieces lie.
#include "engine/cuda/transport/block_work.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine/transport/reduce.h"

namespace shardscope::cuda {
namespace {

constexpr uint32_t kThreads = 7;
constexpr size_t kGuard = 32;  // bytes beside what may be written

// Memory whose piece starts `shift` bytes behind a multiple of 16.
template <typename Stored>
class Piece {
 public:
  Piece(size_t elements, size_t shift)
      : memory_(elements * sizeof(Stored) / sizeof(Words) + 8), shift_(shift) {}
  char* bytes() { return reinterpret_cast<char*>(memory_.data()) + kGuard + shift_; }
  size_t first() const { return kGuard + shift_; }  // byte of All() where the piece starts
  std::string All() const {
    return {reinterpret_cast<const char*>(memory_.data()), memory_.size() * sizeof(Words)};
  }

 private:
  std::vector<Words> memory_;
  size_t shift_;
};

// Random bits: infinities, NaNs and subnormal numbers among them.
template <typename Stored>
void Fill(Piece<Stored>* piece, size_t elements, std::mt19937_64* random) {
  for (size_t i = 0; i < elements; ++i) {
    const uint64_t bits = (*random)();
    std::memcpy(piece->bytes() + i * sizeof(Stored), &bits, sizeof(Stored));
  }
}

template <typename Format>
void ExpectSumsEqual(plan::DType dtype, size_t elements, int num_inputs, size_t shift,
                     bool in_place) {
  using Stored = typename Format::Stored;
  std::mt19937_64 random(elements + shift);
  std::vector<Piece<Stored>> inputs;
  std::vector<const std::byte*> pointers;
  SumTask task{.num_inputs = num_inputs, .elements = elements, .dtype = dtype, .scale = 1.0 / 3};
  inputs.reserve(static_cast<size_t>(num_inputs));
  for (int i = 0; i < num_inputs; ++i) {
    // One that lies elsewhere than the rest makes all go the slow way.
    Piece<Stored>& input = inputs.emplace_back(elements, i == num_inputs / 2 ? shift : 0);
    Fill(&input, elements, &random);
    task.inputs[i] = input.bytes();
    pointers.push_back(reinterpret_cast<const std::byte*>(input.bytes()));
  }
  Piece<Stored> expected(elements, 0);
  transport::SumInOrder(pointers, elements, dtype, 1.0 / 3,
                        reinterpret_cast<std::byte*>(expected.bytes()));
  Piece<Stored> output(elements, 0);
  Piece<Stored>& target = in_place ? inputs.back() : output;
  const std::string before = target.All();
  task.output = target.bytes();
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    SumElements<Format>(task, 0, elements, {thread, kThreads});
  }
  for (size_t i = 0; i < elements; ++i) {
    Stored sum;
    Stored wanted;
    std::memcpy(&sum, target.bytes() + i * sizeof(Stored), sizeof(sum));
    std::memcpy(&wanted, expected.bytes() + i * sizeof(Stored), sizeof(wanted));
    if (Format::Load(sum) != Format::Load(sum)) {
      // Which NaN an operation gives when both sides are one is the processor's choice.
      ASSERT_NE(Format::Load(wanted), Format::Load(wanted));
    } else {
      ASSERT_EQ(std::memcmp(&sum, &wanted, sizeof(sum)), 0) << i << " of " << elements;
    }
  }
  // Nothing else was written.
  std::string after = target.All();
  after.replace(target.first(), elements * sizeof(Stored), before, target.first(),
                elements * sizeof(Stored));
  EXPECT_EQ(after, before);
}

template <typename Format>
void ExpectAllSumsEqual(plan::DType dtype) {
  const size_t step = sizeof(typename Format::Stored);
  for (const size_t elements : {1U, 3U, 4U, 127U, 128U, 1025U, 5000U}) {
    for (const int num_inputs : {1, 2, 5, kMaxLocalRanks}) {
      for (const size_t shift : {size_t{0}, step}) {
        ExpectSumsEqual<Format>(dtype, elements, num_inputs, shift, /*in_place=*/false);
        ExpectSumsEqual<Format>(dtype, elements, num_inputs, shift, /*in_place=*/true);
      }
    }
  }
}

TEST(SumElements, EqualsTheCpusSumBitForBitWhereverThePiecesLie) {
  ExpectAllSumsEqual<Fp32Format>(plan::DType::kFp32);
  ExpectAllSumsEqual<Fp64Format>(plan::DType::kFp64);
  ExpectAllSumsEqual<Bf16Format>(plan::DType::kBf16);
  ExpectAllSumsEqual<Fp16Format>(plan::DType::kFp16);
}

TEST(CopyBytes, CopiesAllAndNothingElseWhereverThePiecesLie) {
  std::mt19937_64 random(5);
  for (const size_t bytes : {1U, 2U, 15U, 16U, 17U, 63U, 448U, 449U, 5000U}) {
    for (const size_t from_shift : {0U, 1U, 2U, 4U, 8U}) {
      for (const size_t to_shift : {0U, 1U, 2U, 4U, 8U}) {
        Piece<char> from(bytes, from_shift);
        Piece<char> to(bytes, to_shift);
        Fill(&from, bytes, &random);
        std::string expected = to.All();
        expected.replace(kGuard + to_shift, bytes, from.bytes(), bytes);
        for (uint32_t thread = 0; thread < kThreads; ++thread) {
          CopyBytes(to.bytes(), from.bytes(), bytes, {thread, kThreads});
        }
        ASSERT_EQ(to.All(), expected) << bytes << " " << from_shift << " " << to_shift;
      }
    }
  }
}

}  // namespace
}  // namespace shardscope::cuda
