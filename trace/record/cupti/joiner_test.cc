#include "trace/record/cupti/joiner.h"

#include <gtest/gtest.h>

#include <csignal>
#include <random>

#include "trace/record/cupti/decode.h"
#include "trace/record/cupti/synthetic_test_util.h"

namespace shardscope::cupti {
namespace {

constexpr int64_t kAll = kEnd;

using OpPairs = std::vector<std::pair<int64_t, int64_t>>;
OpPairs PairsOf(const std::vector<Edge>& edges) {
  OpPairs pairs;
  for (const Edge& edge : edges) pairs.emplace_back(edge.from_op, edge.to_op);
  return pairs;
}

ApiCall Call(int64_t start_ns, uint32_t thread, uint32_t correlation, bool driver = false) {
  return {start_ns, start_ns + 2, 0, driver, thread, correlation, 0};
}
Kernel KernelOf(int64_t start_ns, int64_t end_ns, uint32_t stream, uint32_t correlation) {
  Kernel kernel;
  kernel.start_ns = start_ns;
  kernel.end_ns = end_ns;
  kernel.stream = {1, stream};
  kernel.correlation = correlation;
  return kernel;
}

TEST(Joiner, WorkBelongsToTheInnermostOpThatWasOpenWhenItsCallStarted) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  joiner.Add(HostOp{2, 50, 140, 160});
  joiner.Add(HostOp{3, 51, 100, 200});  // another thread at the same time
  Batch batch;
  batch.calls = {Call(110, 50, 1), Call(150, 50, 2), Call(170, 50, 3), Call(150, 51, 4),
                 Call(300, 50, 5)};
  for (uint32_t i = 1; i <= 5; ++i) batch.kernels.push_back(KernelOf(1000 + i, 1001 + i, 7, i));
  joiner.Add(batch);
  const Joined joined = joiner.Take(kAll);
  std::vector<int64_t> ops;
  for (const Work& work : joined.works) ops.push_back(work.op);
  EXPECT_EQ(ops, (std::vector<int64_t>{1, 2, 1, 3, kNoOp}));
  EXPECT_EQ(joiner.counts().without_op, 1);
}

TEST(Joiner, AnOpsWorkReachesFromItsFirstStartToItsLastEnd) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  joiner.Add(HostOp{2, 50, 200, 300});
  Batch batch;
  batch.calls = {Call(110, 50, 1), Call(120, 50, 2)};
  batch.kernels = {KernelOf(500, 900, 7, 2), KernelOf(400, 450, 8, 1)};
  joiner.Add(batch);
  const Joined joined = joiner.Take(kAll);
  ASSERT_EQ(joined.ops.size(), 2u);
  EXPECT_EQ(joined.ops[0].start_ns, 400);
  EXPECT_EQ(joined.ops[0].end_ns, 900);
  EXPECT_EQ(joined.ops[0].num_works, 2);
  EXPECT_EQ(joined.ops[1].op, 2);
  EXPECT_EQ(joined.ops[1].num_works, 0);
}

// Ops that were taken, that wait, that were not told and that did nothing, in one question.
TEST(Joiner, AskedForSeveralOpsItAnswersEachInItsPlace) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  Batch batch;
  batch.calls = {Call(110, 50, 1)};
  batch.kernels = {KernelOf(400, 450, 8, 1)};
  joiner.Add(batch);
  joiner.Take(250);
  joiner.Add(HostOp{4, 50, 300, 350});
  joiner.Add(HostOp{3, 50, 350, 400});
  joiner.Add(HostOp{6, 51, 300, 400});
  Batch later;
  later.calls = {Call(320, 50, 2), Call(330, 51, 3), Call(340, 51, 4)};
  later.kernels = {KernelOf(500, 900, 7, 2), KernelOf(600, 700, 8, 3), KernelOf(800, 850, 8, 4)};
  joiner.Add(later);
  const std::vector<OpWork> works = joiner.Peek({1, 2, 3, 4, 6, 7});
  const std::vector<OpWork> expected = {{1, 400, 450, 1}, {2}, {3}, {4, 500, 900, 1},
                                        {6, 600, 850, 2}, {7}};
  ASSERT_EQ(works.size(), expected.size());
  for (size_t i = 0; i < works.size(); ++i) {
    EXPECT_EQ(works[i].op, expected[i].op);
    EXPECT_EQ(works[i].start_ns, expected[i].start_ns) << works[i].op;
    EXPECT_EQ(works[i].end_ns, expected[i].end_ns) << works[i].op;
    EXPECT_EQ(works[i].num_works, expected[i].num_works) << works[i].op;
  }
}

TEST(JoinerDeathTest, OpsThatDoNotAscendAreAProgrammersError) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  joiner.Add(HostOp{2, 50, 200, 300});
  const auto peek = [&](const std::vector<int64_t>& ops) {
    std::signal(SIGABRT, SIG_DFL);  // a sanitizer would report it
    joiner.Peek(ops);
  };
  EXPECT_DEATH(peek({2, 1}), "adjacent_find");
  EXPECT_DEATH(peek({1, 1}), "adjacent_find");
}

TEST(Joiner, ACopyMayKnowOnlyTheRuntimeCall) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  Batch batch;
  batch.calls = {Call(110, 50, 31)};
  Copy copy;
  copy.correlation = 32;
  copy.runtime_correlation = 31;
  copy.start_ns = 400, copy.end_ns = 500;
  batch.copies = {copy};
  joiner.Add(batch);
  const Joined joined = joiner.Take(kAll);
  ASSERT_EQ(joined.works.size(), 1u);
  EXPECT_EQ(joined.works[0].op, 1);
}

TEST(Joiner, WorkWithoutItsCallKeepsTheRankOfItsStream) {
  Joiner joiner;
  joiner.SetOwner({1, 7}, 3);
  Batch batch;
  batch.kernels = {KernelOf(400, 500, 7, 99)};
  joiner.Add(batch);
  const Joined joined = joiner.Take(kAll);
  ASSERT_EQ(joined.works.size(), 1u);
  EXPECT_EQ(joined.works[0].op, kNoOp);
  EXPECT_EQ(joined.works[0].rank, 3);
  EXPECT_EQ(joiner.counts().without_call, 1);
}

TEST(Joiner, LostAndUnfinishedTimesKeepTheWorkButNotTheTimes) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  Batch batch;
  batch.calls = {Call(110, 50, 1), Call(111, 50, 2), Call(112, 50, 3)};
  batch.kernels = {KernelOf(0, 0, 7, 1), KernelOf(700, 0, 7, 2), KernelOf(400, 500, 7, 3)};
  joiner.Add(batch);
  const Joined joined = joiner.Take(kAll);
  EXPECT_EQ(joined.works.size(), 3u);
  EXPECT_EQ(joiner.counts().without_times, 2);
  EXPECT_EQ(joined.ops[0].start_ns, 400);
  EXPECT_EQ(joined.ops[0].end_ns, 500);
  EXPECT_EQ(joined.ops[0].num_works, 3);
}

TEST(Joiner, AGraphsKernelsShareTheirLaunch) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  Batch batch;
  batch.calls = {Call(110, 50, 1)};
  for (int i = 0; i < 5; ++i) batch.kernels.push_back(KernelOf(400 + 10 * i, 405 + 10 * i, 7, 1));
  joiner.Add(batch);
  EXPECT_EQ(joiner.Take(kAll).ops[0].num_works, 5);
}

// Op 1 on stream 7 records; op 2 on stream 8 waits for it. The event is recorded again for op 3, on
// which op 4 waits.
TEST(Joiner, AWaitFindsTheRecordingThatItWaitedForAndNotALaterOne) {
  Joiner joiner;
  for (int64_t op = 1; op <= 4; ++op) joiner.Add(HostOp{op, 50, 100 * op, 100 * op + 90});
  Batch batch;
  batch.calls = {Call(110, 50, 1), Call(210, 50, 4), Call(310, 50, 5), Call(410, 50, 8)};
  batch.kernels = {KernelOf(1000, 1100, 7, 1), KernelOf(1100, 1200, 8, 4),
                   KernelOf(1200, 1300, 7, 5), KernelOf(1300, 1400, 8, 8)};
  EventRecord first, second;
  first.stream = second.stream = {1, 7};
  first.correlation = 2, first.recording = 900;
  second.correlation = 6, second.recording = 901;
  batch.event_records = {second, first};
  Wait wait;
  wait.kind = WaitKind::kStreamWaitsForEvent;
  wait.stream = {1, 8};
  wait.correlation = 3, wait.recording = 900;
  batch.waits.push_back(wait);
  wait.correlation = 7, wait.recording = 901;
  batch.waits.push_back(wait);
  joiner.Add(batch);
  EXPECT_EQ(PairsOf(joiner.Take(kAll).edges), (OpPairs{{1, 2}, {3, 4}}));
}

TEST(Joiner, CorrelationIdsMayWrap) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  joiner.Add(HostOp{2, 50, 200, 300});
  Batch batch;
  const uint32_t last = ~uint32_t{0};
  batch.calls = {Call(110, 50, last - 1), Call(210, 50, 2)};
  batch.kernels = {KernelOf(1000, 1100, 7, last - 1), KernelOf(1100, 1200, 8, 2)};
  EventRecord record;
  record.stream = {1, 7};
  record.correlation = last, record.recording = 900;
  batch.event_records = {record};
  Wait wait;
  wait.kind = WaitKind::kStreamWaitsForEvent;
  wait.stream = {1, 8};
  wait.correlation = 0, wait.recording = 900;
  batch.waits = {wait};
  joiner.Add(batch);
  EXPECT_EQ(PairsOf(joiner.Take(kAll).edges), (OpPairs{{1, 2}}));
}

TEST(Joiner, WhatComesAfterItsFenceJoinsWithTheNext) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  joiner.Add(HostOp{2, 50, 400, 500});
  Batch early;
  early.calls = {Call(110, 50, 1), Call(410, 50, 2)};
  early.kernels = {KernelOf(420, 430, 7, 2)};
  joiner.Add(early);
  const Joined first = joiner.Take(300);
  EXPECT_EQ(first.ops.size(), 1u);
  EXPECT_TRUE(first.works.empty());
  Batch late;
  late.kernels = {KernelOf(150, 350, 7, 1)};
  joiner.Add(late);
  const Joined second = joiner.Take(600);
  ASSERT_EQ(second.works.size(), 2u);
  EXPECT_EQ(second.works[0].op, 1);
  EXPECT_EQ(second.works[1].op, 2);
}

// One scenario: two threads, each issuing ops that launch kernels and copies on their own compute
// and communication stream, with an event between the two streams of an op.
struct Scenario {
  std::vector<HostOp> ops;
  std::vector<std::vector<uint8_t>> records;  // each one CUPTI record

  template <typename Record>
  void Add(const Record& record) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&record);
    records.emplace_back(bytes, bytes + sizeof(Record));
  }
};

Scenario MakeScenario() {
  Scenario scenario;
  uint32_t correlation = ~uint32_t{0} - 40;  // wraps in the middle
  uint64_t recording = 5000;
  for (int64_t op = 0; op < 60; ++op) {
    const uint32_t thread = op % 2 == 0 ? 60 : 61;
    const uint32_t compute = op % 2 == 0 ? 7 : 9, communication = compute + 1;
    const int64_t start = 1000 + 100 * op;
    scenario.ops.push_back({op, thread, start, start + 90});
    const auto launch = [&](uint64_t at, bool driver) {
      scenario.Add(CallRecord(at, at + 3, thread, ++correlation, driver));
      return correlation;
    };
    const auto at = static_cast<uint64_t>(start);
    const uint32_t kernel = launch(at + 10, false);
    scenario.Add(
        KernelRecord(at + 500, at + 550, compute, kernel, op % 3 == 0 ? "_Z4gemmPf" : "softmax"));
    scenario.Add(EventRecordRecord(compute, launch(at + 20, false), ++recording));
    scenario.Add(StreamWaitRecord(at + 30, communication, launch(at + 30, false), recording));
    const uint32_t copy = launch(at + 40, true);
    scenario.Add(CopyRecord(at + 560, at + 600, communication, copy, 4096));
  }
  return scenario;
}

Joined RunScenario(const Scenario& scenario, std::mt19937_64& random) {
  const Result<CuptiFunctions> cupti = LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
  std::vector<std::vector<uint8_t>> records = scenario.records;
  std::shuffle(records.begin(), records.end(), random);
  std::vector<HostOp> ops = scenario.ops;
  std::shuffle(ops.begin(), ops.end(), random);

  Joiner joiner;
  Names names;
  for (const uint32_t stream : {7, 8}) joiner.SetOwner({1, stream}, 0);
  for (const uint32_t stream : {9, 10}) joiner.SetOwner({1, stream}, 1);
  size_t next = 0, next_op = 0;
  while (next < records.size() || next_op < ops.size()) {
    if (next_op < ops.size() && random() % 2 == 0) joiner.Add(ops[next_op++]);
    std::vector<uint64_t> words;
    for (size_t left = random() % 40; left > 0 && next < records.size(); --left, ++next) {
      const size_t at = words.size();
      words.resize(at + records[next].size() / 8);
      std::memcpy(words.data() + at, records[next].data(), records[next].size());
    }
    Batch batch;
    if (!words.empty()) {
      Decode(*cupti, reinterpret_cast<uint8_t*>(words.data()), words.size() * 8, names, batch);
    }
    joiner.Add(batch);
  }
  return joiner.Take(kAll);
}

std::string Print(const Joined& joined) {
  std::string text;
  for (const Work& work : joined.works) {
    text += std::to_string(work.start_ns) + " " + std::to_string(work.end_ns) + " op " +
            std::to_string(work.op) + " rank " + std::to_string(work.rank) + " call " +
            std::to_string(work.call_start_ns) + "\n";
  }
  for (const OpWork& op : joined.ops) {
    text += std::to_string(op.op) + ": " + std::to_string(op.start_ns) + " " +
            std::to_string(op.end_ns) + " " + std::to_string(op.num_works) + "\n";
  }
  for (const Edge& edge : joined.edges) {
    text += std::to_string(edge.from_op) + " -> " + std::to_string(edge.to_op) + "\n";
  }
  return text;
}

constexpr int64_t kSecond = 1'000'000'000;

ApiCall Launch(int64_t start_ns, uint32_t thread, uint32_t correlation) {
  ApiCall call = Call(start_ns, thread, correlation);
  call.launches = true;
  return call;
}

// A collective waits so long for another rank, while others go on.
TEST(Joiner, AKernelThatRunsForMinutesStillHasItsOp) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200}, 3);
  Batch batch;
  batch.calls = {Launch(110, 50, 1), Launch(120, 50, 2)};
  batch.kernels = {KernelOf(500, 900, 7, 2)};
  joiner.Add(batch);
  size_t works = joiner.Take(1'000).works.size();
  uint32_t correlation = 10;
  for (int64_t second = 1; second < 120; ++second) {
    Batch later;
    later.calls = {Launch(second * kSecond, 51, correlation)};
    later.kernels = {KernelOf(second * kSecond + 5, second * kSecond + 9, 8, correlation++)};
    joiner.Add(later);
    works += joiner.Take(second * kSecond + 100).works.size();
  }
  EXPECT_EQ(works, 120u);
  Batch late;
  late.kernels = {KernelOf(600, 119 * kSecond, 7, 1)};
  joiner.Add(late);
  const Joined joined = joiner.Take(121 * kSecond);
  ASSERT_EQ(joined.works.size(), 1u);
  EXPECT_EQ(joined.works[0].op, 1);
  EXPECT_EQ(joined.works[0].rank, 3);
  EXPECT_EQ(joined.works[0].call_start_ns, 110);
  EXPECT_EQ(joiner.counts().without_call, 0);
}

// A record is lost: the thread waits for it once.
TEST(Joiner, WhatIsWaitedForNoLongerMakesAThreadComplete) {
  Joiner joiner;
  joiner.Add(HostOp{1, 50, 100, 200});
  Batch batch;
  batch.calls = {Launch(110, 50, 1), Launch(300, 50, 2), Launch(310, 51, 3)};
  joiner.Add(batch);
  EXPECT_FALSE(joiner.IsComplete(50, 200));
  joiner.StopWaiting(50, 200);
  EXPECT_TRUE(joiner.IsComplete(50, 200));
  Batch more;
  more.calls = {Launch(400, 50, 4)};
  joiner.Add(more);
  EXPECT_FALSE(joiner.IsComplete(50, 400));  // of later launches it is not
  Batch late;
  late.kernels = {KernelOf(500, 900, 7, 1)};
  joiner.Add(late);
  const Joined joined = joiner.Take(kAll);
  ASSERT_EQ(joined.works.size(), 1u);
  EXPECT_EQ(joined.works[0].op, 1);
}

// Ids that a program or another tool pushes come before or after their call, in any buffer. Ops are
// found by thread and time, so that none of them says anything.
TEST(Joiner, ExternalCorrelationInAnyOrderChangesNothing) {
  const Scenario scenario = MakeScenario();
  Scenario with_ids = scenario;
  for (uint32_t i = 0; i < 250; ++i) {
    CUpti_ActivityExternalCorrelation external = {};
    external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    external.externalId = i % 7;  // never the op's
    external.correlationId = ~uint32_t{0} - 40 + i;
    with_ids.Add(external);
  }
  std::mt19937_64 random(2);
  const std::string expected = Print(RunScenario(scenario, random));
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(Print(RunScenario(with_ids, random)), expected) << "interleaving " << i;
  }
}

TEST(Joiner, AnySplitAndInterleavingOfOneScenarioGivesTheSame) {
  const Scenario scenario = MakeScenario();
  std::mt19937_64 random(1);
  const Joined first = RunScenario(scenario, random);
  EXPECT_EQ(first.works.size(), 120u);
  EXPECT_EQ(first.ops.size(), 60u);
  for (const OpWork& op : first.ops) EXPECT_EQ(op.num_works, 2);
  // The wait stands between the kernel and the copy of the same op.
  EXPECT_EQ(first.edges.size(), 60u);
  const std::string expected = Print(first);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(Print(RunScenario(scenario, random)), expected) << "interleaving " << i;
  }
}

}  // namespace
}  // namespace shardscope::cupti
