// The NCCL transport of ranks that are processes: which one is late, and what is said where the
// place at which they meet does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "engine/cuda/transport/nccl/fake_nccl_test_util.h"
#include "engine/cuda/transport/nccl/nccl_board.h"
#include "engine/cuda/transport/nccl/nccl_transport.h"
#include "engine/transport/ranks_test_util.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

using testing::HasSubstr;
using transport::AllReducePiece;
using transport::Call;
using transport::GatherPiece;
using transport::OnRanks;
using transport::ReducePiece;
using transport::TransportTimeout;

constexpr int64_t kPatienceNs = 60 * kNsPerSecond;
// Of tests that wait for it to pass. In its second half the processes ask one another, which on a
// busy machine takes long.
constexpr int64_t kShortNs = 3 * kNsPerSecond;

// What processes of a run share: where they meet, and what they post there.
struct MeetingPlace {
  explicit MeetingPlace(int num_ranks)
      : transport(transport::MakeSharedMemoryTransport(num_ranks, kPatienceNs)) {}
  const std::unique_ptr<transport::Transport> transport;
  // From now on nothing is posted or read, and nothing was.
  void Hang() {
    const MutexLock lock(mutex);
    hangs = true;
    posts.clear();
  }
  void Answer() {
    const MutexLock lock(mutex);
    hangs = false;
    changed.notify_all();
  }
  void WaitUntilItAnswers(MutexLock* lock) REQUIRES(mutex) {
    changed.wait(*lock, [this]() REQUIRES(mutex) { return !hangs; });
  }

  Mutex mutex;
  CondVar changed;
  std::map<int, std::string> posts GUARDED_BY(mutex);
  bool hangs GUARDED_BY(mutex) = false;
};

// One process's way there.
class HostOfProcess final : public transport::Transport {
 public:
  explicit HostOfProcess(std::shared_ptr<MeetingPlace> place) : place_(std::move(place)) {}
  const transport::Capabilities& capabilities() const override { return next().capabilities(); }
  void AllGather(const Call& call, std::span<const GatherPiece> pieces) override {
    next().AllGather(call, pieces);
  }
  void ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                     const transport::Reduction& reduction) override {
    next().ReduceScatter(call, pieces, reduction);
  }
  void AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                 const transport::Reduction& reduction) override {
    next().AllReduce(call, pieces, reduction);
  }
  void Broadcast(const Call& call, std::span<const transport::BroadcastPiece> pieces) override {
    next().Broadcast(call, pieces);
  }
  int64_t Broadcast(int rank, int64_t value) override { return next().Broadcast(rank, value); }
  void Abort(const std::string& /*reason*/) override {}  // each process for itself
  void SetLink(double /*bytes_per_second*/, int64_t /*latency_ns*/) override {}
  void Post(int rank, const std::string& text) override {
    MutexLock lock(place_->mutex);
    place_->WaitUntilItAnswers(&lock);
    place_->posts[rank] = text;
  }
  std::string ReadPost(int rank) override {
    MutexLock lock(place_->mutex);
    place_->WaitUntilItAnswers(&lock);
    return place_->posts[rank];
  }

 private:
  transport::Transport& next() const { return *place_->transport; }
  const std::shared_ptr<MeetingPlace> place_;
};

// A process a rank, all in this one: each has its own transport, and has only its own rank.
struct Processes {
  explicit Processes(int num_ranks) : place(std::make_shared<MeetingPlace>(num_ranks)) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      transports.push_back(MakeNcclTransport({.num_ranks = num_ranks,
                                              .timeout_ns = kShortNs,
                                              .look_every_ns = 2'000'000,
                                              .abort_patience_ns = kPatienceNs,
                                              .api = gpu.Api(),
                                              .nccl = nccl.Api(),
                                              .kernels = std::make_shared<FakeKernels>(&gpu),
                                              .only_rank = rank},
                                             std::make_unique<HostOfProcess>(place)));
      streams.push_back(gpu.NewStream());
    }
  }
  void Gather(int rank) {
    static std::byte memory[64];
    const GatherPiece piece = {memory, memory + 8, 8};
    Call call{.rank = rank, .op_name = "F m0 block1 all_gather", .op = 12};
    call.device_stream = streams[static_cast<size_t>(rank)];
    transports[static_cast<size_t>(rank)]->AllGather(call, {&piece, 1});
  }
  // Why rank 0 was aborted, once it is.
  std::string Reason() {
    while (true) {
      try {
        transports[0]->ThrowIfAborted();
      } catch (const TransportTimeout& error) {
        return error.what();
      }
      std::this_thread::yield();
    }
  }

  FakeGpu gpu;
  FakeNccl nccl{&gpu};
  const std::shared_ptr<MeetingPlace> place;
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<Stream> streams;
};

TEST(NcclProcesses, ARankThatIsLateInAnotherProcessIsNamedWithItsNumber) {
  Processes run(3);
  OnRanks(3, [&](int rank) {
    run.Gather(rank);
    if (rank != 2) run.Gather(rank);
  });
  run.gpu.RunWhatCan(1);
  const std::string reason = run.Reason();
  EXPECT_THAT(reason, HasSubstr("rank 0 waits for 'F m0 block1 all_gather' (op 12, number 2 of"));
  EXPECT_THAT(reason, HasSubstr("; rank 2 is late, it has issued 1"));
  EXPECT_EQ(reason.find("rank 1"), std::string::npos) << reason;
}

TEST(NcclProcesses, WhereAllHaveIssuedItAndWhoSaysNothingIsSaid) {
  {
    Processes run(2);
    OnRanks(2, [&](int rank) { run.Gather(rank); });
    EXPECT_THAT(run.Reason(), HasSubstr("all ranks have issued it"));
  }
  // Where the processes meet nothing moves any more: that is not waited for.
  Processes run(2);
  run.place->Hang();
  OnRanks(2, [&](int rank) { run.Gather(rank); });
  EXPECT_THAT(run.Reason(), HasSubstr("rank 1 has said nothing of itself"));
  run.place->Answer();
}

TEST(NcclProcesses, ProgressIsReadAsItWasPrinted) {
  const NcclProgress progress = {{0, 12}, {1, 11}};
  EXPECT_EQ(ParseProgress(PrintProgress(progress)), progress);
  EXPECT_NE(PrintProgress({}), "");
  for (const char* text : {"", "x", "0", "0:", "0;3", "0:x 1:2"}) {
    EXPECT_TRUE(ParseProgress(text).empty()) << text;
  }
}

}  // namespace
}  // namespace shardscope::cuda
