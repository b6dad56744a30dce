// The NCCL transport with a fake NCCL on a fake GPU: data, errors, aborts, late ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <thread>

#include "engine/cuda/transport/nccl/fake_nccl_test_util.h"
#include "engine/cuda/transport/nccl/nccl_channels.h"
#include "engine/cuda/transport/nccl/nccl_transport.h"
#include "engine/transport/ranks_test_util.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using transport::AllReducePiece;
using transport::Call;
using transport::GatherPiece;
using transport::OnRanks;
using transport::ReducePiece;
using transport::TransportError;
using transport::TransportTimeout;

constexpr int64_t kPatienceNs = 60 * kNsPerSecond;
// Of tests that wait for it to pass; on a busy machine what must come before takes long as well.
constexpr int64_t kShortNs = kNsPerSecond;

struct Node {
  explicit Node(int ranks, int64_t timeout_ns = kPatienceNs,
                int64_t abort_patience_ns = kPatienceNs, DeviceLog* log = nullptr)
      : num_ranks(ranks) {
    transport = MakeNcclTransport({.num_ranks = ranks,
                                   .timeout_ns = timeout_ns,
                                   .look_every_ns = 2'000'000,
                                   .abort_patience_ns = abort_patience_ns,
                                   .api = gpu.Api(),
                                   .nccl = nccl.Api(),
                                   .kernels = std::make_shared<FakeKernels>(&gpu),
                                   .log = log},
                                  transport::MakeSharedMemoryTransport(ranks, kPatienceNs));
    for (int i = 0; i < 2 * ranks; ++i) streams.push_back(gpu.NewStream());
  }
  Call CallOf(int rank, int communicator = 0) const {
    Call call{.rank = rank, .op_name = "F m0 block1 all_gather", .op = 12};
    call.communicator = static_cast<plan::CommunicatorIndex>(communicator);
    call.device_stream = streams[static_cast<size_t>(communicator * num_ranks + rank)];
    return call;
  }
  // Of eight bytes, on every rank of `ranks`.
  void Gather(int rank, int communicator = 0) {
    static std::byte memory[64];
    const GatherPiece piece = {memory, memory + 8, 8};
    transport->AllGather(CallOf(rank, communicator), {&piece, 1});
  }
  // What the transport says once it has been aborted.
  std::string Reason(int rank) {
    while (true) {
      try {
        transport->Broadcast(rank, 0);
      } catch (const TransportError& error) {
        return error.what();
      }
    }
  }

  FakeGpu gpu;
  FakeNccl nccl{&gpu};
  const int num_ranks;
  std::unique_ptr<transport::Transport> transport;
  std::vector<Stream> streams;
};

TEST(NcclTransport, MovesAndSumsAndScales) {
  constexpr int kRanks = 3;
  Node node(kRanks);
  std::vector<std::vector<float>> wholes(kRanks, std::vector<float>(6));
  std::vector<std::vector<float>> sums(kRanks, std::vector<float>(2));
  std::vector<std::vector<double>> norms(kRanks);
  OnRanks(kRanks, [&](int rank) {
    auto& whole = wholes[static_cast<size_t>(rank)];
    auto& sum = sums[static_cast<size_t>(rank)];
    auto& norm = norms[static_cast<size_t>(rank)];
    norm = {static_cast<double>(rank)};
    whole[static_cast<size_t>(2 * rank)] = static_cast<float>(rank);
    whole[static_cast<size_t>(2 * rank + 1)] = static_cast<float>(rank + 10);
    auto* bytes = reinterpret_cast<std::byte*>(whole.data());
    const std::vector<GatherPiece> gather = {{bytes + 8 * rank, bytes, 8}, {bytes, bytes, 0}};
    node.transport->AllGather(node.CallOf(rank), gather);
    const ReducePiece reduce = {bytes, reinterpret_cast<std::byte*>(sum.data()), 2};
    node.transport->ReduceScatter(node.CallOf(rank), {&reduce, 1}, {plan::DType::kFp32, 0.5});
    const AllReducePiece all = {reinterpret_cast<std::byte*>(norm.data()), 1};
    node.transport->AllReduce(node.CallOf(rank), {&all, 1}, {plan::DType::kFp64, 1});
  });
  node.gpu.Run(3);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const auto value = static_cast<float>(rank);
    EXPECT_THAT(wholes[rank], ElementsAre(0, 10, 1, 11, 2, 12));
    EXPECT_THAT(sums[rank], ElementsAre(value * 1.5F, (value + 10) * 1.5F));
    EXPECT_THAT(norms[rank], ElementsAre(3));
  }
  // One group a collective, whatever the number of pieces.
  EXPECT_EQ(node.nccl.num_groups, 3 * kRanks);
}

// Hears of calls of NCCL, with when the fake allocated in them.
class NcclLog final : public DeviceLog {
 public:
  struct Heard {
    std::string name;
    gpu::NcclRange call;
  };
  void OnStream(int /*rank*/, Stream /*stream*/) override {}
  void OnIssued(const cupti::HostOp& /*op*/) override {}
  std::vector<DeviceInterval> TakeStep(int /*rank*/, int64_t /*step*/, size_t /*ops*/) override {
    return {};
  }
  void OnNccl(const gpu::NcclRange& call) override {
    const MutexLock lock(mutex_);
    heard.push_back({std::string(call.name), call});
  }
  std::vector<Heard> heard;

 private:
  Mutex mutex_;
};

TEST(NcclTransport, TellsWhenAThreadIsInNccl) {
  NcclLog log;
  Node node(1, kPatienceNs, kPatienceNs, &log);
  node.Gather(0);
  node.Gather(0);
  node.Gather(0, 1);
  ASSERT_EQ(log.heard.size(), 5U);  // two communicators, three collectives
  const std::string init = "ncclCommInitRankConfig";
  const std::string gather = "F m0 block1 all_gather";
  const std::vector<std::string> names = {init, gather, gather, init, gather};
  int64_t last_ns = 0;
  std::vector<std::pair<int64_t, int64_t>> within;
  for (size_t i = 0; i < names.size(); ++i) {
    const gpu::NcclRange& call = log.heard[i].call;
    EXPECT_EQ(log.heard[i].name, names[i]);
    EXPECT_EQ(call.thread, static_cast<uint32_t>(gettid()));
    EXPECT_GE(call.start_ns, last_ns);
    EXPECT_GE(call.end_ns, call.start_ns);
    last_ns = call.end_ns;
    within.emplace_back(call.start_ns, call.end_ns);
  }
  // What NCCL takes of the driver it takes in one of them.
  ASSERT_EQ(node.nccl.allocated_ns.size(), 5U);
  for (size_t i = 0; i < within.size(); ++i) {
    EXPECT_LE(within[i].first, node.nccl.allocated_ns[i]);
    EXPECT_GE(within[i].second, node.nccl.allocated_ns[i]);
  }
  node.gpu.Run(1);
}

TEST(NcclTransport, TellsOfACallThatFailsToo) {
  NcclLog log;
  Node node(1, kPatienceNs, kPatienceNs, &log);
  node.nccl.collective_result = ncclUnhandledCudaError;
  EXPECT_THROW(node.Gather(0), TransportError);
  ASSERT_EQ(log.heard.size(), 2U);
  EXPECT_EQ(log.heard[1].name, "F m0 block1 all_gather");
}

TEST(NcclTransport, EveryCommunicatorOfTheScheduleIsItsOwn) {
  Node node(2);
  OnRanks(2, [&](int rank) {
    for (const int communicator : {0, 1, 0, 1}) node.Gather(rank, communicator);
  });
  EXPECT_EQ(node.nccl.num_live, 4);  // two ranks, two communicators
  node.gpu.Run(1);
  node.transport.reset();
  EXPECT_EQ(node.nccl.num_live, 0);
  EXPECT_EQ(node.gpu.num_live_events(), 0U);
}

TEST(NcclTransport, ARankThatIsLateIsNamedWithItsNumber) {
  Node node(3, kShortNs);
  node.transport->set_describe_rank(
      [](int rank) { return rank == 2 ? "rank 2 hangs in 'B m0 block1.mlp'" : ""; });
  OnRanks(3, [&](int rank) {
    node.Gather(rank);
    if (rank != 2) node.Gather(rank);
  });
  node.gpu.RunWhatCan(1);
  const std::string reason = node.Reason(0);
  EXPECT_THAT(reason, HasSubstr("'F m0 block1 all_gather' (op 12, number 2 of communicator 0)"));
  EXPECT_THAT(reason, HasSubstr("rank 2 hangs in 'B m0 block1.mlp', it has issued 1"));
  EXPECT_EQ(reason.find("rank 1 has"), std::string::npos);
  EXPECT_THROW(node.Gather(1), TransportTimeout);
  while (node.nccl.num_live > 0) std::this_thread::yield();
  EXPECT_EQ(node.nccl.num_aborts, 3);
}

TEST(NcclTransport, WhenAllHaveIssuedTheMessageSaysSo) {
  Node node(2, kShortNs);
  OnRanks(2, [&](int rank) { node.Gather(rank); });
  EXPECT_THAT(node.Reason(0), HasSubstr("all ranks have issued it"));
}

// Slow is not stuck: the time runs from the end of the collective before.
TEST(NcclTransport, CollectivesThatEndAreNoTimeout) {
  Node node(2, kShortNs);
  OnRanks(2, [&](int rank) {
    for (int i = 0; i < 5; ++i) node.Gather(rank);
  });
  node.gpu.Run(1);
  std::this_thread::sleep_for(std::chrono::nanoseconds(kShortNs * 3 / 2));
  EXPECT_NO_THROW(OnRanks(2, [&](int rank) { node.Gather(rank); }));
}

TEST(NcclTransport, AnAsynchronousErrorAbortsAll) {
  Node node(2);
  OnRanks(2, [&](int rank) { node.Gather(rank); });
  node.nccl.async_error = ncclRemoteError;
  const std::string reason = node.Reason(1);
  EXPECT_THAT(reason, HasSubstr("asynchronous error"));
  EXPECT_THAT(reason, HasSubstr("remote process exited (the fake's details)"));
  EXPECT_THROW(node.Gather(0), TransportError);
  while (node.nccl.num_live > 0) std::this_thread::yield();
  EXPECT_EQ(node.nccl.num_aborts, 2);
}

TEST(NcclTransport, AFailedCallNamesTheOpAndAbortsAll) {
  Node node(2);
  OnRanks(2, [&](int rank) { node.Gather(rank); });
  node.nccl.collective_result = ncclUnhandledCudaError;
  try {
    node.Gather(1);
    FAIL();
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1: 'F m0 block1 all_gather' failed"));
    EXPECT_THAT(error.what(), HasSubstr("unhandled cuda error"));
  }
  EXPECT_THROW(node.Gather(0), TransportError);
  EXPECT_EQ(node.nccl.num_live, 0);
}

TEST(NcclTransport, AnAbortFromOutsideEndsTheWaitForACommunicator) {
  for (const bool does_not_block : {false, true}) {
    Node node(2);
    node.nccl.does_not_block = does_not_block;
    node.nccl.init_hangs = true;
    node.nccl.async_error = ncclInProgress;
    std::thread other([&] { EXPECT_THROW(node.Gather(1), TransportError); });
    std::thread late([&] {
      while (node.nccl.num_live < 2) std::this_thread::yield();
      node.transport->Abort("rank 5 failed");
    });
    try {
      node.Gather(0);
      ADD_FAILURE();
    } catch (const TransportError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 5 failed"));
    }
    other.join();
    late.join();
    EXPECT_EQ(node.nccl.num_live, 0);
    EXPECT_EQ(node.nccl.num_freed_in_use, 0);
  }
}

TEST(NcclTransport, SettingsThatForbidBlockingWorkAsWell) {
  Node node(2);
  node.nccl.does_not_block = true;
  OnRanks(2, [&](int rank) { node.Gather(rank); });
  node.gpu.Run(1);
  EXPECT_EQ(node.nccl.num_groups, 2);
}

// One after the other, the memory of the first would wait for the kernels of the second.
TEST(NcclTransport, AllCommunicatorsAreToldBeforeOneIsFreed) {
  Node node(2);
  OnRanks(2, [&](int rank) {
    for (const int communicator : {0, 1}) node.Gather(rank, communicator);
  });
  ASSERT_EQ(node.nccl.num_live, 4);
  node.transport->Abort("rank 1 failed");
  EXPECT_EQ(node.nccl.num_live, 0);
  EXPECT_EQ(node.nccl.num_deadlocks, 0);
  node.gpu.Run(1);  // told kernels end
  EXPECT_THROW(node.transport->ThrowIfAborted(), TransportError);
}

TEST(NcclTransport, AtTheEndNoCommunicatorWaitsForAnother) {
  Node node(2);
  OnRanks(2, [&](int rank) {
    for (const int communicator : {0, 1}) node.Gather(rank, communicator);
  });
  node.transport.reset();
  EXPECT_EQ(node.nccl.num_live, 0);
  EXPECT_EQ(node.nccl.num_deadlocks, 0);
}

TEST(NcclTransport, ACommunicatorThatIsNeverMadeIsATimeout) {
  Node node(2, kShortNs);
  node.nccl.init_hangs = true;
  OnRanks(2, [&](int rank) {
    try {
      node.Gather(rank);
      ADD_FAILURE();
    } catch (const TransportTimeout& error) {
      EXPECT_THAT(error.what(), HasSubstr("is in NCCL's call for 'F m0 block1 all_gather'"));
      EXPECT_THAT(error.what(), HasSubstr("number 1 of communicator 0"));
    }
  });
  EXPECT_EQ(node.nccl.num_live, 0);
  EXPECT_EQ(node.nccl.num_freed_in_use, 0);
}

TEST(NcclTransport, ACallThatDoesNotReturnIsATimeoutAndItsMemoryIsFreedAfterIt) {
  Node node(2, kShortNs);
  OnRanks(2, [&](int rank) { node.Gather(rank); });
  node.gpu.Run(1);
  node.nccl.calls_hang = true;
  try {
    node.Gather(1);
    FAIL();
  } catch (const TransportTimeout& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 is in NCCL's call for"));
    EXPECT_THAT(error.what(), HasSubstr("rank 0 has not come, it has issued 1"));
  }
  while (node.nccl.num_live > 0) std::this_thread::yield();
  EXPECT_EQ(node.nccl.num_freed_in_use, 0);
  EXPECT_EQ(node.nccl.num_deadlocks, 0);
}

// Two groups of two ranks: each is a communicator of NCCL's own, and a message names its ranks
// alone.
TEST(NcclTransport, EveryGroupHasACommunicatorOfItsOwn) {
  Node node(4, kShortNs);
  const plan::Mesh mesh = {{1, 2, 2, 1}};
  std::vector<plan::Group> groups;
  for (int rank = 0; rank < 4; ++rank) {
    groups.push_back(plan::GroupOf(mesh, {"", plan::Only(plan::MeshDimension::kReplicate)}, rank));
  }
  static std::byte memory[4][24];
  const auto gather = [&](int rank) {
    Call call = node.CallOf(rank);
    call.group = &groups[static_cast<size_t>(rank)];
    const GatherPiece piece = {memory[rank], memory[rank] + 8, 8};
    node.transport->AllGather(call, {&piece, 1});
  };
  transport::OnRanks(4, [&](int rank) {
    std::memset(memory[rank], rank, 8);
    gather(rank);
  });
  node.gpu.Run(1);
  EXPECT_EQ(node.nccl.num_live, 4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(memory[rank][8], std::byte(rank % 2));
    EXPECT_EQ(memory[rank][16], std::byte(rank % 2 + 2));
  }
  // Rank 3 does not come: 1 waits for it, and the other group is not named.
  gather(1);
  EXPECT_THAT(node.Reason(1), AllOf(HasSubstr("rank 1 waits for"), HasSubstr("rank 3 has not come"),
                                    Not(HasSubstr("rank 0")), Not(HasSubstr("rank 2"))));
}

// As when the mesh changes while a run trains.
TEST(NcclTransport, OtherRanksOfACommunicatorAreConnectedAnew) {
  Node node(4, kShortNs);
  static std::byte memory[4][64];
  for (const int replicas : {1, 2, 4, 1}) {
    const plan::Mesh mesh = {{1, replicas, 4 / replicas, 1}};
    transport::OnRanks(4, [&](int rank) {
      const plan::Group group =
          plan::GroupOf(mesh, {"", plan::Only(plan::MeshDimension::kShard)}, rank);
      std::memset(memory[rank], rank, 8);
      Call call = node.CallOf(rank);
      call.group = &group;
      const GatherPiece piece = {memory[rank], memory[rank] + 8, 8};
      node.transport->AllGather(call, {&piece, 1});
    });
    node.gpu.Run(1);
    EXPECT_EQ(node.nccl.num_live, 4) << "those before are gone";
    for (int rank = 0; rank < 4; ++rank) {
      for (int place = 0; place < 4 / replicas; ++place) {
        EXPECT_EQ(memory[rank][8 + 8 * place],
                  std::byte(rank / (4 / replicas) * (4 / replicas) + place));
      }
    }
  }
}

// As a thread that waits in the driver: the process ends without it, and nothing is freed under it.
TEST(NcclTransport, AThreadThatNeverLeavesKeepsItsMemory) {
  FakeGpu gpu;
  FakeNccl nccl{&gpu};
  std::atomic<bool> may_leave = false;
  {
    NcclChannels channels(gpu.Api(), nccl.Api(), /*abort_patience_ns=*/5'000'000);
    NcclChannel& channel = channels.Of(0, 0, transport::Party({.rank = 0}, 1));
    auto* const comm = reinterpret_cast<ncclComm_t*>(&channel.comm);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    ncclUniqueId id = {};
    ASSERT_EQ(nccl.Api().CommInitRankConfig(comm, 1, id, 0, &config), ncclSuccess);
    std::thread stuck([&] {
      const MutexLock lock(channel.mutex);
      while (!may_leave) std::this_thread::yield();
    });
    while (channel.mutex.try_lock()) {
      channel.mutex.unlock();
      std::this_thread::yield();
    }
    // On a thread of its own: its group stays open.
    std::thread([&] { channels.AbortAll(); }).join();
    EXPECT_EQ(nccl.num_aborts, 1);
    EXPECT_EQ(nccl.num_live, 1);
    may_leave = true;
    stuck.join();
  }
  EXPECT_EQ(nccl.num_live, 1);
}

}  // namespace
}  // namespace shardscope::cuda
