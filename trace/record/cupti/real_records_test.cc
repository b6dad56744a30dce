// Records of a real GPU (tests/h200/training.buffers: two virtual ranks, two steps of a small model
// on an H200): decoded by the real library's walker and joined, whichever way they are cut.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trace/record/cupti/decode.h"
#include "trace/record/cupti/dump.h"
#include "trace/record/cupti/joiner.h"

namespace shardscope::cupti {
namespace {

class RealRecords : public testing::Test {
 protected:
  void SetUp() override {
    const Result<CuptiFunctions> cupti = LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
    ASSERT_TRUE(cupti.ok()) << cupti.message();
    Result<LoadedDump> dump = ReadBufferDump(SHARDSCOPE_REAL_BUFFERS);
    ASSERT_TRUE(dump.ok()) << dump.message();
    names_ = Names(dump->resolver());
    for (LoadedDump::Buffer& buffer : dump->buffers) {
      Batch batch;
      const DecodeResult done = Decode(*cupti, buffer.data(), buffer.size, names_, batch);
      EXPECT_FALSE(done.damaged);
      decoded_ += done.decoded;
      batches_.push_back(std::move(batch));
    }
    names_ = Names();  // the resolver borrows the dump
  }

  int64_t EndOfCalls() const {
    int64_t end_ns = 0;
    for (const Batch& batch : batches_) {
      for (const ApiCall& call : batch.calls) end_ns = std::max(end_ns, call.end_ns);
    }
    return end_ns;
  }

  Names names_;
  std::vector<Batch> batches_;
  int64_t decoded_ = 0;
};

TEST_F(RealRecords, EveryKernelHasItsCallAndBeginsAfterIt) {
  EXPECT_GT(decoded_, 2000);
  Joiner joiner;
  for (const Batch& batch : batches_) joiner.Add(batch);
  const Joined joined = joiner.Take(kEnd);
  int64_t kernels = 0;
  std::set<StreamId> streams;
  for (const Work& work : joined.works) {
    streams.insert(work.stream);
    if (work.kind != WorkKind::kKernel) continue;
    ++kernels;
    ASSERT_TRUE(work.HasTimes());
    ASSERT_GT(work.call_start_ns, 0) << work.correlation;
    EXPECT_GE(work.start_ns, work.call_start_ns - 50'000);
  }
  EXPECT_GT(kernels, 500);
  // The host's, compute, gathers with their copies, and reductions, of two ranks; the default one.
  EXPECT_GE(streams.size(), 7U);
  EXPECT_EQ(joiner.counts().without_call, 0);
  EXPECT_EQ(joiner.counts().without_event, 0);
  EXPECT_GT(joined.edges.size(), 200U);
  for (const Edge& edge : joined.edges) EXPECT_NE(edge.from, edge.to);
}

// What was joined, one line each; sorted, as pieces come in another order.
std::vector<std::string> Printed(const Joined& joined) {
  std::vector<std::string> lines;
  for (const Work& work : joined.works) {
    lines.push_back(fmt::format("work {} {} op {} call {} of {}", work.correlation, work.start_ns,
                                work.op, work.call_start_ns, work.call_thread));
  }
  for (const Edge& edge : joined.edges) {
    lines.push_back(fmt::format("edge {} op {} {} -> op {} {}", edge.recording, edge.from_op,
                                edge.from_correlation, edge.to_op, edge.to_correlation));
  }
  for (const JoinedCall& call : joined.calls) {
    lines.push_back(fmt::format("call {} {} op {} waits {}", call.call.correlation,
                                call.call.start_ns, call.op, call.waits));
  }
  for (const OpWork& op : joined.ops) lines.push_back(fmt::format("op {}", op.op));
  return lines;
}

// As a training takes them: each buffer by itself, with a fence that follows the calls; an op for
// every hundred calls of a thread, told before them.
TEST_F(RealRecords, TakenPieceByPieceTheyGiveTheSame) {
  Joiner whole;
  Joiner pieces;
  std::map<uint32_t, std::vector<int64_t>> starts_ns;  // of calls, by thread
  for (const Batch& batch : batches_) {
    for (const ApiCall& call : batch.calls) starts_ns[call.thread].push_back(call.start_ns);
  }
  int64_t key = 0;
  for (auto& [thread, of_thread] : starts_ns) {
    std::ranges::sort(of_thread);
    for (size_t i = 0; i + 100 < of_thread.size(); i += 100) {
      const HostOp op{key++, thread, of_thread[i], of_thread[i + 99]};
      whole.Add(op);
      pieces.Add(op);
    }
  }
  ASSERT_GT(key, 10);
  for (const Batch& batch : batches_) whole.Add(batch);
  std::vector<std::string> expected = Printed(whole.Take(kEnd));

  std::vector<std::string> found;
  const auto take = [&](int64_t fence_ns) {
    const std::vector<std::string> lines = Printed(pieces.Take(fence_ns));
    found.insert(found.end(), lines.begin(), lines.end());
  };
  int64_t latest_ns = 0;
  for (const Batch& batch : batches_) {
    pieces.Add(batch);
    for (const ApiCall& call : batch.calls) latest_ns = std::max(latest_ns, call.end_ns);
    if (latest_ns > 0) take(latest_ns - 300'000'000);
  }
  EXPECT_GT(found.size(), 100u);  // before the end
  take(kEnd);
  std::ranges::sort(expected);
  std::ranges::sort(found);
  std::vector<std::string> different;
  std::ranges::set_symmetric_difference(found, expected, std::back_inserter(different));
  EXPECT_THAT(different, testing::IsEmpty());
  EXPECT_EQ(pieces.counts().without_call, 0);
}

// An op has the kernels of the calls within it, before they are taken and after.
TEST_F(RealRecords, AnOpOverAThreadsCallsHasItsKernels) {
  std::map<uint32_t, int64_t> launches;  // by thread
  for (const Batch& batch : batches_) {
    for (const ApiCall& call : batch.calls) launches[call.thread] += call.launches ? 1 : 0;
  }
  const auto busiest = std::ranges::max_element(
      launches, [](const auto& a, const auto& b) { return a.second < b.second; });
  ASSERT_NE(busiest, launches.end());
  Joiner joiner;
  const int64_t end_ns = EndOfCalls();
  joiner.Add({.key = 7, .thread = busiest->first, .start_ns = 1, .end_ns = end_ns});
  for (const Batch& batch : batches_) joiner.Add(batch);
  const OpWork before = joiner.Peek({7}).front();
  EXPECT_GT(before.num_works, 200);
  EXPECT_GT(before.start_ns, 0);
  joiner.Take(end_ns);
  const OpWork after = joiner.Peek({7}).front();
  EXPECT_EQ(after.num_works, before.num_works);
  EXPECT_EQ(after.end_ns, before.end_ns);
}

}  // namespace
}  // namespace shardscope::cupti
