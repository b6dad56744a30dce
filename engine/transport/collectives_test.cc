// Both transports against the plain definition of each collective, for many sizes and rank counts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "engine/transport/reduce.h"
#include "engine/transport/test_ranks.h"
#include "engine/transport/transport.h"
#include "trace/base/time.h"

namespace shardscope::transport {
namespace {

using Bytes = std::vector<std::byte>;
using plan::DType;

constexpr int64_t kTimeoutNs = 60 * kNsPerSecond;

size_t SizeOf(DType dtype) { return static_cast<size_t>(plan::BytesOf(dtype)); }

void Put(Bytes* bytes, size_t index, DType dtype, double value) {
  std::byte* at = bytes->data() + index * SizeOf(dtype);
  const auto narrow = static_cast<float>(value);
  const uint16_t half = FloatToBf16(narrow);
  if (dtype == DType::kFp64) std::memcpy(at, &value, sizeof(value));
  if (dtype == DType::kFp32) std::memcpy(at, &narrow, sizeof(narrow));
  if (dtype == DType::kBf16) std::memcpy(at, &half, sizeof(half));
}

double Get(const Bytes& bytes, size_t index, DType dtype) {
  const std::byte* at = bytes.data() + index * SizeOf(dtype);
  double wide = 0;
  float narrow = 0;
  uint16_t half = 0;
  if (dtype == DType::kFp64) return std::memcpy(&wide, at, sizeof(wide)), wide;
  if (dtype == DType::kFp32) return std::memcpy(&narrow, at, sizeof(narrow)), narrow;
  return std::memcpy(&half, at, sizeof(half)), Bf16ToFloat(half);
}

Bytes RandomNumbers(size_t count, DType dtype, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Bytes bytes(count * SizeOf(dtype));
  for (size_t i = 0; i < count; ++i) Put(&bytes, i, dtype, normal(random));
  return bytes;
}

// The definition: ((a + b) + c) + ..., in max(fp32, dtype), scaled and rounded once.
Bytes NaiveSum(const std::vector<Bytes>& inputs, size_t from, size_t count, DType dtype,
               double scale) {
  Bytes result(count * SizeOf(dtype));
  for (size_t i = 0; i < count; ++i) {
    double wide = Get(inputs[0], from + i, dtype);
    auto narrow = static_cast<float>(wide);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      wide += Get(inputs[rank], from + i, dtype);
      narrow += static_cast<float>(Get(inputs[rank], from + i, dtype));
    }
    Put(&result, i, dtype,
        dtype == DType::kFp64 ? wide * scale : narrow * static_cast<float>(scale));
  }
  return result;
}

struct Case {
  bool emulated;
  int num_ranks;
  DType dtype;
};

class CollectivesTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& param = GetParam();
    transport_ = param.emulated ? MakeEmulatedTransport(param.num_ranks, kTimeoutNs, 1e12, 0)
                                : MakeSharedMemoryTransport(param.num_ranks, kTimeoutNs);
  }
  Call CallOf(int rank) const { return {.rank = rank, .op_name = "test", .wire_bytes = 64}; }

  const int num_ranks_ = GetParam().num_ranks;
  const DType dtype_ = GetParam().dtype;
  // Empty, tiny, below, at and above a block of the sum, and not divisible by any rank count.
  const std::vector<size_t> sizes_ = {0, 1, 3, 1023, 1024, 1025, 4801};
  const Reduction reduction_ = {.dtype = dtype_, .scale = 1.0 / 3};
  std::unique_ptr<Transport> transport_;
};

TEST_P(CollectivesTest, AllGatherGivesAllShardsInRankOrder) {
  const auto ranks = static_cast<size_t>(num_ranks_);
  std::vector<std::vector<Bytes>> received(ranks);
  OnRanks(num_ranks_, [&](int rank) {
    std::vector<Bytes> sends;
    std::vector<Bytes>& receives = received[static_cast<size_t>(rank)];
    std::vector<GatherPiece> pieces;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      sends.push_back(RandomNumbers(sizes_[i], dtype_,
                                    static_cast<uint32_t>(rank * 100) + static_cast<uint32_t>(i)));
      receives.emplace_back(ranks * sends[i].size());
      // Every other piece is sent from its place in the output.
      const std::byte* send = sends[i].data();
      if (i % 2 == 1) {
        std::byte* place = receives[i].data() + static_cast<size_t>(rank) * sends[i].size();
        std::memcpy(place, send, sends[i].size());
        send = place;
      }
      pieces.push_back({send, receives[i].data(), sends[i].size()});
    }
    transport_->AllGather(CallOf(rank), pieces);
  });
  for (size_t i = 0; i < sizes_.size(); ++i) {
    Bytes expected;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Bytes shard = RandomNumbers(sizes_[i], dtype_, rank * 100 + static_cast<uint32_t>(i));
      expected.insert(expected.end(), shard.begin(), shard.end());
    }
    for (size_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(received[rank][i], expected) << i;
  }
}

TEST_P(CollectivesTest, ReduceScatterGivesEachRankItsSum) {
  const auto ranks = static_cast<size_t>(num_ranks_);
  const auto input = [&](size_t rank, size_t piece) {
    return RandomNumbers(ranks * sizes_[piece], dtype_, static_cast<uint32_t>(rank * 100 + piece));
  };
  std::vector<std::vector<Bytes>> received(ranks);
  OnRanks(num_ranks_, [&](int rank) {
    std::vector<Bytes> sends;
    std::vector<Bytes>& receives = received[static_cast<size_t>(rank)];
    std::vector<ReducePiece> pieces;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      sends.push_back(input(static_cast<size_t>(rank), i));
      receives.emplace_back(sizes_[i] * SizeOf(dtype_));
      pieces.push_back({sends[i].data(), receives[i].data(), sizes_[i]});
    }
    transport_->ReduceScatter(CallOf(rank), pieces, reduction_);
  });
  for (size_t i = 0; i < sizes_.size(); ++i) {
    std::vector<Bytes> inputs;
    for (size_t rank = 0; rank < ranks; ++rank) inputs.push_back(input(rank, i));
    for (size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(received[rank][i],
                NaiveSum(inputs, rank * sizes_[i], sizes_[i], dtype_, reduction_.scale))
          << "piece " << i << " rank " << rank;
    }
  }
}

TEST_P(CollectivesTest, AllReduceGivesEveryRankTheSameSum) {
  const auto ranks = static_cast<size_t>(num_ranks_);
  const auto input = [&](size_t rank, size_t piece) {
    return RandomNumbers(sizes_[piece], dtype_, static_cast<uint32_t>(rank * 100 + piece));
  };
  std::vector<std::vector<Bytes>> data(ranks);
  OnRanks(num_ranks_, [&](int rank) {
    std::vector<Bytes>& own = data[static_cast<size_t>(rank)];
    std::vector<AllReducePiece> pieces;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      own.push_back(input(static_cast<size_t>(rank), i));
      pieces.push_back({own[i].data(), sizes_[i]});
    }
    transport_->AllReduce(CallOf(rank), pieces, reduction_);
  });
  for (size_t i = 0; i < sizes_.size(); ++i) {
    std::vector<Bytes> inputs;
    for (size_t rank = 0; rank < ranks; ++rank) inputs.push_back(input(rank, i));
    const Bytes expected = NaiveSum(inputs, 0, sizes_[i], dtype_, reduction_.scale);
    for (size_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(data[rank][i], expected) << i;
  }
}

// Many collectives in a row on the same buffers: a rank that runs ahead must not overwrite what
// others still read, and every repetition must give the same bits.
TEST_P(CollectivesTest, RepeatsBitForBit) {
  const auto ranks = static_cast<size_t>(num_ranks_);
  constexpr size_t kElements = 777;
  constexpr int kRepeats = 50;
  OnRanks(num_ranks_, [&](int rank) {
    Bytes first;
    Bytes send(ranks * kElements * SizeOf(dtype_));
    Bytes receive(kElements * SizeOf(dtype_));
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      send = RandomNumbers(ranks * kElements, dtype_, static_cast<uint32_t>(rank));
      const ReducePiece piece = {send.data(), receive.data(), kElements};
      transport_->ReduceScatter(CallOf(rank), {&piece, 1}, reduction_);
      std::memset(send.data(), 0xFF, send.size());  // a late reader would see NaN
      if (repeat == 0) first = receive;
      EXPECT_EQ(receive, first) << "rank " << rank << " repeat " << repeat;
    }
  });
}

TEST_P(CollectivesTest, BroadcastGivesTheValueOfRankZero) {
  OnRanks(num_ranks_, [&](int rank) {
    for (int64_t round = 0; round < 100; ++round) {
      EXPECT_EQ(transport_->Broadcast(rank, round * 1000 + rank), round * 1000);
    }
  });
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const bool emulated : {false, true}) {
    for (int num_ranks = 1; num_ranks <= 5; ++num_ranks) {
      for (const DType dtype : {DType::kFp32, DType::kFp64, DType::kBf16}) {
        cases.push_back({emulated, num_ranks, dtype});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CollectivesTest, testing::ValuesIn(AllCases()),
                         [](const testing::TestParamInfo<Case>& test) {
                           return std::string(test.param.emulated ? "emulated_" : "shared_") +
                                  std::to_string(test.param.num_ranks) + "_" +
                                  std::string(plan::Name(test.param.dtype));
                         });

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(1.0F), 0x3F80);
  // Halfway between 0x3F80 and 0x3F81 goes to the even one, halfway between 0x3F81 and 0x3F82 too.
  EXPECT_EQ(FloatToBf16(Bf16ToFloat(0x3F80) + 0x1p-8F), 0x3F80);
  EXPECT_EQ(FloatToBf16(Bf16ToFloat(0x3F81) + 0x1p-8F), 0x3F82);
  EXPECT_EQ(FloatToBf16(std::nextafter(Bf16ToFloat(0x3F80) + 0x1p-8F, 2.0F)), 0x3F81);
  EXPECT_EQ(FloatToBf16(-0.0F), 0x8000);
  EXPECT_EQ(FloatToBf16(INFINITY), 0x7F80);
  EXPECT_EQ(FloatToBf16(3.4e38F), 0x7F80);  // above the largest bf16
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(NAN))));
}

TEST(Bf16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = Bf16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(FloatToBf16(value), bits);
  }
}

}  // namespace
}  // namespace shardscope::transport
