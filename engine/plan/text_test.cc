// Over a grid of policies and models: every schedule is valid and survives print and parse.
#include "engine/plan/text.h"

#include <gmock/gmock.h>

#include <random>

#include "engine/plan/schedule_test_util.h"
#include "engine/plan/uniform_model.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {
namespace {

using testing::HasSubstr;

struct Shape {
  int num_ranks;
  int micro_batches;
  DType param;
  DType reduce;
  bool root_unit;
};

// The arithmetic of a schedule: everything but gathers and waits, in host order.
std::vector<std::string> Arithmetic(const Schedule& schedule) {
  std::vector<std::string> ops;
  for (const Op& op : schedule.programs.front().ops) {
    const bool copy_of_gather =
        schedule.streams[static_cast<size_t>(op.stream)].role == StreamRole::kCopy;
    if (op.kind != OpKind::kAllGather && op.kind != OpKind::kCopyOut &&
        op.kind != OpKind::kReshard && op.kind != OpKind::kRelease && !copy_of_gather) {
      ops.push_back(OpName(schedule, op));
    }
  }
  return ops;
}

class PolicyGrid
    : public testing::TestWithParam<std::tuple<Preset, const Strategy*, BackwardPrefetch>> {
 protected:
  void CheckKnobs(const Shape& shape, std::vector<std::string>* arithmetic) {
    Policy policy;
    std::tie(policy.preset, policy.strategy, policy.backward_prefetch) = GetParam();
    policy.mesh = std::get<const Strategy*>(GetParam())->MeshOf(shape.num_ranks);
    policy.micro_batches = shape.micro_batches;
    policy.param_dtype = shape.param;
    policy.reduce_dtype = shape.reduce;
    for (const int depth : {1, 3}) {
      for (const int forward : {0, 2}) {
        for (const int limit : {0, 2}) {
          for (const int run_ahead : {-1, 1}) {
            policy.backward_depth = depth;
            policy.forward_prefetch = forward;
            policy.prefetch_limit = limit;
            policy.run_ahead = run_ahead;
            CheckOne(policy, shape.root_unit, arithmetic);
          }
        }
      }
    }
  }

 private:
  void CheckOne(const Policy& policy, bool root_unit, std::vector<std::string>* arithmetic) {
    // BuildSchedule validates.
    const Result<Schedule> schedule = BuildSchedule(UniformModel(3, root_unit), policy);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    const Result<Schedule> parsed = ParseSchedule(PrintSchedule(*schedule));
    ASSERT_TRUE(parsed.ok()) << parsed.message();
    EXPECT_TRUE(*parsed == *schedule) << schedule->name;
    if (arithmetic->empty()) *arithmetic = Arithmetic(*schedule);
    EXPECT_EQ(Arithmetic(*schedule), *arithmetic) << schedule->name;
  }
};

TEST_P(PolicyGrid, IsValidAndRoundTripsAndKnobsKeepTheArithmetic) {
  for (const Shape& shape : {Shape{2, 1, DType::kFp32, DType::kFp32, true},
                             Shape{1, 2, DType::kBf16, DType::kFp32, false},
                             Shape{3, 3, DType::kBf16, DType::kBf16, true},
                             Shape{7, 1, DType::kFp32, DType::kBf16, false}}) {
    std::vector<std::string> arithmetic;
    CheckKnobs(shape, &arithmetic);
    EXPECT_FALSE(arithmetic.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PolicyGrid,
    testing::Combine(
        testing::Values(Preset::kFsdp1, Preset::kFsdp2),
        testing::Values(FindStrategy("full"), FindStrategy("grad_op"), FindStrategy("no_shard"),
                        FindStrategy("hybrid"), FindStrategy("ddp"), FindStrategy("zero1"),
                        FindStrategy("zero2"), FindStrategy("zero3")),
        testing::Values(BackwardPrefetch::kPre, BackwardPrefetch::kPost, BackwardPrefetch::kNone)));

TEST(Text, KeepsEveryFieldOfAnOp) {
  Schedule schedule;
  schedule.name = "with \"quotes\", \\ and\na second line # no comment";
  schedule.mesh = {{1, 2, 1, 3}};
  schedule.num_micro_batches = 4;
  schedule.streams = {{"host", StreamRole::kHost}, {"two words", StreamRole::kAllReduce}};
  schedule.communicators = {{""},
                            {"x=1", static_cast<MeshDimensions>(Only(MeshDimension::kReplicate) |
                                                                Only(MeshDimension::kTensor))}};
  schedule.segments = {{"a", {}, 1, 2}, {"b", {0, 1}, 1LL << 60, 0}};
  schedule.units = {{"u", true, {{"scalar", {}}, {"w", {3, 1LL << 40}}}}, {"", false, {}}};
  Op op;
  op.kind = OpKind::kReduceScatter;
  op.phase = Phase::kOptimizer;
  op.micro_batch = 3;
  op.unit = 1;
  op.segment = 1;
  op.stream = 1;
  op.communicator = 1;
  op.dtype = DType::kBf16;
  op.payload_bytes = 1LL << 50;
  op.wire_bytes = 12;
  op.allocates = {1};
  op.reads = {2, 3};
  op.writes = {0, 2, 1};
  op.frees = {3, 1};
  op.dependencies = {
      {DependencyKind::kHost, 0}, {DependencyKind::kEvent, 1}, {DependencyKind::kStream, 1}};
  Buffer buffer{BufferKind::kNorm, 1, 0, 2, 99, true};
  schedule.programs = {{{Op(), op}, {Buffer(), buffer}}, {}};
  schedule.program_of_rank = {1, 0};
  const Result<Schedule> parsed = ParseSchedule(PrintSchedule(schedule));
  ASSERT_TRUE(parsed.ok()) << parsed.message();
  EXPECT_TRUE(*parsed == schedule);
}

TEST(Text, AnOpIsOneReadableLine) {
  EXPECT_THAT(PrintSchedule(Build(TwoRanks(Preset::kFsdp2))),
              HasSubstr("\n  op 2 copy_in phase=forward mb=0 unit=0 stream=2 alloc=13 read=0 "
                        "write=13 wait=stream:1  # F m0 root copy_in @all_gather_copy_in\n"));
}

TEST(Text, MoreStreamsThanCanBeCheckedAreNotRead) {
  std::string text = "schedule 1 \"x\" ranks=1 micro_batches=1\n";
  for (size_t stream = 0; stream < kMostStreams; ++stream) {
    text += "stream " + std::to_string(stream) + " \"s\"\n";
  }
  const std::string end = "program 0\nrank_programs ranks=0\n";
  const Result<Schedule> most = ParseSchedule(text + end);
  ASSERT_TRUE(most.ok()) << most.message();
  EXPECT_EQ(most->streams.size(), kMostStreams);
  EXPECT_EQ(ParseSchedule(text + "stream 256 \"s\"\n" + end).message(),
            "line 258: a schedule has at most 256 streams");
}

TEST(Text, ErrorsNameTheLine) {
  const std::string header = "schedule 1 \"x\" ranks=1 micro_batches=1\n";
  const auto error = [&header](const std::string& rest) {
    return ParseSchedule(header + rest).message();
  };
  EXPECT_EQ(ParseSchedule("").message(), "no schedule here: the text has no 'schedule' line");
  EXPECT_EQ(ParseSchedule("stream 0 \"host\"").message(),
            "line 1: expected 'schedule' first, found 'stream'");
  EXPECT_EQ(ParseSchedule("schedule 2 \"x\"").message(), "line 1: expected index 1, found '2'");
  EXPECT_EQ(error(""), "the schedule is cut off: it has no 'rank_programs' line");
  EXPECT_EQ(error("\n# comment\nstream 1 \"host\"\n"), "line 4: expected index 0, found '1'");
  EXPECT_EQ(error("stream 0 host\n"), "line 2: expected the stream's name in quotes, found 'host'");
  EXPECT_EQ(error("stream 0 \"host\n"), "line 2: a string without a closing quote");
  EXPECT_EQ(error("stream 0 \"s\" role=pump\n"), "line 2: 'pump' is no role");
  EXPECT_EQ(error("communicator 0 \"c\" dimensions=shard,depth\n"),
            "line 2: 'depth' is no dimension of the mesh");
  EXPECT_EQ(ParseSchedule("schedule 1 \"x\" ranks=4 mesh=1,2,1,1").message(),
            "line 1: the sizes of 'mesh' multiply to other than 4 ranks");
  EXPECT_EQ(ParseSchedule("schedule 1 \"x\" ranks=4 mesh=2,2").message(),
            "line 1: 'mesh' needs 4 sizes");
  EXPECT_EQ(ParseSchedule("schedule 1 \"x\" ranks=4 mesh=1,0,4,1").message(),
            "line 1: a size of 'mesh' is out of range");
  EXPECT_EQ(error("op 0 forward\n"), "line 2: 'op' before the first 'program' line");
  EXPECT_EQ(error("program 0\nop 0 fly\n"), "line 3: 'fly' is no kind of op");
  EXPECT_EQ(error("program 0\nop 0 forward read=1,x\n"),
            "line 3: expected a number for 'read', found 'x'");
  EXPECT_EQ(error("program 0\nop 0 forward stream=99999999999\n"),
            "line 3: 'stream' is out of range");
  EXPECT_EQ(error("program 0\nop 0 forward wait=event\n"),
            "line 3: expected KIND:INDEX in 'wait', found 'event'");
  EXPECT_EQ(error("program 0\nop 0 forward colour=red\n"),
            "line 3: 'colour=red' is not expected here");
  EXPECT_EQ(error("program 0\nop first forward\n"),
            "line 3: expected a number for 'op', found 'first'");
  EXPECT_EQ(error("program 0\nop -1 forward\n"), "line 3: 'op' is out of range");
  EXPECT_EQ(error("program 0\nop 0 forward\nop 0 backward\n"),
            "line 4: a second op 0 of this program");
  EXPECT_EQ(error("program 0\nop 0 forward\nop 1 forward wait=event:5\n"),
            "line 4: waits for op 5, which is not in this program");
}

// A line may be moved as it is: numbers are names, and printing numbers ops by their place again.
TEST(Text, NumbersOfOpsAreNames) {
  const std::string header =
      "schedule 1 \"x\" ranks=1 micro_batches=1\nstream 0 \"host\" role=host\n";
  const std::string ranks = "rank_programs ranks=0\n";
  const std::string a = "op 30 load_batch\n";
  const std::string b = "op 7 control wait=host:30,stream:0\n";
  const Result<Schedule> in_order = ParseSchedule(header + "program 0\n" + a + b + ranks);
  ASSERT_TRUE(in_order.ok()) << in_order.message();
  const std::vector<Dependency> waits = {{DependencyKind::kHost, 0}, {DependencyKind::kStream, 0}};
  EXPECT_EQ(in_order->programs[0].ops[1].dependencies, waits);
  EXPECT_EQ(*ParseSchedule(PrintSchedule(*in_order)), *in_order);
  const Result<Schedule> moved = ParseSchedule(header + "program 0\n" + b + a + ranks);
  ASSERT_TRUE(moved.ok()) << moved.message();
  EXPECT_EQ(moved->programs[0].ops[0].dependencies[0].target, 1);
  EXPECT_THAT(Validate(*moved).message(), HasSubstr("waits for op 1, which is not issued before"));
  // Numbers are of a program alone.
  const Result<Schedule> two =
      ParseSchedule(header + "program 0\n" + a + b + "program 1\n" + a + ranks);
  EXPECT_TRUE(two.ok()) << two.message();
}

// Files come from anywhere: whatever a damaged one says, it is refused with a message or is valid.
TEST(Text, DamagedTextsAreRefusedOrValid) {
  const std::string original = PrintSchedule(Build(TwoRanks(Preset::kFsdp1)));
  const std::string alphabet = "0123456789,:=-\" #\nabc";
  std::mt19937 random(1);
  const auto below = [&random](size_t limit) { return random() % limit; };
  int parsed_texts = 0;
  int refused_schedules = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = original;
    for (size_t change = 0; change <= below(3); ++change) {
      text[below(text.size())] = alphabet[below(alphabet.size())];
    }
    const Result<Schedule> parsed = ParseSchedule(text);
    if (!parsed.ok()) {
      EXPECT_NE(parsed.message(), "");
      continue;
    }
    ++parsed_texts;
    if (!Validate(*parsed).ok()) ++refused_schedules;
    EXPECT_TRUE(*ParseSchedule(PrintSchedule(*parsed)) == *parsed);
  }
  // The rounds reach all three outcomes.
  EXPECT_GT(parsed_texts, refused_schedules);
  EXPECT_LT(parsed_texts, 3000);
  EXPECT_GT(refused_schedules, 0);
}

}  // namespace
}  // namespace shardscope::plan
