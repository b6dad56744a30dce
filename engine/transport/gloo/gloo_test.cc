// Gloo among threads: the plain definition of each collective, and how ranks end that wait in vain.
// Processes are tested with the whole program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <map>

#include "engine/transport/collectives_test_util.h"
#include "engine/transport/failures_test_util.h"
#include "engine/transport/gloo/gloo_transport.h"
#include "trace/base/time.h"

namespace shardscope::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Gloo writes with writev to a rank that has just gone. The trainer ignores that, too.
[[maybe_unused]] const auto kBeforeAllTests = std::signal(SIGPIPE, SIG_IGN);

// Connecting takes longer than most tests: one transport for each number of ranks.
std::shared_ptr<Transport> GlooOf(int num_ranks) {
  static std::map<int, std::shared_ptr<Transport>> made;
  std::shared_ptr<Transport>& transport = made[num_ranks];
  if (transport == nullptr) transport = MakeGlooTransport(num_ranks, kTimeoutNs);
  return transport;
}

INSTANTIATE_TEST_SUITE_P(Gloo, CollectivesTest, testing::ValuesIn(CasesOf("gloo", GlooOf)),
                         NameOfCase);

// More than the buffers of a socket hold.
TEST(GlooTest, LargeReductionsHaveTheBitsOfSharedMemory) {
  constexpr int kRanks = 3;
  constexpr size_t kElements = 700'001;
  const auto gloo = MakeGlooTransport(kRanks, kTimeoutNs);
  const auto shared = MakeSharedMemoryTransport(kRanks, kTimeoutNs);
  OnRanks(kRanks, [&](int rank) {
    const Bytes input =
        RandomNumbers(kRanks * kElements, DType::kFp32, static_cast<uint32_t>(rank));
    const Call call = {.rank = rank, .op_name = "large"};
    const Reduction reduction = {.scale = 1.0 / 3};
    std::array<Bytes, 2> sums;
    std::array<Bytes, 2> scattered;
    for (size_t i = 0; i < 2; ++i) {
      Transport* transport = i == 0 ? gloo.get() : shared.get();
      sums[i] = input;
      const AllReducePiece all = {sums[i].data(), kRanks * kElements};
      transport->AllReduce(call, {&all, 1}, reduction);
      scattered[i].resize(kElements * sizeof(float));
      const ReducePiece own = {input.data(), scattered[i].data(), kElements};
      transport->ReduceScatter(call, {&own, 1}, reduction);
    }
    EXPECT_TRUE(sums[0] == sums[1]);
    EXPECT_TRUE(scattered[0] == scattered[1]);
  });
}

TEST(GlooTest, WhatARankPostsTheOthersCanRead) {
  const auto transport = MakeGlooTransport(2, kTimeoutNs);
  EXPECT_EQ(transport->ReadPost(1), "");
  transport->Post(1, "first");
  transport->Post(1, "0:12 1:11 ");
  EXPECT_EQ(transport->ReadPost(1), "0:12 1:11 ");
  EXPECT_EQ(transport->ReadPost(0), "");
}

TEST(GlooTest, CommunicatorsDoNotMixUp) {
  const auto transport = MakeGlooTransport(2, kTimeoutNs);
  // On rank 1 the two communicators run in the other order.
  OnRanks(4, [&](int thread) {
    const int rank = thread % 2;
    const int communicator = thread / 2;
    for (int round = 0; round < 200; ++round) {
      std::array<std::byte, 8> receive{};
      std::array<std::byte, 4> send{};
      send.fill(static_cast<std::byte>(communicator * 100 + rank * 10 + round % 10));
      const GatherPiece piece = {send.data(), receive.data(), send.size()};
      transport->AllGather({.rank = rank, .communicator = communicator, .op_name = "x"},
                           {&piece, 1});
      ASSERT_EQ(receive[0], static_cast<std::byte>(communicator * 100 + round % 10));
      ASSERT_EQ(receive[4], static_cast<std::byte>(communicator * 100 + 10 + round % 10));
    }
  });
}

TEST(GlooTest, TimeoutNamesWhoIsMissingAndStopsTheOthers) {
  const auto transport = MakeGlooTransport(4, 200 * kNsPerMs);
  OnRanks(4, [&](int rank) {
    if (rank == 1 || rank == 3) return;
    EXPECT_THAT(MessageOf([&] {
                  Gather(transport.get(), {.rank = rank, .op_name = "F m0 block3 all_gather"}, 8);
                }),
                AllOf(HasSubstr("rank 1 has not come; rank 3 has not come; rank "),
                      HasSubstr(" waits for them in all_gather 'F m0 block3 all_gather'"),
                      HasSubstr("longer than comm.timeout=200")));
  });
  EXPECT_THAT(MessageOf([&] { Gather(transport.get(), {.rank = 1, .op_name = "late"}, 8); }),
              StartsWith("aborted: "));
  EXPECT_THAT(MessageOf([&] { transport->Broadcast(3, 0); }), StartsWith("aborted: "));
}

TEST(GlooTest, CallsThatDifferMeetNobody) {
  const auto transport = MakeGlooTransport(2, 200 * kNsPerMs);
  OnRanks(2, [&](int rank) {
    EXPECT_THAT(MessageOf([&] {
                  Gather(transport.get(), {.rank = rank, .op_name = "x"}, rank == 0 ? 8 : 16);
                }),
                HasSubstr("has not come; rank"));
  });
}

// Whichever of them waits too long first.
TEST(GlooTest, ARankThatLeftOutAnOpIsNamedWithWhoWaitsThere) {
  for (const int ahead : {0, 2}) {
    const auto transport = MakeGlooTransport(3, 200 * kNsPerMs);
    OnRanks(3, [&](int rank) {
      Call call = {.rank = rank, .op_name = "F m0 block0 all_gather", .op = 12, .step = 4};
      if (rank == ahead)
        call = {.rank = rank, .op_name = "F m0 block1 all_gather", .op = 15, .step = 4};
      EXPECT_THAT(MessageOf([&] { Gather(transport.get(), call, 8); }),
                  AllOf(HasSubstr("rank " + std::to_string(ahead) +
                                  " left out all_gather 'F m0 block0 all_gather' (op 12, step 4), "
                                  "in which rank"),
                        HasSubstr("for it; rank " + std::to_string(ahead) +
                                  " called all_gather for 'F m0 block1 all_gather' (op 15)")));
    });
  }
}

// The one that is between steps has waited longest, and is yet the one that is missing.
TEST(GlooTest, ARankThatLeftOutTheLastOpOfAStepIsNamedWithWhoWaitsThere) {
  const auto transport = MakeGlooTransport(3, 300 * kNsPerMs);
  OnRanks(3, [&](int rank) {
    const std::string message = MessageOf([&] {
      if (rank == 1) {
        transport->Broadcast(1, 0);
        return;
      }
      SleepUntilNs(MonotonicNs() + 100 * kNsPerMs);
      Gather(transport.get(), {.rank = rank, .op_name = "O all_reduce", .op = 94}, 8);
    });
    EXPECT_THAT(message,
                AllOf(HasSubstr("rank 1, which waits in broadcast 'control', has not come; rank "),
                      HasSubstr(" waits for it in all_gather 'O all_reduce' (op 94)")));
  });
}

TEST(GlooTest, AbortEndsWaitersOnEveryCommunicatorAndAllLaterCalls) {
  ExpectAbortEndsAllCalls(MakeGlooTransport(5, 0).get());
}

}  // namespace
}  // namespace shardscope::transport
