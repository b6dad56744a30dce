// The emulated link ends no collective before its model allows. Only lower bounds are asserted: how
// much later depends on the machine.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <thread>

#include "engine/transport/link.h"
#include "engine/transport/ranks_test_util.h"
#include "engine/transport/rendezvous.h"
#include "engine/transport/transport.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/words.h"

namespace shardscope::transport {
namespace {

constexpr double kMegabytePerSecond = 1e6;
constexpr int kRankZero[] = {0};

TEST(Link, ChargesLatencyAndBytesAfterTheArrival) {
  Link link(1, kMegabytePerSecond, 50);
  EXPECT_EQ(link.Reserve(kRankZero, 1'000'000, 3), 1'000'000 + 50 + 3'000);
}

TEST(Link, SerialisesCollectivesAndIsFreeInBetween) {
  Link link(1, kMegabytePerSecond, 50);
  const int64_t first_end_ns = link.Reserve(kRankZero, 100, 10);
  EXPECT_EQ(link.Reserve(kRankZero, 200, 10), first_end_ns + 50 + 10'000);
  EXPECT_EQ(link.Reserve(kRankZero, 1'000'000, 10), 1'000'000 + 50 + 10'000);
}

TEST(Link, RanksOfDifferentGroupsDoNotWaitForEachOther) {
  Link link(4, kMegabytePerSecond, 0);
  constexpr int kFirst[] = {0, 1};
  constexpr int kSecond[] = {2, 3};
  constexpr int kAcross[] = {1, 3};
  EXPECT_EQ(link.Reserve(kFirst, 0, 10), 10'000);
  EXPECT_EQ(link.Reserve(kSecond, 0, 20), 20'000);
  EXPECT_EQ(link.Reserve(kAcross, 0, 5), 25'000);  // after the wires of both
  EXPECT_EQ(link.Reserve(kFirst, 0, 1), 26'000);
}

TEST(Link, OtherLinksHaveWiresOfTheirOwn) {
  Link link(1, kMegabytePerSecond, 50);
  const CallLink slow = {.wire = 2, .bytes_per_second = kMegabytePerSecond / 10};
  const CallLink at_once = {.wire = 1, .latency_ns = 0};
  EXPECT_EQ(link.Reserve(kRankZero, 0, 10), 50 + 10'000);
  EXPECT_EQ(link.Reserve(kRankZero, 0, 10, slow), 50 + 100'000);
  EXPECT_EQ(link.Reserve(kRankZero, 0, 10, at_once), 10'000);
  EXPECT_EQ(link.Reserve(kRankZero, 0, 10), 2 * (50 + 10'000));
  EXPECT_EQ(link.Reserve(kRankZero, 0, 10, slow), 2 * (50 + 100'000));
}

TEST(Link, AChangeHoldsForLaterCollectives) {
  Link link(1, kMegabytePerSecond, 0);
  const int64_t first_end_ns = link.Reserve(kRankZero, 0, 10);
  link.Set(2 * kMegabytePerSecond, 7);
  EXPECT_EQ(first_end_ns, 10'000);
  EXPECT_EQ(link.Reserve(kRankZero, first_end_ns, 10), first_end_ns + 7 + 5'000);
}

struct Interval {
  int64_t start_ns;
  int64_t end_ns;
};

Interval Gather(Transport* transport, int rank, int communicator, int64_t wire_bytes) {
  std::array<std::byte, 8> send{};
  std::array<std::byte, 64> receive{};
  const GatherPiece piece = {send.data(), receive.data(), send.size()};
  const int64_t start_ns = MonotonicNs();
  transport->AllGather(
      {.rank = rank, .communicator = communicator, .op_name = "x", .wire_bytes = wire_bytes},
      {&piece, 1});
  return {start_ns, MonotonicNs()};
}

TEST(Emulated, EndsNoEarlierThanTheModelAfterTheLastArrival) {
  constexpr int64_t kLatencyNs = 2 * kNsPerMs;
  constexpr int64_t kTransferNs = 5 * kNsPerMs;  // 5000 bytes at 1 MB/s
  const auto transport = MakeEmulatedTransport(3, 0, kMegabytePerSecond, kLatencyNs);
  std::array<Interval, 3> runs{};
  OnRanks(3, [&](int rank) {
    if (rank == 1) SleepUntilNs(MonotonicNs() + 10 * kNsPerMs);  // a straggler
    runs[static_cast<size_t>(rank)] = Gather(transport.get(), rank, 0, 5000);
  });
  for (const Interval& run : runs)
    EXPECT_GE(run.end_ns, runs[1].start_ns + kLatencyNs + kTransferNs);
}

TEST(Emulated, CommunicatorsOfARankShareItsLink) {
  const auto transport = MakeEmulatedTransport(2, 0, kMegabytePerSecond, 0);
  Mutex mutex;
  int64_t first_start_ns = INT64_MAX;
  std::array<int64_t, 2> end_ns{};
  // Ranks 0 and 1, each with a thread for communicator 0 and one for communicator 1.
  OnRanks(4, [&](int thread) {
    const auto communicator = static_cast<size_t>(thread / 2);
    const Interval run = Gather(transport.get(), thread % 2, thread / 2, 5000);
    const MutexLock lock(mutex);
    first_start_ns = std::min(first_start_ns, run.start_ns);
    end_ns[communicator] = std::max(end_ns[communicator], run.end_ns);
  });
  EXPECT_GE(std::max(end_ns[0], end_ns[1]), first_start_ns + 10 * kNsPerMs);
}

TEST(Emulated, WaitsWithoutUsingTheProcessor) {
  const auto transport = MakeEmulatedTransport(2, 0, kMegabytePerSecond, 0);
  OnRanks(2, [&](int rank) {
    const int64_t cpu_from_ns = ThreadCpuNs();
    const Interval run = Gather(transport.get(), rank, 0, 50'000);
    EXPECT_LT(ThreadCpuNs() - cpu_from_ns, (run.end_ns - run.start_ns) / 2);
  });
}

// How often this thread gave its core away by itself.
int64_t Sleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

Rendezvous RendezvousOf(int num_ranks) {
  std::vector<int> ranks(static_cast<size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {ranks, 0, nullptr, [](int) { return std::string(); }};
}

TEST(Emulated, TheLastStretchIsWaitedForAwake) {
  Rendezvous rendezvous = RendezvousOf(1);
  const int64_t sleeps = Sleeps();
  for (int i = 0; i < 20; ++i) {
    const int64_t deadline_ns = MonotonicNs() + 50 * kNsPerUs;
    rendezvous.SleepUntil(deadline_ns);
    EXPECT_GE(MonotonicNs(), deadline_ns);
  }
  EXPECT_EQ(Sleeps(), sleeps);
  rendezvous.SleepUntil(MonotonicNs() + 20 * kNsPerMs);
  EXPECT_GT(Sleeps(), sleeps);
}

TEST(Emulated, RanksThatShareCoresSleepToTheEnd) {
  Rendezvous rendezvous = RendezvousOf(static_cast<int>(std::thread::hardware_concurrency()) + 1);
  const int64_t sleeps = Sleeps();
  for (int i = 0; i < 20; ++i) rendezvous.SleepUntil(MonotonicNs() + 50 * kNsPerUs);
  EXPECT_GT(Sleeps(), sleeps);
}

TEST(Emulated, OneRankHasNoLink) {
  // At this speed the first byte would arrive after the test's time limit.
  const auto transport = MakeEmulatedTransport(1, 0, 1e-6, 1000 * kNsPerSecond);
  Gather(transport.get(), 0, 0, 1);
}

TEST(Emulated, SaysWhatItIs) {
  const auto emulated = MakeEmulatedTransport(1, 0, 1, 0);
  EXPECT_EQ(emulated->capabilities().truth, words::Truth::kEmulated);
  EXPECT_TRUE(emulated->capabilities().has_link);
  const auto shared_memory = MakeSharedMemoryTransport(1, 0);
  EXPECT_EQ(shared_memory->capabilities().truth, words::Truth::kMeasured);
  EXPECT_FALSE(shared_memory->capabilities().has_link);
  shared_memory->SetLink(1, 1);  // ignored
}

}  // namespace
}  // namespace shardscope::transport
