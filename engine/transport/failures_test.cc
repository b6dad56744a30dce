// What happens when ranks disagree, do not come, or are told to stop: all of them end, with a
// message that says who and what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "engine/transport/failures_test_util.h"
#include "engine/transport/ranks_test_util.h"
#include "engine/transport/transport.h"
#include "trace/base/time.h"

namespace shardscope::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

void AllReduce(Transport* transport, const Call& call, const Reduction& reduction) {
  alignas(8) std::array<std::byte, 16> data{};
  const AllReducePiece piece = {data.data(), 2};
  transport->AllReduce(call, {&piece, 1}, reduction);
}

TEST(Mismatch, OfSizesNamesRanksAndOpsAndStopsAll) {
  const auto transport = MakeSharedMemoryTransport(3, 0);
  std::array<std::string, 3> messages;
  OnRanks(3, [&](int rank) {
    const std::string name = "op of rank " + std::to_string(rank);
    messages[static_cast<size_t>(rank)] = MessageOf(
        [&] { Gather(transport.get(), {.rank = rank, .op_name = name}, rank == 2 ? 16 : 8); });
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, AllOf(HasSubstr("size of piece 0 (8 and 16)"), HasSubstr("rank 2"),
                               HasSubstr("'op of rank 0'"), HasSubstr("'op of rank 2'")));
  }
}

TEST(Mismatch, OfKind) {
  const auto transport = MakeSharedMemoryTransport(2, 0);
  OnRanks(2, [&](int rank) {
    EXPECT_THAT(MessageOf([&] {
                  const Call call = {.rank = rank, .op_name = "x"};
                  if (rank == 0) Gather(transport.get(), call, 8);
                  if (rank == 1) AllReduce(transport.get(), call, {});
                }),
                AllOf(HasSubstr("kind"), HasSubstr("rank 0 called all_gather"),
                      HasSubstr("rank 1 called all_reduce")));
  });
}

TEST(Mismatch, OfDtypeAndScale) {
  for (const bool of_dtype : {true, false}) {
    const auto transport = MakeSharedMemoryTransport(2, 0);
    OnRanks(2, [&](int rank) {
      Reduction reduction;
      if (rank == 1 && of_dtype) reduction.dtype = plan::DType::kBf16;
      if (rank == 1 && !of_dtype) reduction.scale = 0.5;
      EXPECT_THAT(
          MessageOf([&] { AllReduce(transport.get(), {.rank = rank, .op_name = "x"}, reduction); }),
          HasSubstr(of_dtype ? "dtype (fp32 and bf16)" : "scale"));
    });
  }
}

// A rank that leaves out an op calls the next one, which may look the same.
TEST(Mismatch, OfOpsNamesWhoLeftOutWhichAndWhoWaitsThere) {
  for (const size_t bytes : {8, 16}) {
    const auto transport = MakeSharedMemoryTransport(3, 0);
    OnRanks(3, [&](int rank) {
      Call call = {.rank = rank, .op_name = "F m0 block0 all_gather", .op = 12, .step = 4};
      if (rank == 0) call = {.rank = 0, .op_name = "F m0 block1 all_gather", .op = 15, .step = 4};
      const std::string message =
          MessageOf([&] { Gather(transport.get(), call, rank == 0 ? bytes : 8); });
      EXPECT_EQ(message,
                "rank 0 left out all_gather 'F m0 block0 all_gather' (op 12, step 4), in which "
                "ranks 1, 2 wait for it; rank 0 called all_gather for 'F m0 block1 all_gather' "
                "(op 15)");
    });
  }
}

TEST(Timeout, NamesWhoIsMissingAndStopsTheOthers) {
  const auto transport = MakeSharedMemoryTransport(4, 20 * kNsPerMs);
  transport->set_describe_rank(
      [](int rank) { return rank == 3 ? "rank 3 hangs elsewhere" : std::string(); });
  OnRanks(4, [&](int rank) { Gather(transport.get(), {.rank = rank, .op_name = "all come"}, 8); });
  std::atomic<int> timed_out = 0;
  OnRanks(4, [&](int rank) {
    if (rank == 1 || rank == 3) return;
    const Call call = {.rank = rank, .op_name = "F m0 block3 all_gather", .op = 41};
    const std::string message = MessageOf([&] { Gather(transport.get(), call, 8); });
    ++timed_out;
    EXPECT_THAT(message, HasSubstr("rank 1 has not come; rank 3 hangs elsewhere; ranks 0, 2 wait "
                                   "for them in all_gather 'F m0 block3 all_gather' (op 41, "
                                   "sequence 1), longer than comm.timeout=20.0 ms"));
  });
  EXPECT_EQ(timed_out, 2);
  // The missing ranks, when they come at last, do not hang either.
  EXPECT_THAT(MessageOf([&] { Gather(transport.get(), {.rank = 1, .op_name = "late"}, 8); }),
              StartsWith("rank 1 has not come; "));
  EXPECT_THAT(MessageOf([&] { transport->Broadcast(3, 0); }), StartsWith("rank 1 has not come; "));
}

// A rank that left out the last op of a step waits longest, between steps, for those in the op.
TEST(Timeout, BetweenStepsNamesWhoIsMissingInAnOp) {
  const auto transport = MakeSharedMemoryTransport(3, 200 * kNsPerMs);
  OnRanks(3, [&](int rank) {
    const std::string message = MessageOf([&] {
      if (rank == 1) {
        transport->Broadcast(1, 0);
        return;
      }
      SleepUntilNs(MonotonicNs() + 60 * kNsPerMs);
      Gather(transport.get(), {.rank = rank, .op_name = "O all_reduce", .op = 94}, 8);
    });
    EXPECT_THAT(message, StartsWith("rank 1 has not come; ranks 0, 2 wait for it in all_gather "
                                    "'O all_reduce' (op 94, sequence 0), longer than "));
  });
}

TEST(Abort, EndsWaitersOnEveryCommunicatorAndAllLaterCalls) {
  ExpectAbortEndsAllCalls(MakeSharedMemoryTransport(5, 0).get());
}

TEST(Abort, EndsTheWaitForAnEmulatedLink) {
  // At one byte per second this would take a minute.
  const auto transport = MakeEmulatedTransport(2, 0, 1, 0);
  OnRanks(3, [&](int rank) {
    if (rank == 2) return transport->Abort("stop");
    EXPECT_EQ(MessageOf([&] {
                const Call call = {.rank = rank, .op_name = "x", .wire_bytes = 60};
                Gather(transport.get(), call, 8);
              }),
              "aborted: stop");
  });
}

}  // namespace
}  // namespace shardscope::transport
