// Pipelines: the order of stages, what they send each other, and what the validator refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "engine/plan/builders/stage_order.h"
#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/plan/uniform_model.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct PipelineShape {
  int ranks = 2;
  int micro_batches = 4;
  int chunks = 1;
};

Policy PipelinePolicy(PipelineSchedule order, const PipelineShape& shape) {
  Policy policy;
  const bool overlaps = order != PipelineSchedule::kOneByOne;
  policy.strategy = FindStrategy(overlaps ? "pipeline" : "model_parallel");
  policy.mesh = policy.strategy->MeshOf(shape.ranks);
  policy.units.stages = shape.ranks * shape.chunks;
  policy.pipeline = order;
  policy.micro_batches = shape.micro_batches;
  return policy;
}

Schedule BuildPipeline(PipelineSchedule order, const PipelineShape& shape) {
  const int stages = shape.ranks * shape.chunks;
  Result<Schedule> schedule =
      BuildSchedule(UniformModel(stages, false, stages), PipelinePolicy(order, shape));
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *std::move(schedule) : Schedule();
}

// "F0 B0": with several stages on the rank, "F0.2" for the stage.
std::string OrderText(PipelineSchedule order, const PipelineShape& shape, int place) {
  std::string text;
  for (const StageRun& run :
       StageOrder(PipelinePolicy(order, shape), shape.ranks * shape.chunks, place)) {
    if (!text.empty()) text += ' ';
    text += (run.phase == Phase::kForward ? "F" : "B") + std::to_string(run.micro_batch);
    if (shape.chunks > 1) text += "." + std::to_string(run.stage);
  }
  return text;
}

TEST(StageOrder, IsThatOfThePapers) {
  const PipelineShape two = {.ranks = 2, .micro_batches = 3};
  EXPECT_EQ(OrderText(PipelineSchedule::kOneByOne, two, 0), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(OrderText(PipelineSchedule::kGpipe, two, 1), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(OrderText(PipelineSchedule::k1F1B, two, 0), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(OrderText(PipelineSchedule::k1F1B, two, 1), "F0 B0 F1 B1 F2 B2");
  const PipelineShape interleaved = {.ranks = 2, .micro_batches = 2, .chunks = 2};
  EXPECT_EQ(OrderText(PipelineSchedule::kInterleaved, interleaved, 0),
            "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0");
  EXPECT_EQ(OrderText(PipelineSchedule::kInterleaved, interleaved, 1),
            "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1");
}

TEST(Pipeline, EveryOrderIsAScheduleAndReadsBack) {
  for (const auto order : {PipelineSchedule::kOneByOne, PipelineSchedule::kGpipe,
                           PipelineSchedule::k1F1B, PipelineSchedule::kInterleaved}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int micro_batches : {1, 4, 8}) {
        const int chunks = order == PipelineSchedule::kInterleaved && ranks > 1 ? 2 : 1;
        if (chunks == 2 && micro_batches % std::max(1, micro_batches / ranks) != 0) continue;
        const Schedule schedule = BuildPipeline(order, {ranks, micro_batches, chunks});
        const Result<Schedule> read = ParseSchedule(PrintSchedule(schedule));
        ASSERT_TRUE(read.ok()) << read.message();
        EXPECT_EQ(*read, schedule);
      }
    }
  }
}

// One activation and one gradient for each micro-batch and boundary of stages.
TEST(Pipeline, SendsEachBoundaryOnceEachWay) {
  for (const int chunks : {1, 2}) {
    const auto order = chunks == 1 ? PipelineSchedule::k1F1B : PipelineSchedule::kInterleaved;
    const Schedule schedule = BuildPipeline(order, {4, 8, chunks});
    int64_t sent = 0;
    int64_t received = 0;
    for (int rank = 0; rank < 4; ++rank) {
      for (const Op& op : schedule.ProgramOf(rank).ops) {
        if (op.kind == OpKind::kSend) sent += op.wire_bytes;
        if (op.kind == OpKind::kReceive) received += op.payload_bytes;
      }
    }
    EXPECT_EQ(sent, received);
    EXPECT_EQ(sent, 2 * 8 * (4 * chunks - 1) * schedule.segments.front().output_bytes);
  }
}

// Micro-batches whose activations a rank holds at once: all with GPipe, and with 1F1B as many as
// there are stages from its own to the last.
TEST(Pipeline, HoldsAsManyMicroBatchesAsItsOrderNeeds) {
  const auto activations = [](const Schedule& schedule, int rank) {
    return PredictPeak(schedule, rank)
        .by_category[static_cast<size_t>(MemoryCategory::kActivation)];
  };
  const Schedule gpipe = BuildPipeline(PipelineSchedule::kGpipe, {4, 8, 1});
  const Schedule one_f_one_b = BuildPipeline(PipelineSchedule::k1F1B, {4, 8, 1});
  const int64_t of_block = gpipe.segments[3].activation_bytes + gpipe.segments[4].activation_bytes;
  const int64_t boundary = gpipe.segments[2].output_bytes;
  for (const int rank : {1, 2}) {
    // With the input of each, and the gradients on their way.
    EXPECT_GE(activations(gpipe, rank), 8 * (of_block + boundary));
    EXPECT_GE(activations(one_f_one_b, rank), (4 - rank) * (of_block + boundary));
    EXPECT_LT(activations(one_f_one_b, rank), (5 - rank) * (of_block + boundary));
  }
}

TEST(Pipeline, UnitsStayWithTheirStage) {
  const Schedule schedule = BuildPipeline(PipelineSchedule::k1F1B, {2, 2, 1});
  ASSERT_EQ(schedule.programs.size(), 2U);
  for (const Program& program : schedule.programs) {
    const bool is_first = &program == &schedule.programs.front();
    for (const Buffer& buffer : program.buffers) {
      if (!buffer.persistent) continue;
      EXPECT_EQ(buffer.unit <= 1, is_first) << BufferName(schedule, buffer);
    }
  }
}

// What the validator says of a Schedule with one thing changed.
std::string RefusalOf(const std::function<void(Schedule*)>& change) {
  Schedule schedule = BuildPipeline(PipelineSchedule::k1F1B, {3, 4, 1});
  EXPECT_TRUE(Validate(schedule).ok());
  change(&schedule);
  return Validate(schedule).message();
}

Op& FirstOf(OpKind kind, Program* program) {
  return *std::ranges::find(program->ops, kind, &Op::kind);
}

TEST(PipelineValidator, RefusesWhatTheStagesCannotDoTogether) {
  EXPECT_THAT(RefusalOf([](Schedule* schedule) {
                FirstOf(OpKind::kSend, &schedule->programs[0]).peer = 2;
              }),
              AllOf(HasSubstr("does not match"), HasSubstr("communicator 'activation'")));
  EXPECT_THAT(RefusalOf([](Schedule* schedule) {
                FirstOf(OpKind::kSend, &schedule->programs[0]).peer = 3;
              }),
              HasSubstr("names place 3 of a group as its peer"));
  EXPECT_THAT(RefusalOf([](Schedule* schedule) {
                FirstOf(OpKind::kSend, &schedule->programs[0]).peer = 0;
              }),
              HasSubstr("is sent to the rank itself"));
  // A receive that is missing.
  EXPECT_THAT(RefusalOf([](Schedule* schedule) {
                Op& op = FirstOf(OpKind::kReceive, &schedule->programs[1]);
                op.kind = OpKind::kRelease;
                op.communicator = op.peer = kNone;
                op.payload_bytes = 0;
                op.writes.clear();
              }),
              HasSubstr("does not match: exchange number 0 with place 0 on communicator"));
  // Two sends change their places.
  EXPECT_THAT(RefusalOf([](Schedule* schedule) {
                std::vector<Op*> sends;
                for (Op& op : schedule->programs[0].ops) {
                  if (op.kind == OpKind::kSend) sends.push_back(&op);
                }
                std::swap(sends[0]->micro_batch, sends[1]->micro_batch);
              }),
              HasSubstr("does not match: exchange number 0"));
  EXPECT_THAT(RefusalOf([](Schedule* schedule) {
                Op& op = FirstOf(OpKind::kSend, &schedule->programs[0]);
                op.payload_bytes += 4;
                op.wire_bytes += 4;
              }),
              HasSubstr("does not match"));
}

TEST(PipelineValidator, FindsRanksThatBothSendFirst) {
  // Both of two ranks send first and receive on the same stream: neither comes to its receive.
  Schedule schedule;
  schedule.mesh = MeshOf(MeshDimension::kPipeline, 2);
  schedule.streams = {{"host", StreamRole::kHost},
                      {"a", StreamRole::kSendActivation},
                      {"b", StreamRole::kReceiveActivation}};
  schedule.communicators = {{"pipeline", Only(MeshDimension::kPipeline)}};
  for (const int32_t peer : {1, 0}) {
    Program program;
    for (const OpKind kind : {OpKind::kSend, OpKind::kReceive}) {
      Op op;
      op.kind = kind;
      op.communicator = 0;
      op.peer = peer;
      op.stream = 1;
      op.payload_bytes = 8;
      op.wire_bytes = kind == OpKind::kSend ? 8 : 0;
      const auto buffer = static_cast<BufferId>(program.buffers.size());
      (kind == OpKind::kSend ? op.reads : op.writes) = {buffer};
      program.buffers.push_back({.bytes = 8, .persistent = true});
      program.ops.push_back(op);
    }
    schedule.programs.push_back(program);
  }
  schedule.program_of_rank = {0, 1};
  EXPECT_THAT(Validate(schedule).message(), HasSubstr("the ranks wait for each other, a deadlock"));
  for (Program& program : schedule.programs) program.ops[1].stream = 2;
  EXPECT_EQ(Validate(schedule).message(), "");
}

}  // namespace
}  // namespace shardscope::plan
