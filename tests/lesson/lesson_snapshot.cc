#include "tests/lesson/lesson_snapshot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/simulate/report_step_test_util.h"
#include "engine/simulate/simulate.h"
#include "tests/lesson/schedule_rows.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::analysis {
namespace {

constexpr int64_t kRunStartNs = 7'200 * kNsPerSecond;  // CLOCK_MONOTONIC of a machine up for hours
constexpr int64_t kIssueNs = 9 * kNsPerUs;             // host time per op
constexpr int64_t kLaunchNs = 2 * kNsPerUs;
constexpr int64_t kLinkLatencyNs = 50 * kNsPerUs;
constexpr double kLinkBytesPerNs = 0.7;  // 0.7 GB/s
constexpr double kCopyBytesPerNs = 9;
constexpr double kSlowness = 1.4;        // of rank 1 in its slow steps
constexpr double kSteadySlowness = 1.1;  // of the slow rank in every step
constexpr int64_t kDim = 256;
constexpr int64_t kVocabulary = 256;
constexpr int64_t kTokensPerStep = 1024;  // of a rank

// The forward of each kind of segment; backward takes twice that.
int64_t ForwardNs(const std::string& segment) {
  if (segment.ends_with(".attention")) return 2'300 * kNsPerUs;
  if (segment.ends_with(".mlp")) return 3'300 * kNsPerUs;
  return segment == "head" ? 1'600 * kNsPerUs : 700 * kNsPerUs;
}

plan::ModelDescription LessonModel() {
  constexpr int64_t kOutputBytes = kTokensPerStep * kDim * 4;
  plan::ModelDescription model;
  model.batch_bytes = (kTokensPerStep + 1) * 8;
  const auto add_segment = [&model](const std::string& name, int64_t saved_outputs) {
    const auto unit = static_cast<int32_t>(model.units.size()) - 1;
    model.segments.push_back({name, {unit}, saved_outputs * kOutputBytes, kOutputBytes});
  };
  model.units.push_back({"embedding", false, {{"embedding.weight", {kVocabulary, kDim}}}});
  add_segment("embedding", 1);
  for (const std::string name : {"block0", "block1", "block2"}) {
    model.units.push_back({name,
                           false,
                           {{name + ".attention.norm.weight", {kDim}},
                            {name + ".attention.qkv.weight", {3 * kDim, kDim}},
                            {name + ".attention.out.weight", {kDim, kDim}},
                            {name + ".mlp.norm.weight", {kDim}},
                            {name + ".mlp.up.weight", {4 * kDim, kDim}},
                            {name + ".mlp.down.weight", {kDim, 4 * kDim}}}});
    add_segment(name + ".attention", 3);
    add_segment(name + ".mlp", 3);
  }
  model.units.push_back(
      {"head", false, {{"head.norm.weight", {kDim}}, {"head.weight", {kVocabulary, kDim}}}});
  add_segment("head", 2);
  return model;
}

plan::Schedule LessonSchedule(int ranks, bool prefetch) {
  plan::Policy policy;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, ranks);
  policy.run_ahead = 0;
  policy.backward_prefetch =
      prefetch ? plan::BackwardPrefetch::kPre : plan::BackwardPrefetch::kNone;
  policy.forward_prefetch = prefetch ? 1 : 0;
  Result<plan::Schedule> schedule = plan::BuildSchedule(LessonModel(), policy);
  SHARDSCOPE_CHECK(schedule.ok());
  return std::move(schedule).value();
}

// In [-1, 1), the same for the same arguments (splitmix64).
double Noise(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9E3779B97F4A7C15U + b * 0xBF58476D1CE4E5B9U + c * 0x94D049BB133111EBU;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) / static_cast<double>(1ULL << 52) - 1.0;
}

// What a copy moves: all of the smaller side. Of a gather's copy-in that is the shard.
int64_t CopiedBytes(const plan::Program& program, const plan::Op& op) {
  const auto bytes = [&program](const std::vector<plan::BufferId>& buffers) {
    return program.buffers[static_cast<size_t>(buffers.front())].bytes;
  };
  return std::min(bytes(op.reads), bytes(op.writes));
}

// Without noise.
int64_t DurationOf(const plan::Schedule& schedule, const plan::Op& op) {
  const plan::Program& program = schedule.programs.front();
  switch (op.kind) {
    case plan::OpKind::kControl:
      return 30 * kNsPerUs;
    case plan::OpKind::kLoadBatch:
      return 90 * kNsPerUs;
    case plan::OpKind::kForward:
      return ForwardNs(schedule.segments[static_cast<size_t>(op.segment)].name);
    case plan::OpKind::kBackward:
      return 2 * ForwardNs(schedule.segments[static_cast<size_t>(op.segment)].name);
    case plan::OpKind::kUnscale:
    case plan::OpKind::kGradNorm:
      return 150 * kNsPerUs;
    case plan::OpKind::kOptimizer:  // 1 ns a byte of the shard
      return program.buffers[static_cast<size_t>(op.writes.front())].bytes;
    case plan::OpKind::kCopyIn:
    case plan::OpKind::kCopyOut:
      return std::llround(static_cast<double>(CopiedBytes(program, op)) / kCopyBytesPerNs);
    case plan::OpKind::kAllGather:
    case plan::OpKind::kReduceScatter:
    case plan::OpKind::kAllReduce:
      return kLinkLatencyNs + std::llround(static_cast<double>(op.wire_bytes) / kLinkBytesPerNs);
    default:
      return 0;
  }
}

// How many times longer than others a rank computes in a step.
double SlownessOf(int rank, int step, int slow_rank) {
  if (rank == slow_rank) return kSteadySlowness;
  return rank == 1 && step % 7 == 6 ? kSlowness : 1;
}

// With noise: a link is late, anything else is also early.
simulate::OpCost CostOf(const plan::Schedule& schedule, plan::OpIndex index, int rank, int step,
                        double slowness) {
  const plan::Op& op = schedule.programs.front().ops[static_cast<size_t>(index)];
  const double noise =
      Noise(static_cast<uint64_t>(rank), static_cast<uint64_t>(step), static_cast<uint64_t>(index));
  auto duration_ns = static_cast<double>(DurationOf(schedule, op));
  if (op.communicator != plan::kNone) {
    duration_ns += 3'000 * (noise + 1);
  } else {
    duration_ns *= 1 + 0.03 * noise;
  }
  const bool computes = op.kind == plan::OpKind::kForward || op.kind == plan::OpKind::kBackward;
  if (computes) duration_ns *= slowness;
  return {.issue_ns = kIssueNs,
          .latency_ns = op.stream == 0 ? 0 : kLaunchNs,
          .duration_ns = std::llround(duration_ns)};
}

// The lesson's steps, one behind the other.
class LessonRun {
 public:
  LessonRun(TestSnapshot* test, int ranks, int slow_rank)
      : test_(*test),
        rows_(test),
        slow_rank_(slow_rank),
        ends_(static_cast<size_t>(ranks), kRunStartNs) {}

  // What the steps from now on run, as the newest schedule of the snapshot.
  void SetSchedule(plan::Schedule schedule) {
    schedule_ = &schedules_.emplace_back(std::move(schedule));
    query::Schedule& row = test_.snapshot().schedules.rbegin()->second;
    row.name = schedule_->name;
    row.text = plan::PrintSchedule(*schedule_);
    row.largest.predicted_bytes = plan::PredictLargestPeak(*schedule_);
    row.largest.bound_bytes = plan::BoundLargestPeak(*schedule_, {});
    rows_.Add(*schedule_);
  }

  void AddPersistentMemory() {
    std::map<plan::MemoryCategory, int64_t> bytes;
    for (const plan::Buffer& buffer : schedule_->programs.front().buffers) {
      if (buffer.persistent) bytes[plan::MemoryCategoryOf(buffer.kind)] += buffer.bytes;
    }
    for (int32_t rank = 0; rank < schedule_->num_ranks(); ++rank) {
      for (const auto& [category, sum] : bytes) test_.Memory(rank, category, kRunStartNs, sum);
    }
  }

  void RunStep(int32_t step) {
    simulate::StepInput input;
    input.start_ns = ends_;
    const auto num_ops = static_cast<plan::OpIndex>(schedule_->programs.front().ops.size());
    for (int rank = 0; rank < schedule_->num_ranks(); ++rank) {
      std::vector<simulate::OpCost>& costs = input.costs.emplace_back();
      const double slowness = SlownessOf(rank, step, slow_rank_);
      for (plan::OpIndex op = 0; op < num_ops; ++op) {
        costs.push_back(CostOf(*schedule_, op, rank, step, slowness));
      }
    }
    const Result<simulate::StepTimes> times = simulate::SimulateStep(*schedule_, input);
    SHARDSCOPE_CHECK(times.ok());
    simulate::ReportStep(*schedule_, step, *times, &rows_);
    for (int32_t rank = 0; rank < schedule_->num_ranks(); ++rank) {
      AddStep(rank, step, (*times)[static_cast<size_t>(rank)]);
    }
  }

 private:
  void AddStep(int32_t rank, int32_t step, const std::vector<executor::OpTimes>& times) {
    int64_t& end_ns = ends_[static_cast<size_t>(rank)];
    const int64_t start_ns = end_ns;
    for (const executor::OpTimes& op : times) end_ns = std::max(end_ns, op.ended_ns);
    query::Step& row = test_.Step(rank, step, start_ns, end_ns);
    const double noise = Noise(static_cast<uint64_t>(rank), static_cast<uint64_t>(step), 4711);
    row.tokens = kTokensPerStep;
    row.loss = 1.7 + 3.85 * std::exp(-step / 60.0) + 0.04 * noise;
    row.grad_norm = 0.9 + 1.8 * std::exp(-step / 25.0);
  }

  TestSnapshot& test_;
  ScheduleRows rows_;
  const int slow_rank_;
  std::vector<int64_t> ends_;             // by rank: of its last step
  std::deque<plan::Schedule> schedules_;  // which rows_ refers to
  const plan::Schedule* schedule_ = nullptr;
};

void Describe(query::Snapshot* snapshot, int ranks, bool prefetch) {
  snapshot->name = "prefetch-lesson";
  snapshot->run_folder = "runs/prefetch-lesson";
  // It stands for a run on an emulated link, and panels are tested with the marks of such a run.
  snapshot->truth = query::Truth::kEmulated;
  snapshot->meta = {{"name", snapshot->name}, {"num_ranks", std::to_string(ranks)}};
  snapshot->config = {{"preset", "fsdp2"},
                      {"strategy", "full"},
                      {"reshard_after_forward", "true"},
                      {"prefetch.backward", prefetch ? "pre" : "none"},
                      {"prefetch.backward_depth", "1"},
                      {"prefetch.forward", prefetch ? "1" : "0"},
                      {"prefetch.limit", "0"},
                      {"host.run_ahead", "0"},
                      {"transport", "emulated"},
                      {"link.bandwidth", "700MB/s"},
                      {"link.latency", "50us"},
                      {"run.ranks", std::to_string(ranks)},
                      {"model.dim", "256"},
                      {"model.layers", "3"}};
  snapshot->capabilities = {{"engine", "on", "", 0}, {"memory", "on", "", 0}};
}

// Prefetch is turned on between two steps.
void AddChange(TestSnapshot* test, int32_t step) {
  const query::SnapshotPtr before = test->Build();
  for (const auto& [key, from, to] :
       {std::array{"prefetch.backward", "none", "pre"}, std::array{"prefetch.forward", "0", "1"}}) {
    test->snapshot().markers.push_back({before->end_ns, step, "change", key, from, to});
  }
  test->NextSchedule("");
}

}  // namespace

query::SnapshotPtr MakeLessonSnapshot(int ranks, int steps, int prefetch_from_step, int slow_rank) {
  TestSnapshot test(ranks);
  const bool prefetch = prefetch_from_step == 0;
  Describe(&test.snapshot(), ranks, prefetch);
  LessonRun run(&test, ranks, slow_rank);
  run.SetSchedule(LessonSchedule(ranks, prefetch));
  run.AddPersistentMemory();
  for (int32_t step = 0; step < steps; ++step) {
    if (step == prefetch_from_step && !prefetch) {
      AddChange(&test, step);
      run.SetSchedule(LessonSchedule(ranks, true));
    }
    run.RunStep(step);
  }
  return test.Build();
}

}  // namespace shardscope::analysis
