// A transport against the plain definition of each collective, for many sizes and rank counts. The
// tests of each transport include this and instantiate it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/plan/formats.h"
#include "engine/transport/ranks_test_util.h"
#include "engine/transport/reduce.h"
#include "engine/transport/transport.h"
#include "trace/base/time.h"

namespace shardscope::transport {
using Bytes = std::vector<std::byte>;
using plan::DType;

inline constexpr int64_t kTimeoutNs = 60 * kNsPerSecond;

inline size_t SizeOf(DType dtype) { return static_cast<size_t>(plan::BytesOf(dtype)); }

inline void Put(Bytes* bytes, size_t index, DType dtype, double value) {
  std::byte* at = bytes->data() + index * SizeOf(dtype);
  const auto narrow = static_cast<float>(value);
  const uint16_t half =
      dtype == DType::kFp16 ? plan::FloatToFp16(narrow) : plan::FloatToBf16(narrow);
  if (dtype == DType::kFp64) std::memcpy(at, &value, sizeof(value));
  if (dtype == DType::kFp32) std::memcpy(at, &narrow, sizeof(narrow));
  if (SizeOf(dtype) == sizeof(half)) std::memcpy(at, &half, sizeof(half));
}

inline double Get(const Bytes& bytes, size_t index, DType dtype) {
  const std::byte* at = bytes.data() + index * SizeOf(dtype);
  double wide = 0;
  float narrow = 0;
  uint16_t half = 0;
  if (dtype == DType::kFp64) return std::memcpy(&wide, at, sizeof(wide)), wide;
  if (dtype == DType::kFp32) return std::memcpy(&narrow, at, sizeof(narrow)), narrow;
  std::memcpy(&half, at, sizeof(half));
  return dtype == DType::kFp16 ? plan::Fp16ToFloat(half) : plan::Bf16ToFloat(half);
}

inline Bytes RandomNumbers(size_t count, DType dtype, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Bytes bytes(count * SizeOf(dtype));
  for (size_t i = 0; i < count; ++i) Put(&bytes, i, dtype, normal(random));
  return bytes;
}

// The definition: ((a + b) + c) + ..., in max(fp32, dtype), scaled and rounded once.
inline Bytes NaiveSum(const std::vector<Bytes>& inputs, size_t from, size_t count, DType dtype,
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
  std::function<std::shared_ptr<Transport>(int num_ranks)> make;  // may give one several times
  std::string name;
  int num_ranks;
  DType dtype;
};

inline std::vector<Case> CasesOf(const std::string& name, decltype(Case::make) make) {
  std::vector<Case> cases;
  for (int num_ranks = 1; num_ranks <= 5; ++num_ranks) {
    for (const DType dtype : {DType::kFp32, DType::kFp64, DType::kBf16, DType::kFp16}) {
      cases.push_back({make, name, num_ranks, dtype});
    }
  }
  return cases;
}

inline std::string NameOfCase(const testing::TestParamInfo<Case>& test) {
  return test.param.name + "_" + std::to_string(test.param.num_ranks) + "_" +
         std::string(plan::Name(test.param.dtype));
}

class CollectivesTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { transport_ = GetParam().make(num_ranks_); }
  Call CallOf(int rank) const { return {.rank = rank, .op_name = "test", .wire_bytes = 64}; }

  const int num_ranks_ = GetParam().num_ranks;
  const DType dtype_ = GetParam().dtype;
  // Empty, tiny, below, at and above a block of the sum, and not divisible by any rank count.
  const std::vector<size_t> sizes_ = {0, 1, 3, 1023, 1024, 1025, 4801};
  const Reduction reduction_ = {.dtype = dtype_, .scale = 1.0 / 3};
  std::shared_ptr<Transport> transport_;
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

// Two communicators over a mesh of two rows and two columns: groups of one do not wait for each
// other, and a rank's place in its group decides what it gets.
TEST_P(CollectivesTest, GroupsOfAMeshCallSideBySide) {
  if (num_ranks_ != 4) return;
  const plan::Mesh mesh = {{1, 2, 2, 1}};
  constexpr size_t kElements = 33;
  const auto input = [&](int rank) {
    return RandomNumbers(2 * kElements, dtype_, static_cast<uint32_t>(rank));
  };
  const auto bytes = kElements * SizeOf(dtype_);
  for (const plan::MeshDimension dimension :
       {plan::MeshDimension::kShard, plan::MeshDimension::kReplicate}) {
    OnRanks(num_ranks_, [&](int rank) {
      const plan::Group group = plan::GroupOf(mesh, {"", plan::Only(dimension)}, rank);
      Call call = CallOf(rank);
      call.communicator = static_cast<plan::CommunicatorIndex>(dimension);
      call.group = &group;
      std::vector<Bytes> inputs;
      for (const int member : group.ranks) inputs.push_back(input(member));
      const auto place = static_cast<size_t>(group.place);

      Bytes gathered(2 * bytes);
      const Bytes own = input(rank);
      const GatherPiece gather = {own.data(), gathered.data(), bytes};
      transport_->AllGather(call, {&gather, 1});
      for (size_t i = 0; i < bytes; ++i) {
        EXPECT_EQ(gathered[i], inputs[0][i]);
        EXPECT_EQ(gathered[bytes + i], inputs[1][i]);
      }

      Bytes sum(bytes);
      const ReducePiece reduce = {own.data(), sum.data(), kElements};
      transport_->ReduceScatter(call, {&reduce, 1}, reduction_);
      EXPECT_EQ(sum, NaiveSum(inputs, place * kElements, kElements, dtype_, reduction_.scale));

      Bytes all = own;
      const AllReducePiece all_reduce = {all.data(), 2 * kElements};
      transport_->AllReduce(call, {&all_reduce, 1}, reduction_);
      EXPECT_EQ(all, NaiveSum(inputs, 0, 2 * kElements, dtype_, reduction_.scale));
    });
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

TEST_P(CollectivesTest, BroadcastGivesAllWhatTheRootHas) {
  for (int root = 0; root < num_ranks_; ++root) {
    std::vector<Bytes> expected;
    for (const size_t size : sizes_) {
      expected.push_back(RandomNumbers(size, dtype_, static_cast<uint32_t>(root + 1)));
    }
    OnRanks(num_ranks_, [&](int rank) {
      std::vector<Bytes> memory = expected;
      std::vector<BroadcastPiece> pieces;
      for (Bytes& bytes : memory) {
        if (rank != root) bytes.assign(bytes.size(), std::byte{0xFF});
        pieces.push_back({bytes.data(), bytes.size()});
      }
      Call call = CallOf(rank);
      call.root = root;
      transport_->Broadcast(call, pieces);
      EXPECT_EQ(memory, expected) << "rank " << rank << ", root " << root;
    });
  }
}

// As the stages of a pipeline, two by two: one sends to the other, and that one back, each way on a
// communicator of its own. The last of an odd number is alone.
TEST_P(CollectivesTest, NeighboursExchangeBothWays) {
  constexpr size_t kBytes = 4096;
  OnRanks(num_ranks_, [&](int rank) {
    const int first = rank / 2 * 2;
    plan::Group pair = {.place = rank - first, .ranks = {first}};
    if (first + 1 < num_ranks_) pair.ranks.push_back(first + 1);
    for (size_t sender = 0; sender < pair.ranks.size(); ++sender) {
      Bytes memory(kBytes, std::byte{static_cast<unsigned char>(rank + 1)});
      Call call = CallOf(rank);
      call.root = static_cast<int32_t>(sender);
      call.communicator = PairCommunicator(call.root, first + call.root);
      call.group = &pair;
      const BroadcastPiece piece = {memory.data(), memory.size()};
      transport_->Broadcast(call, {&piece, 1});
      const auto sent = static_cast<unsigned char>(pair.ranks[sender] + 1);
      EXPECT_EQ(memory, Bytes(kBytes, std::byte{sent}));
    }
    if (pair.ranks.size() == 1) {  // as often as the others
      Call call = CallOf(rank);
      call.root = 0;
      call.communicator = PairCommunicator(1, first);
      call.group = &pair;
      transport_->Broadcast(call, {});
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

}  // namespace shardscope::transport
