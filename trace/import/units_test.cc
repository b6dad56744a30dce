// Steps of FSDP and others without ranges that tell what they are.
#include "trace/import/units.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/import/ops.h"
#include "trace/import/parallelism.h"
#include "trace/import/steps.h"

namespace shardscope::imports {
namespace {

using testing::ElementsAre;

enum class Hint : uint8_t { kNone, kCopies, kWaits };

constexpr uint32_t kThread = 0;
constexpr uint32_t kCompute = 1;
constexpr uint32_t kGather = 2;
constexpr uint32_t kReduce = 3;
constexpr int64_t kUs = 1000;

// What one process does, asked for by one thread in the order of these calls.
class Program {
 public:
  Program() {
    recording_.tracks = {{.kind = TrackKind::kThread, .process = 1, .thread = 1},
                         {.kind = TrackKind::kStream, .stream = 7},
                         {.kind = TrackKind::kStream, .stream = 20},
                         {.kind = TrackKind::kStream, .stream = 22}};
    recording_.shapes.push_back({});
    recording_.steps = {{.number = 0, .start_ns = 0, .duration_ns = 10'000 * kUs}};
  }

  void Work(const std::string& name, uint32_t track, int64_t start_us, int64_t end_us) {
    const auto correlation = static_cast<int64_t>(recording_.launches.size());
    recording_.launches.push_back(
        {.correlation = correlation, .start_ns = Now(), .duration_ns = kUs, .track = kThread});
    launch_of_work_.push_back(static_cast<int32_t>(correlation));
    recording_.works.push_back({.start_ns = start_us * kUs,
                                .duration_ns = (end_us - start_us) * kUs,
                                .correlation = correlation,
                                .name = recording_.names.Add(name),
                                .track = track});
  }

  void Collective(const std::string& kind, const std::string& group, uint32_t track,
                  int64_t start_us, int64_t end_us, int64_t bytes = 100) {
    Work("ncclDevKernel", track, start_us, end_us);
    recording_.works.back().category = words::SpanCategory::kCommunication;
    recording_.works.back().collective = static_cast<int32_t>(recording_.collectives.size());
    recording_.collectives.push_back({.kind = kind, .group = group, .payload_bytes = bytes});
  }

  void Wait() {
    recording_.waits.push_back({.time_ns = Now(), .track = kCompute, .waited_stream = 20});
  }

  // Sorts, as PutInOrder() does; then the ops.
  InferredOps Infer() {
    std::vector<size_t> order(recording_.works.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](size_t i) { return recording_.works[i].start_ns; });
    std::vector<RecordedWork> works;
    std::vector<int32_t> launches;
    for (const size_t i : order) {
      works.push_back(recording_.works[i]);
      launches.push_back(launch_of_work_[i]);
    }
    recording_.works = std::move(works);
    return InferOps(&recording_, HostSteps(recording_), launches);
  }

  Recording& recording() { return recording_; }

 private:
  int64_t Now() { return (now_us_ += 2) * kUs; }

  Recording recording_;
  std::vector<int32_t> launch_of_work_;
  int64_t now_us_ = 0;
};

// Three units of different sizes. The second one is gathered while the first computes, before that
// was even asked for (prefetch); the last is not gathered again.
Program FsdpStep(Hint hint) {
  Program program;
  const auto compute = [&](const std::string& name, int64_t start_us, int64_t end_us) {
    program.Work(name, kCompute, start_us, end_us);
  };
  const auto copy_out = [&](int64_t start_us, int64_t end_us) {
    if (hint == Hint::kWaits) program.Wait();
    if (hint == Hint::kCopies) compute("at::native::split_with_sizes_copy_out", start_us, end_us);
  };
  const std::string group = "shards";
  program.Collective("all_gather", group, kGather, 100, 200, 10);
  if (hint != Hint::kNone) program.Collective("all_gather", group, kGather, 200, 300, 20);
  copy_out(200, 210);
  compute("f0", 210, 400);
  if (hint == Hint::kNone) program.Collective("all_gather", group, kGather, 200, 300, 20);
  program.Collective("all_gather", group, kGather, 300, 400, 30);
  if (hint == Hint::kNone) program.Work("f1", kCompute, 410, 600);
  copy_out(400, 410);
  if (hint != Hint::kNone) compute("f1", 410, 600);
  copy_out(600, 610);
  compute("f2", 610, 800);
  program.Collective("all_gather", group, kGather, 800, 900, 20);  // the second one again
  compute("b2", 810, 1000);
  program.Collective("reduce_scatter", group, kReduce, 1000, 1100, 30);
  copy_out(1000, 1010);
  program.Collective("all_gather", group, kGather, 1000, 1100, 10);
  compute("b1", 1010, 1200);
  program.Collective("reduce_scatter", group, kReduce, 1200, 1300, 20);
  copy_out(1200, 1210);
  compute("b0", 1210, 1400);
  program.Collective("reduce_scatter", group, kReduce, 1400, 1500, 10);
  compute("multi_tensor_apply_kernel", 1500, 1600);
  return program;
}

// "F unit 0 all_gather": in the order of their starts.
std::vector<std::string> NamesOf(const InferredOps& ops, words::Category category) {
  std::vector<std::string> names;
  for (const InferredRun& run : ops.runs) {
    if (ops.ops[run.op].category == category) names.push_back(ops.ops[run.op].name);
  }
  return names;
}

TEST(Units, ComputeBelongsToTheUnitWhoseGatherWasWaitedFor) {
  for (const Hint hint : {Hint::kCopies, Hint::kWaits}) {
    SCOPED_TRACE(static_cast<int>(hint));
    const InferredOps ops = FsdpStep(hint).Infer();
    EXPECT_THAT(NamesOf(ops, words::Category::kCompute),
                ElementsAre("F unit 0 forward", "F unit 1 forward", "F unit 2 forward",
                            "B unit 2 backward", "B unit 1 backward", "B unit 0 backward"));
    EXPECT_THAT(NamesOf(ops, words::Category::kCommunication),
                ElementsAre("F unit 0 all_gather", "F unit 1 all_gather", "F unit 2 all_gather",
                            "B unit 1 all_gather", "B unit 2 reduce_scatter", "B unit 0 all_gather",
                            "B unit 1 reduce_scatter", "B unit 0 reduce_scatter"));
    EXPECT_THAT(NamesOf(ops, words::Category::kOptimizer), ElementsAre("O optimizer"));
    EXPECT_EQ(NamesOf(ops, words::Category::kCopy).size(), hint == Hint::kCopies ? 5u : 0u);
  }
}

TEST(Units, WithoutAnyHintTheOrderOfIssueTells) {
  const InferredOps ops = FsdpStep(Hint::kNone).Infer();
  const std::vector<std::string> names = NamesOf(ops, words::Category::kCompute);
  ASSERT_EQ(names.size(), 5u);  // of two of forward nothing tells that they are two
  EXPECT_EQ(names.front(), "F unit 0 forward");
  EXPECT_EQ(names.back(), "B unit 0 backward");
}

TEST(Units, AStepThatLooksOtherwiseKeepsItsOpsWithoutUnits) {
  Program program = FsdpStep(Hint::kCopies);
  program.Collective("all_gather", "shards", kGather, 1600, 1700, 77);  // of no unit's size
  for (const InferredOp& op : program.Infer().ops) EXPECT_EQ(op.unit, "") << op.name;
}

TEST(Parallelism, IsRecognisedByUse) {
  Program program = FsdpStep(Hint::kCopies);
  for (int i = 0; i < 20; ++i)
    program.Collective("all_reduce", "layers", kReduce, 300 + i * 60, 310 + i * 60);
  program.Collective("send", "stages", kReduce, 1700, 1710);
  program.Collective("receive", "stages", kReduce, 1710, 1720);
  const InferredOps ops = program.Infer();
  std::vector<std::string> found;
  for (const RecognisedGroup& group : Recognise(program.recording(), ops)) {
    EXPECT_EQ(group.evidence, Evidence::kUse);
    found.push_back(
        fmt::format("{}: {}, {}", group.group, Name(group.parallelism), group.num_units));
  }
  EXPECT_THAT(found, ElementsAre("shards: FSDP or ZeRO-3, 3", "stages: pipeline parallel, 0"));
}

TEST(Parallelism, IsRecognisedByTheGroupsName) {
  Program program;
  program.recording().groups = {{.name = "3", .description = "mesh_tp"},
                                {.name = "4", .description = "mesh_dp_cp"},
                                {.name = "5", .description = "mesh_dp"}};
  program.Collective("all_reduce", "3", kReduce, 100, 110);
  program.Collective("all_gather", "4", kReduce, 110, 120);
  program.Collective("broadcast", "5", kReduce, 120, 130);
  const InferredOps ops = program.Infer();
  std::vector<Parallelism> found;
  for (const RecognisedGroup& group : Recognise(program.recording(), ops)) {
    EXPECT_EQ(group.evidence, Evidence::kName);
    found.push_back(group.parallelism);
  }
  EXPECT_THAT(found, ElementsAre(Parallelism::kTensor, Parallelism::kContext));
}

}  // namespace
}  // namespace shardscope::imports
