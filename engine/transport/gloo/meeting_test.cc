// The meeting among threads that share a store; processes are tested with the whole program.
#include "engine/transport/gloo/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "engine/transport/gloo/stop_reason.h"
#include "engine/transport/gloo/store.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::transport {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// What each of those who come is told; empty: that all have come.
std::vector<std::string> Met(const std::vector<GlooProcess>& processes, int64_t timeout_ns,
                             Store* store) {
  std::vector<std::string> said(processes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i] {
      Patience patience(processes[i], timeout_ns);
      try {
        Meet(processes[i], store, &patience);
      } catch (const TransportError& error) {
        said[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::vector<std::string> Met(const std::vector<GlooProcess>& processes, int64_t timeout_ns) {
  return Met(processes, timeout_ns, Store::InProcess().get());
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

TEST(Meeting, WhoDoesNotComeIsNotWaitedFor) {
  const auto store = Store::InProcess();
  const GlooProcess leader = Process(0, 3);
  Refuse(leader, "no disk", store.get(), Patience(leader, 60 * kNsPerSecond));
  EXPECT_THAT(Met({Process(1, 3), Process(2, 3)}, 60 * kNsPerSecond, store.get()), Each("no disk"));
}

TEST(Meeting, WhoStaysAwayFromAnotherRunHarmsNobody) {
  const auto store = Store::InProcess();
  const GlooProcess leader = Process(0, 2);
  EXPECT_THAT(Met({leader, Process(1, 2)}, 60 * kNsPerSecond, store.get()), Each(""));
  Refuse(leader, "no disk", store.get(), Patience(leader, 60 * kNsPerSecond));
  EXPECT_FALSE(StopReason(store.get()).WaitFor(0));
}

// A port that is free now.
int FreePort() {
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  SHARDSCOPE_CHECK(bind(server, reinterpret_cast<sockaddr*>(&address), size) == 0);
  SHARDSCOPE_CHECK(getsockname(server, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(server);
  return ntohs(address.sin_port);
}

// Of two processes that meet on this machine.
GlooProcess LeaderHere() {
  GlooProcess leader = Process(0, 2);
  leader.master_address = "127.0.0.1";
  leader.master_port = FreePort();
  return leader;
}

// Rank 0 serves the store until the other has read it, whichever of them is there first.
TEST(Meeting, WhoStaysAwayTellsThoseWhoWait) {
  const GlooProcess leader = LeaderHere();
  GlooProcess other = leader;
  other.rank = 1;
  std::string said;
  std::thread waits([&] {
    try {
      MakeGlooTransport(other, 60 * kNsPerSecond);
    } catch (const TransportError& error) {
      said = error.what();
    }
  });
  StayAway(leader, "no disk", 60 * kNsPerSecond);
  waits.join();
  EXPECT_EQ(said, "no disk");
}

TEST(Meeting, WhoComesWhenTheStoreIsGoneHasMetNobody) {
  const GlooProcess leader = LeaderHere();
  GlooProcess late = leader;
  late.rank = 1;
  Patience patience(late, 60 * kNsPerSecond);
  std::unique_ptr<Store> served = Store::OfProcesses(leader, &patience);
  const std::unique_ptr<Store> reached = Store::OfProcesses(late, &patience);
  served.reset();
  try {
    Meet(late, reached.get(), &patience);
    ADD_FAILURE() << "it met somebody";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 is gone"));
  }
}

}  // namespace
}  // namespace shardscope::transport
