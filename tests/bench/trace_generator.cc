// Makes a finished trace of a wanted size through the real recorder and finisher: the prefetch
// lesson's steps, again and again, as a long run would record them.
//
// usage: trace_generator FOLDER OP_RUNS [RANKS [OPS_A_STEP]] [--slow-rank N]
//
// Prints the number of op runs, the file, and the seconds and CPU seconds that finishing it took.
//
// With OPS_A_STEP each step has only its first ops, and memory is that of the first step: for runs
// of very many steps. Rank N computes longer than the others in every step.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/derived.h"
#include "trace/query/rows.h"
#include "trace/record/recorder.h"

namespace shardscope {
namespace {

constexpr int kBaseSteps = 40;
constexpr int kChangeStep = 20;      // the base's steps behind it are repeated
constexpr int kMostBaseRanks = 128;  // along one dimension of a mesh; others do as these do
constexpr int64_t kFlushRecords = 20'000;
constexpr size_t kRingRecords = size_t{1} << 16;

using query::Name;

struct Wanted {
  std::string folder;
  int64_t op_runs = 0;
  int ranks = 8;
  size_t ops_a_step = SIZE_MAX;
  int slow_rank = -1;
};

// Which rank of the base does what `rank` does: only one of all is the slow one.
int BaseRankOf(int rank, const Wanted& wanted) {
  const int base = rank % kMostBaseRanks;
  const bool is_other = rank != wanted.slow_rank && wanted.slow_rank >= 0 &&
                        base == wanted.slow_rank % kMostBaseRanks;
  return is_other ? (base + 2) % kMostBaseRanks : base;
}

class Generator {
 public:
  Generator(const query::Snapshot& base, record::Recorder* recorder, const Wanted& wanted)
      : base_(base), recorder_(*recorder), num_ranks_(wanted.ranks) {
    for (int rank = 0; rank < wanted.ranks; ++rank) {
      const auto base_rank = static_cast<size_t>(BaseRankOf(rank, wanted));
      AddRank(base.ranks[base_rank], rank);
      for (const query::Track& track : base.tracks) {
        if (track.rank == static_cast<int32_t>(base_rank)) AddTrack(track, rank);
      }
    }
    for (StepRows& rows : rows_) {
      for (Slice& slice : rows.slices) Shorten(wanted.ops_a_step, &slice);
    }
    for (const auto& [id, schedule] : base.schedules) {
      schedules_[id] = recorder_.Add(
          schema::ScheduleRow{{}, schedule.name, schedule.text, schedule.largest.predicted_bytes});
      recorder_.Add(schema::ScheduleBoundRow{{}, schedules_[id], schedule.largest.bound_bytes});
    }
    for (const auto& [id, op] : base.plan_ops) AddPlanOp(op);
    for (const auto& [id, op] : base.plan_ops) {
      for (const query::PlanOpId before : op.predecessors) {
        const auto& by_host = op.host_predecessors;
        const bool is_host = std::find(by_host.begin(), by_host.end(), before) != by_host.end();
        recorder_.Add(schema::PlanEdgeRow{
            {}, plan_ops_.at(id), plan_ops_.at(before), is_host ? "host" : "event"});
      }
    }
    for (const query::Marker& marker : base.markers) {
      recorder_.Add(schema::MarkerRow{{},
                                      marker.time_ns,
                                      marker.step,
                                      marker.kind,
                                      marker.key,
                                      marker.old_value,
                                      marker.new_value});
    }
  }

  // One step of the base, as step `step`, that much later.
  Status AddStep(int32_t base_step, int32_t step, int64_t shift_ns) {
    for (const StepRows& rows : rows_) {
      const Slice& slice = rows.slices[static_cast<size_t>(base_step)];
      for (const query::OpRun& run : slice.op_runs) AddOpRun(rows, run, step, shift_ns);
      for (const query::MemoryEvent& event : slice.memory) {
        recorder_.Record(schema::MemoryEventRow{{},
                                                rows.rank,
                                                "cpu",
                                                event.issued_ns + shift_ns,
                                                event.executed_ns + shift_ns,
                                                event.bytes,
                                                Name(event.category),
                                                "",
                                                query::PlanOpId::None(),
                                                step});
        ++unflushed_;
      }
      const query::Step& row = *slice.step;
      recorder_.Record(schema::StepRow{{},
                                       rows.rank,
                                       step,
                                       schedules_.at(row.schedule),
                                       row.start_ns + shift_ns,
                                       row.end_ns + shift_ns,
                                       row.tokens,
                                       row.loss,
                                       row.grad_norm});
    }
    if (unflushed_ < kFlushRecords) return Status::Ok();
    unflushed_ = 0;
    return recorder_.Flush();
  }

  int64_t op_runs() const { return op_runs_; }
  int64_t EndOf(int32_t base_step) const {
    int64_t end_ns = 0;
    for (const StepRows& rows : rows_) {
      end_ns = std::max(end_ns, rows.slices[static_cast<size_t>(base_step)].step->end_ns);
    }
    return end_ns;
  }

 private:
  // One step of one rank.
  struct Slice {
    const query::Step* step = nullptr;
    std::vector<query::OpRun> op_runs;
    std::vector<query::MemoryEvent> memory;
  };
  struct StepRows {
    int32_t rank = 0;
    std::map<query::OpRunId, query::Collective> collectives;  // by op run
    std::vector<Slice> slices;
    std::map<int32_t, int64_t> collectives_a_step;
  };

  void AddRank(const query::RankRows& rows, int32_t rank) {
    recorder_.Add(schema::RankRow{rank, "bench", 1, "cpu"});
    StepRows& mine = rows_.emplace_back();
    mine.rank = rank;
    mine.slices.resize(kBaseSteps);
    for (const query::Step& row : rows.steps) mine.slices[Index(row.step)].step = &row;
    for (const query::OpRun& run : rows.op_runs) {
      mine.slices[Index(run.step)].op_runs.push_back(run);
    }
    for (const query::Collective& row : rows.collectives) mine.collectives[row.op_run] = row;
    for (const query::MemoryEvent& event : rows.memory) {
      // Steps tile time; what is there from the start on comes with the first.
      auto slice = std::find_if(mine.slices.begin(), mine.slices.end(), [&event](const Slice& one) {
        return event.issued_ns < one.step->end_ns;
      });
      if (slice == mine.slices.end()) --slice;
      slice->memory.push_back(event);
    }
  }
  void Shorten(size_t ops, Slice* slice) {
    if (slice->op_runs.size() <= ops) return;
    slice->op_runs.resize(ops);
    if (slice->step->step > 0) slice->memory.clear();
  }
  static size_t Index(int32_t step) { return static_cast<size_t>(step); }

  void AddTrack(const query::Track& track, int32_t rank) {
    tracks_[{rank, track.id}] = recorder_.Add(
        schema::TrackRow{{}, rank, track.name, std::string(Name(track.role)), track.position});
  }

  void AddPlanOp(const query::PlanOp& op) {
    schema::PlanOpRow row;
    row.schedule = schedules_.at(op.schedule);
    row.program = op.program;
    row.op = op.op;
    row.name = op.name;
    row.kind = op.kind;
    row.category = Name(op.category);
    row.phase = op.phase;
    row.micro_batch = op.micro_batch;
    row.unit = op.unit;
    row.segment = op.segment;
    row.stream = op.stream;
    row.communicator = op.communicator;
    row.dtype = op.dtype;
    row.payload_bytes = op.payload_bytes;
    row.wire_bytes = op.wire_bytes;
    plan_ops_[op.id] = recorder_.Add(row);
  }

  void AddOpRun(const StepRows& rows, const query::OpRun& run, int32_t step, int64_t shift_ns) {
    record::OpRecord record;
    record.run = {{},
                  plan_ops_.at(run.plan_op),
                  rows.rank,
                  step,
                  tracks_.at({rows.rank, run.track}),
                  run.issued_ns + shift_ns,
                  run.ready_ns + shift_ns,
                  run.started_ns + shift_ns,
                  run.ended_ns + shift_ns,
                  run.slot_wait_ns,
                  run.cpu_ns,
                  run.blocking_plan_op.is_none() ? query::PlanOpId::None()
                                                 : plan_ops_.at(run.blocking_plan_op),
                  Name(run.blocking_kind)};
    const auto found = rows.collectives.find(run.id);
    if (found != rows.collectives.end()) {
      const query::Collective& row = found->second;
      // The same on all ranks, and never twice in a run.
      const int64_t sequence = int64_t{step} * 1000 + row.sequence % 1000;
      record.collective = {{},
                           {},
                           rows.rank,
                           step,
                           base_.communicators[static_cast<size_t>(row.communicator)],
                           sequence,
                           Name(row.kind),
                           row.payload_bytes,
                           row.wire_bytes,
                           "fp32",
                           num_ranks_,
                           "emulated",
                           Name(row.truth)};
    }
    recorder_.Record(record);
    ++op_runs_;
    ++unflushed_;
  }

  const query::Snapshot& base_;
  record::Recorder& recorder_;
  std::vector<StepRows> rows_;
  const int num_ranks_;
  std::map<std::pair<int32_t, query::TrackId>, query::TrackId> tracks_;  // by rank and base track
  std::map<query::ScheduleId, query::ScheduleId> schedules_;
  std::map<query::PlanOpId, query::PlanOpId> plan_ops_;
  int64_t op_runs_ = 0;
  int64_t unflushed_ = 0;
};

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

Status Generate(const Wanted& wanted) {
  std::filesystem::create_directories(wanted.folder);
  const query::SnapshotPtr base =
      analysis::MakeLessonSnapshot(std::min(wanted.ranks, kMostBaseRanks), kBaseSteps, kChangeStep,
                                   wanted.slow_rank < 0 ? -1 : wanted.slow_rank % kMostBaseRanks);
  record::RecorderOptions options;
  options.run_folder = wanted.folder;
  options.meta = base->meta;
  options.meta["name"] = fmt::format("bench-{}", wanted.op_runs);
  options.meta["truth"] = Name(base->truth);
  options.config = base->config;
  options.config["run.ranks"] = options.meta["num_ranks"] = std::to_string(wanted.ranks);
  options.ring_records = kRingRecords;
  auto recorder = record::Recorder::Open(options);
  if (!recorder.ok()) return recorder.status();
  Generator generator(*base, recorder.value().get(), wanted);
  for (int32_t step = 0; step < kBaseSteps || generator.op_runs() < wanted.op_runs; ++step) {
    // From the change on the base's steps repeat, each time behind the last.
    const int32_t repeats = std::max(step - kChangeStep, 0) / (kBaseSteps - kChangeStep);
    const int32_t base_step = step - repeats * (kBaseSteps - kChangeStep);
    const int64_t period_ns = generator.EndOf(kBaseSteps - 1) - generator.EndOf(kChangeStep - 1);
    SHARDSCOPE_RETURN_IF_ERROR(generator.AddStep(base_step, step, repeats * period_ns));
  }
  SHARDSCOPE_RETURN_IF_ERROR(recorder.value()->Flush());
  for (const auto& [source, dropped] : recorder.value()->Dropped()) {
    if (dropped > 0) return Status::Error(fmt::format("{} dropped {} records", source, dropped));
  }
  const double wall = Seconds(CLOCK_MONOTONIC);
  const double cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  SHARDSCOPE_RETURN_IF_ERROR(recorder.value()->Finish());
  fmt::print("{} {} {:.2f} {:.2f}\n", generator.op_runs(), recorder.value()->path(),
             Seconds(CLOCK_MONOTONIC) - wall, Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  return Status::Ok();
}

}  // namespace
}  // namespace shardscope

int main(int argc, char** argv) {
  shardscope::query::DeriveWhileFinishing(shardscope::analysis::MakeDeriver());
  std::vector<std::string> words(argv + 1, argv + argc);
  shardscope::Wanted wanted;
  const auto option = std::find(words.begin(), words.end(), "--slow-rank");
  if (option != words.end() && option + 1 != words.end()) {
    wanted.slow_rank = std::stoi(*(option + 1));
    words.erase(option, option + 2);
  }
  if (words.size() < 2 || words.size() > 4) {
    fmt::print(stderr,
               "usage: trace_generator FOLDER OP_RUNS [RANKS [OPS_A_STEP]] [--slow-rank N]\n");
    return 2;
  }
  wanted.folder = words[0];
  wanted.op_runs = std::stoll(words[1]);
  if (words.size() > 2) wanted.ranks = std::max(std::stoi(words[2]), 1);
  if (words.size() > 3) wanted.ops_a_step = std::stoul(words[3]);
  const shardscope::Status status = shardscope::Generate(wanted);
  if (status.ok()) return 0;
  fmt::print(stderr, "trace_generator: {}\n", status.message());
  return 1;
}
