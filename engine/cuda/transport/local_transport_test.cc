// The transports among virtual ranks of one GPU, on a fake GPU that runs its queues in any order
// that CUDA allows.
#include "engine/cuda/transport/local_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>

#include "engine/cuda/transport/fake_gpu_test_util.h"
#include "engine/transport/collectives_test_util.h"

namespace shardscope::cuda {

using transport::AllReducePiece;
using transport::Bytes;
using transport::Call;
using transport::GatherPiece;
using transport::OnRanks;
using transport::ReducePiece;
using transport::Reduction;
using transport::TransportError;
using transport::TransportTimeout;

namespace {

constexpr int64_t kPatienceNs = 60 * kNsPerSecond;

// A stream per rank and communicator, and the transport on them.
struct Node {
  explicit Node(int ranks, bool is_emulated = false, int64_t timeout_ns = kPatienceNs,
                DeviceLog* log = nullptr)
      : num_ranks(ranks) {
    const LocalTransportOptions options{.num_ranks = ranks,
                                        .timeout_ns = timeout_ns,
                                        .api = gpu.Api(),
                                        .kernels = kernels,
                                        .log = log};
    transport = is_emulated ? MakeEmulatedDeviceTransport(options, 1e9, 20'000)
                            : MakeLocalTransport(options);
    for (int i = 0; i < 2 * ranks; ++i) streams.push_back(gpu.NewStream());
  }
  Stream StreamOf(int rank, int communicator = 0) const {
    return streams[static_cast<size_t>(communicator * num_ranks + rank)];
  }
  Call CallOf(int rank, int communicator = 0) const {
    Call call{.rank = rank, .op_name = "test", .wire_bytes = 1000, .op = 7};
    call.communicator = static_cast<plan::CommunicatorIndex>(communicator);
    call.device_stream = StreamOf(rank, communicator);
    call.step = 3;
    return call;
  }

  FakeGpu gpu;
  const int num_ranks;
  std::shared_ptr<FakeKernels> kernels = std::make_shared<FakeKernels>(&gpu);
  std::unique_ptr<transport::Transport> transport;
  std::vector<Stream> streams;
};

// Lets the GPU run before a call returns, so that the cases of the CPU's transports fit.
class Blocking final : public transport::Transport {
 public:
  Blocking(int num_ranks, bool is_emulated) : node_(num_ranks, is_emulated), barrier_(num_ranks) {}
  const transport::Capabilities& capabilities() const override {
    return node_.transport->capabilities();
  }
  void AllGather(const Call& call, std::span<const GatherPiece> pieces) override {
    node_.transport->AllGather(OnStream(call), pieces);
    Finish(call.rank);
  }
  void ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                     const Reduction& reduction) override {
    node_.transport->ReduceScatter(OnStream(call), pieces, reduction);
    Finish(call.rank);
  }
  void AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                 const Reduction& reduction) override {
    node_.transport->AllReduce(OnStream(call), pieces, reduction);
    Finish(call.rank);
  }
  void Broadcast(const Call& call, std::span<const transport::BroadcastPiece> pieces) override {
    node_.transport->Broadcast(OnStream(call), pieces);
    Finish(call.rank);
  }
  int64_t Broadcast(int rank, int64_t value) override {
    return node_.transport->Broadcast(rank, value);
  }
  void Abort(const std::string& reason) override { node_.transport->Abort(reason); }
  void SetLink(double bandwidth, int64_t latency_ns) override {
    node_.transport->SetLink(bandwidth, latency_ns);
  }

 private:
  Call OnStream(Call call) const {
    call.device_stream = node_.StreamOf(call.rank);
    return call;
  }
  void Finish(int rank) {
    barrier_.arrive_and_wait();
    if (rank == 0) {
      node_.gpu.Run(++num_runs_);
      EXPECT_EQ(node_.gpu.num_vain_waits(), 0);
    }
    barrier_.arrive_and_wait();
  }

  Node node_;
  std::barrier<> barrier_;
  uint64_t num_runs_ = 0;
};

class Keys final : public DeviceLog {
 public:
  void OnStream(int /*rank*/, Stream /*stream*/) override {}
  void OnIssued(const cupti::HostOp& op) override {
    EXPECT_LE(op.start_ns, op.end_ns);
    keys.push_back(op.key);
  }
  std::vector<DeviceInterval> TakeStep(int, int64_t, size_t) override { return {}; }
  std::vector<int64_t> keys;
};

}  // namespace

// What every rank sends is overwritten by work behind its collective, and by no earlier work than
// that: a reader that came late, or a stream that went on early, changes the result.
TEST(LocalTransport, NobodyReadsEarlyOrLateInAnyOrder) {
  constexpr int kRanks = 4;
  constexpr size_t kElements = 50;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Node node(kRanks, /*is_emulated=*/seed % 2 == 1);
    std::vector<std::vector<float>> shards(kRanks, std::vector<float>(kElements, -1));
    std::vector<std::vector<float>> wholes(kRanks, std::vector<float>(kRanks * kElements));
    std::vector<std::vector<float>> seen(kRanks);
    std::vector<std::vector<float>> sums(kRanks, std::vector<float>(kElements));
    OnRanks(kRanks, [&](int rank) {
      auto& shard = shards[static_cast<size_t>(rank)];
      auto& whole = wholes[static_cast<size_t>(rank)];
      for (int round = 0; round < 3; ++round) {
        node.gpu.Launch(node.StreamOf(rank), [&shard, rank, round] {
          shard.assign(kElements, static_cast<float>(10 * round + rank));
        });
        const GatherPiece gather = {reinterpret_cast<const std::byte*>(shard.data()),
                                    reinterpret_cast<std::byte*>(whole.data()),
                                    kElements * sizeof(float)};
        node.transport->AllGather(node.CallOf(rank), {&gather, 1});
        node.gpu.Launch(node.StreamOf(rank), [&, rank] {
          for (const size_t from : {0, 1, 2, 3}) {
            seen[static_cast<size_t>(rank)].push_back(whole[from * kElements + kElements - 1]);
          }
          shard.assign(kElements, NAN);
        });
        const ReducePiece reduce = {
            reinterpret_cast<const std::byte*>(whole.data()),
            reinterpret_cast<std::byte*>(sums[static_cast<size_t>(rank)].data()), kElements};
        node.transport->ReduceScatter(node.CallOf(rank), {&reduce, 1}, {plan::DType::kFp32, 1});
        node.gpu.Launch(node.StreamOf(rank), [&, rank] {
          seen[static_cast<size_t>(rank)].push_back(sums[static_cast<size_t>(rank)][0]);
          whole.assign(whole.size(), NAN);
        });
      }
    });
    node.gpu.Run(seed);
    EXPECT_EQ(node.gpu.num_vain_waits(), 0);
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<float> expected;
      for (int round = 0; round < 3; ++round) {
        for (int from = 0; from < kRanks; ++from) {
          expected.push_back(static_cast<float>(10 * round + from));
        }
        expected.push_back(static_cast<float>(kRanks * (10 * round + rank)));
      }
      EXPECT_EQ(seen[static_cast<size_t>(rank)], expected) << "seed " << seed << " rank " << rank;
    }
  }
}

TEST(LocalTransport, EveryRanksWorkIsLoggedUnderItsOwnOp) {
  Keys log;
  Node node(3, /*is_emulated=*/false, kPatienceNs, &log);
  std::vector<std::byte> memory(64);
  OnRanks(3, [&](int rank) {
    std::vector<std::byte> whole(3 * 8);
    const GatherPiece piece = {memory.data(), whole.data(), 8};
    node.transport->AllGather(node.CallOf(rank), {&piece, 1});
  });
  EXPECT_THAT(log.keys, testing::UnorderedElementsAre(OpRunKey(0, 3, 7), OpRunKey(1, 3, 7),
                                                      OpRunKey(2, 3, 7)));
}

TEST(LocalTransport, ACallWithoutStreamIsAboutHostMemory) {
  Node node(2);
  OnRanks(2, [&](int rank) {
    const int64_t own = 100 + rank;
    std::vector<int64_t> all(2);
    const GatherPiece piece = {reinterpret_cast<const std::byte*>(&own),
                               reinterpret_cast<std::byte*>(all.data()), sizeof(own)};
    node.transport->AllGather({.rank = rank, .op_name = "step report"}, {&piece, 1});
    EXPECT_THAT(all, testing::ElementsAre(100, 101));
  });
}

TEST(LocalTransport, ARankThatDoesNotIssueIsNamedAndAllStop) {
  Node node(3, /*is_emulated=*/false, 50'000'000);
  node.transport->set_describe_rank(
      [](int rank) { return rank == 1 ? "rank 1 hangs in 'F m0 block0.mlp'" : ""; });
  std::byte memory[24] = {};
  const GatherPiece piece = {memory, memory, 8};
  std::atomic<int> num_failed = 0;
  OnRanks(3, [&](int rank) {
    if (rank == 1) return;
    try {
      node.transport->AllGather(node.CallOf(rank), {&piece, 1});
    } catch (const TransportTimeout& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 1 hangs in 'F m0 block0.mlp'"));
      ++num_failed;
    }
  });
  EXPECT_EQ(num_failed, 2);
  EXPECT_THROW(node.transport->AllGather(node.CallOf(1), {&piece, 1}), TransportError);
  EXPECT_THROW(node.transport->Broadcast(1, 0), TransportError);  // the host's calls, too
}

TEST(LocalTransport, DifferentCallsAreAnErrorOnAllRanks) {
  Node node(2);
  std::byte memory[64] = {};
  std::atomic<int> num_failed = 0;
  OnRanks(2, [&](int rank) {
    const GatherPiece piece = {memory, memory, static_cast<size_t>(8 + rank)};
    try {
      node.transport->AllGather(node.CallOf(rank), {&piece, 1});
    } catch (const TransportError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("size of piece 0"));
      ++num_failed;
    }
  });
  EXPECT_EQ(num_failed, 2);
}

TEST(LocalTransport, AFailingCudaCallReachesAllRanks) {
  Node node(2);
  RuntimeApi api = node.gpu.Api();
  api.StreamWaitEvent = [](Stream, Event, unsigned) -> Code { return 2; };
  const auto transport =
      MakeLocalTransport({.num_ranks = 2, .timeout_ns = kPatienceNs, .api = api});
  std::byte memory[64] = {};
  const GatherPiece piece = {memory, memory + 16, 8};
  std::atomic<int> num_failed = 0;
  OnRanks(2, [&](int rank) {
    try {
      transport->AllGather(node.CallOf(rank), {&piece, 1});
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("cudaStreamWaitEvent"));
      EXPECT_THAT(error.what(), testing::HasSubstr("out of memory"));
      ++num_failed;
    }
  });
  EXPECT_EQ(num_failed, 2);
}

TEST(LocalTransport, GivesBackItsEventsAndMemory) {
  Node node(2, /*is_emulated=*/true);
  std::vector<std::byte> memory(64);
  OnRanks(2, [&](int rank) {
    const AllReducePiece piece = {memory.data() + 8 * rank, 1};
    node.transport->AllReduce(node.CallOf(rank), {&piece, 1}, {plan::DType::kFp64, 1});
  });
  node.gpu.Run(1);
  EXPECT_GT(node.gpu.num_live_events(), 0U);
  EXPECT_GT(node.gpu.num_live_blocks(), 0U);
  node.transport.reset();
  EXPECT_EQ(node.gpu.num_live_events(), 0U);
  EXPECT_EQ(node.gpu.num_live_blocks(), 0U);
}

TEST(LocalTransport, MoreRanksThanAKernelTakesAreRefused) {
  EXPECT_THROW(MakeLocalTransport({.num_ranks = kMaxLocalRanks + 1}), TransportError);
}

// 1000 wire bytes at 1 GB/s and 20 us: 21 us from the last arrival.
TEST(EmulatedDeviceTransport, ACollectiveEndsAfterLatencyAndTransfer) {
  Node node(2, /*is_emulated=*/true);
  std::vector<std::vector<std::byte>> data(2, std::vector<std::byte>(4096));
  OnRanks(2, [&](int rank) {
    std::byte* own = data[static_cast<size_t>(rank)].data();
    const std::vector<GatherPiece> pieces = {{own, own + 1024, 300}, {own, own + 2048, 700}};
    node.transport->AllGather(node.CallOf(rank), pieces);
  });
  node.gpu.Run(5);
  ASSERT_EQ(node.kernels->windows.size(), 1U);  // one wire stands for all
  const LinkWindow window = node.kernels->windows[0];
  EXPECT_EQ(window.end_ns - window.start_ns, 1000U);
  EXPECT_EQ(window.start_ns, 21'000U);  // the fake clock began at 1000
  ASSERT_EQ(node.kernels->paced_ends_ns.size(), 4U);
  EXPECT_EQ(node.kernels->paced_ends_ns.back(), window.end_ns);
  // Part of the bytes, part of the time: no rank has all before the end.
  EXPECT_LT(node.kernels->paced_ends_ns.front(), window.end_ns);
}

TEST(EmulatedDeviceTransport, CommunicatorsShareTheWire) {
  Node node(2, /*is_emulated=*/true);
  std::vector<std::vector<std::byte>> data(2, std::vector<std::byte>(4096));
  OnRanks(2, [&](int rank) {
    std::byte* own = data[static_cast<size_t>(rank)].data();
    const GatherPiece piece = {own, own + 1024, 500};
    for (const int communicator : {0, 1}) {
      node.transport->AllGather(node.CallOf(rank, communicator), {&piece, 1});
    }
  });
  node.gpu.Run(5);
  ASSERT_EQ(node.kernels->windows.size(), 2U);
  EXPECT_GE(node.kernels->windows[1].start_ns, node.kernels->windows[0].end_ns + 20'000);
}

TEST(EmulatedDeviceTransport, TheLinkCanChangeBetweenCalls) {
  Node node(2, /*is_emulated=*/true);
  std::vector<std::vector<std::byte>> data(2, std::vector<std::byte>(4096));
  const auto gather = [&](int rank) {
    std::byte* own = data[static_cast<size_t>(rank)].data();
    const GatherPiece piece = {own, own + 1024, 500};
    node.transport->AllGather(node.CallOf(rank), {&piece, 1});
  };
  OnRanks(2, gather);
  node.transport->SetLink(1e8, 0);
  OnRanks(2, gather);
  node.gpu.Run(5);
  ASSERT_EQ(node.kernels->windows.size(), 2U);
  EXPECT_EQ(node.kernels->windows[1].end_ns - node.kernels->windows[1].start_ns, 10'000U);
}

TEST(EmulatedDeviceTransport, OneRankAloneHasNoLink) {
  Node node(1, /*is_emulated=*/true);
  std::byte memory[32] = {};
  const GatherPiece piece = {memory, memory + 16, 8};
  node.transport->AllGather(node.CallOf(0), {&piece, 1});
  node.gpu.Run(0);
  EXPECT_TRUE(node.kernels->windows.empty());
}

}  // namespace shardscope::cuda

namespace shardscope::transport {
namespace {

INSTANTIATE_TEST_SUITE_P(Local, CollectivesTest,
                         testing::ValuesIn(CasesOf("local",
                                                   [](int num_ranks) {
                                                     return std::make_shared<cuda::Blocking>(
                                                         num_ranks, false);
                                                   })),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(EmulatedOnDevice, CollectivesTest,
                         testing::ValuesIn(CasesOf("emulated_on_device",
                                                   [](int num_ranks) {
                                                     return std::make_shared<cuda::Blocking>(
                                                         num_ranks, true);
                                                   })),
                         NameOfCase);

}  // namespace
}  // namespace shardscope::transport
