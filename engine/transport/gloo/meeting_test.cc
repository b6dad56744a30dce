// The meeting among threads that share a store; processes are tested with the whole program.
#include "engine/transport/gloo/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "engine/transport/gloo/store.h"
#include "trace/base/time.h"

namespace shardscope::transport {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// What each of those who come is told; empty: that all have come.
std::vector<std::string> Met(const std::vector<GlooProcess>& processes, int64_t timeout_ns) {
  const auto store = Store::InProcess();
  std::vector<std::string> said(processes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i] {
      Patience patience(processes[i], timeout_ns);
      try {
        Meet(processes[i], store.get(), &patience);
      } catch (const TransportError& error) {
        said[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

GlooProcess Process(int rank, int num_ranks) {
  return {.rank = rank, .num_ranks = num_ranks, .master_address = "host", .master_port = 29500};
}

TEST(Meeting, EndsWhenAllHaveCome) {
  EXPECT_THAT(Met({Process(2, 3), Process(0, 3), Process(1, 3)}, 60 * kNsPerSecond), Each(""));
}

TEST(Meeting, TwoWorldSizesAreNamedToAll) {
  EXPECT_THAT(
      Met({Process(0, 2), Process(1, 3), Process(2, 3)}, 60 * kNsPerSecond),
      Each(AllOf(HasSubstr("WORLD_SIZE=2"), HasSubstr("WORLD_SIZE=3"), HasSubstr("rank "))));
}

TEST(Meeting, ARankThatIsThereTwiceIsNamedToAll) {
  EXPECT_THAT(Met({Process(0, 3), Process(1, 3), Process(1, 3)}, 60 * kNsPerSecond),
              Each(HasSubstr("rank 1 is there twice: RANK=1 was given to process ")));
}

TEST(Meeting, RanksThatDoNotComeAreNamed) {
  EXPECT_THAT(Met({Process(0, 4), Process(2, 4)}, 200 * kNsPerMs),
              Each(AllOf(HasSubstr("ranks 1, 3 have not come to host:29500"),
                         HasSubstr("comm.timeout=200"), HasSubstr("WORLD_SIZE=4"))));
}

}  // namespace
}  // namespace shardscope::transport
