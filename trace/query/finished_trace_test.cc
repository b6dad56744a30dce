// A large finished trace is read another way than others: the rows must be the same.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "trace/query/finished_trace.h"
#include "trace/query/summary.h"
#include "trace/query/trace_test_util.h"
#include "trace/store/database.h"
#include "trace/store/finished_source.h"
#include "trace/store/finisher.h"
#include "trace/store/run_files.h"
#include "trace/store/trace_file.h"

namespace shardscope::query {
namespace {

constexpr int kRanks = 2;
constexpr int kSteps = 60;
constexpr int kOpsAStep = 6;
constexpr int64_t kStepNs = 10'000;

// What a rank's GPU did in a step: kernels on its stream, a wait of the stream, a range of its
// host.
constexpr int kKernelsAStep = 3;
struct GpuTracks {
  TrackId host;
  TrackId stream;
};

GpuTracks AddGpu(record::Recorder* recorder, int64_t rank) {
  GpuTracks tracks;
  tracks.host = recorder->Add(schema::TrackRow{{}, rank, "thread 1", "host", 0});
  tracks.stream =
      recorder->Add(schema::TrackRow{{}, rank, "GPU 0 context 1 stream 7", "compute", 1});
  schema::GpuStreamRow stream;
  stream.track = tracks.stream;
  stream.op_track = TrackId::None();
  stream.stream = 7;
  recorder->Add(stream);
  return tracks;
}

void RecordGpu(record::Recorder* recorder, const GpuTracks& tracks, int64_t step, int64_t from_ns) {
  record::GpuWorkRecord record;
  record.span.track = tracks.stream;
  record.span.duration_ns = 500;
  record.span.name_string = recorder->AddString("gemm");
  record.span.category = "compute";
  record.span.op_run = OpRunId::None();
  record.work.kind = "kernel";
  record.work.times = "measured";
  record.work.plan_op = PlanOpId::None();
  record.work.step = step;
  record.work.launch_track = tracks.host;
  record.work.launch_start_ns = from_ns;
  for (int64_t at = 0; at < kKernelsAStep; ++at) {
    record.span.start_ns = from_ns + at * 1'000;
    record.work.correlation = step * kKernelsAStep + at;
    recorder->Record(record);
  }
  schema::SpanRow range = record.span;
  range.track = tracks.host;
  range.start_ns = from_ns;
  range.category = "host";
  recorder->Record(range);
  schema::EventEdgeRow edge;
  edge.from_track = edge.to_track = tracks.stream;
  edge.recorded_ns = edge.waited_ns = from_ns;
  edge.to_correlation = step * kKernelsAStep;
  edge.from_plan_op = edge.to_plan_op = PlanOpId::None();
  edge.from_step = edge.from_correlation = -1;
  edge.to_step = step;
  recorder->Record(edge);
}

// Two ranks with two tracks each and a GPU; rank 1's second track ends its ops in another order
// than they began. Returns the path of the finished file.
std::string RecordTrace(const std::string& folder) {
  auto recorder = OpenRecorder(folder);
  const PlanOpId op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  const PlanOpId gather = AddPlanOp(recorder.get(), "AG block0", "all_gather", "communication");
  std::map<std::pair<int, int>, TrackId> tracks;
  std::map<int64_t, GpuTracks> gpus;
  for (int rank = 0; rank < kRanks; ++rank) {
    recorder->Add(schema::RankRow{rank, "host", 1, "cpu"});
    tracks[{rank, 0}] = recorder->Add(schema::TrackRow{{}, rank, "compute", "compute", 1});
    tracks[{rank, 1}] = recorder->Add(schema::TrackRow{{}, rank, "all_gather", "all_gather", 2});
    gpus[rank] = AddGpu(recorder.get(), rank);
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      const int64_t from_ns = 1'000'000 + step * kStepNs;
      for (int64_t at = 0; at < kOpsAStep; ++at) {
        const bool communication = at % 2 == 1;
        const int64_t start_ns = from_ns + at * 1'000;
        const int64_t length_ns = rank == 1 && at == 1 ? 4'500 : 900;
        record::OpRecord row =
            OpAt(communication ? gather : op, rank, step, start_ns, start_ns + length_ns);
        row.run.track = tracks.at({static_cast<int>(rank), communication ? 1 : 0});
        if (communication) {
          row.collective = {{},           {},   rank, step,   "shard", step * kOpsAStep + at,
                            "all_gather", 1000, 10,   "fp32", 2,       "shared_memory",
                            "measured"};
        }
        recorder->Record(row);
        recorder->Record(schema::MemoryEventRow{{},
                                                rank,
                                                "cpu",
                                                start_ns,
                                                start_ns,
                                                at % 2 == 0 ? 64 : -64,
                                                "activation",
                                                "",
                                                op,
                                                step});
      }
      RecordGpu(recorder.get(), gpus.at(rank), step, from_ns);
      recorder->Record(
          schema::StepRow{{}, rank, step, ScheduleId(1), from_ns, from_ns + kStepNs, 10, 2.5, 1.0});
    }
    EXPECT_TRUE(recorder->Flush().ok());
  }
  EXPECT_TRUE(recorder->Finish().ok());
  return recorder->path();
}

class FinishedTraceTest : public testing::Test {
 protected:
  void ChangeFile(const std::string& sql) const {
    auto database = store::Database::Open(path_, store::Database::Mode::kReadWrite);
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->Execute(sql).ok());
  }

  // Its first page has nothing that can be read.
  void DamageTable(const std::string& table) const {
    auto database = store::Database::Open(path_, store::Database::Mode::kReadWrite);
    ASSERT_TRUE(database.ok());
    const int64_t page = *database->QueryInteger(
        fmt::format("SELECT rootpage FROM sqlite_master WHERE name = '{}'", table));
    const int64_t page_bytes = *database->QueryInteger("PRAGMA page_size");
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((page - 1) * page_bytes);
    file << std::string(static_cast<size_t>(page_bytes), '\xff');
  }

  // For half of the rows: two thirds of these steps are loaded.
  int64_t MemoryForHalf(int64_t num_files = 1) const {
    const RunMemory needed =
        MemoryForRun(num_files * store::DatabaseBytes(path_), num_files * kRanks);
    return needed.by_rows / 2 + needed.by_rows / 100 + needed.by_ranks;
  }
  std::unique_ptr<LiveTrace> Open(const ReadLimits& limits = {}) {
    const Result<store::RunFiles> run = store::FindRun(folder_.path());
    EXPECT_TRUE(run.ok());
    auto trace = FinishedTrace::OpenLarge(
        run.value(), [this] { changed_ = true; }, limits, 1);
    EXPECT_TRUE(trace.ok() && trace.value() != nullptr);
    return std::move(trace).value();
  }
  SnapshotPtr Whole(const LiveTrace& trace) {
    while (!changed_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return trace.Latest();
  }

  TestFolder folder_;
  const std::string path_ = RecordTrace(folder_.path());
  std::atomic<bool> changed_{false};
};

TEST_F(FinishedTraceTest, FirstSomeWholeStepsThenEverythingInNewRows) {
  const std::unique_ptr<LiveTrace> trace = Open();
  const SnapshotPtr whole = Whole(*trace);
  ASSERT_TRUE(trace->status().ok());
  EXPECT_FALSE(whole->loading);

  auto source = store::FinishedSource::Open(store::TraceFileOf(path_), 1);
  ASSERT_TRUE(source.ok());
  store::RowBatch some;
  ASSERT_TRUE(source.value()->ReadSteps(50, 52, &some).ok());
  EXPECT_EQ(some.Get<schema::StepRow>().size(), size_t{3 * kRanks});
  for (const schema::StepRow& step : some.Get<schema::StepRow>()) {
    size_t count = 0;
    for (const schema::OpRunRow& run : some.Get<schema::OpRunRow>()) {
      count += run.rank == step.rank && run.step == step.step ? 1 : 0;
    }
    EXPECT_EQ(count, size_t{kOpsAStep});
  }
}

TEST_F(FinishedTraceTest, AWholeRunComesWithWhatItsFileKeepsOfItsSteps) {
  EXPECT_EQ(Whole(*Open())->derived, nullptr);
  ChangeFile("INSERT INTO step_part SELECT id, rank, step, 5, 4, 0, 3, 0, 0 FROM step");
  changed_ = false;
  const SnapshotPtr whole = Whole(*Open());
  ASSERT_NE(whole->derived, nullptr);
  EXPECT_EQ(whole->derived->step_parts.size(), size_t{kSteps * kRanks});
  EXPECT_EQ(whole->summed_op_runs, std::nullopt);  // all rows are here, too
  EXPECT_EQ(whole->ranks.at(0).op_runs.size(), size_t{kSteps * kOpsAStep});
  DamageTable("stall");  // all rows stay as they are
  changed_ = false;
  const SnapshotPtr without = Whole(*Open());
  EXPECT_EQ(without->derived, nullptr);
  EXPECT_EQ(without->ranks.at(0).op_runs.size(), size_t{kSteps * kOpsAStep});
  changed_ = false;
  const SnapshotPtr part = Whole(*Open({.memory_bytes = MemoryForHalf()}));
  ASSERT_TRUE(part->part);
  EXPECT_EQ(part->derived, nullptr);
}

// Here a second file has all rows once more.
TEST_F(FinishedTraceTest, SeveralFilesAreOneRunFromTheFirstSnapshotOn) {
  const SnapshotPtr one = Whole(*Open());
  std::filesystem::copy(path_, folder_.path() + "/trace-second.db");
  SnapshotPtr first;
  SnapshotPtr whole;
  for (int attempt = 0; attempt < 100 && (first == nullptr || !first->loading); ++attempt) {
    changed_ = false;
    const std::unique_ptr<LiveTrace> trace = Open();
    first = trace->Latest();
    whole = Whole(*trace);
    ASSERT_TRUE(trace->status().ok());
  }
  ASSERT_TRUE(first->loading);
  EXPECT_EQ(first->processes.size(), 2u);
  for (const RankRows& rank : first->ranks) {
    ASSERT_FALSE(rank.op_runs.empty());
    EXPECT_EQ(rank.op_runs.size() % size_t{2 * kOpsAStep}, 0u);
    std::set<OpRunId> ids;
    for (const OpRun& run : rank.op_runs) ids.insert(run.id);
    EXPECT_EQ(ids.size(), rank.op_runs.size());
  }
  ASSERT_EQ(whole->ranks.size(), one->ranks.size());
  for (size_t i = 0; i < one->ranks.size(); ++i) {
    EXPECT_EQ(whole->ranks[i].op_runs.size(), 2 * one->ranks[i].op_runs.size());
    EXPECT_EQ(whole->ranks[i].gpu_work.size(), 2 * one->ranks[i].gpu_work.size());
  }
  EXPECT_LT(first->ranks.front().op_runs.size(), whole->ranks.front().op_runs.size());
}

TEST_F(FinishedTraceTest, LoadingSnapshotHasTheNewestStepsAndTheWholeExtent) {
  // The rest may have been read before the first look.
  SnapshotPtr first;
  SnapshotPtr whole;
  for (int attempt = 0; attempt < 100 && (first == nullptr || !first->loading); ++attempt) {
    changed_ = false;
    const std::unique_ptr<LiveTrace> trace = Open();
    first = trace->Latest();
    whole = Whole(*trace);
  }
  EXPECT_TRUE(first->loading);
  EXPECT_GT(first->generation, whole->generation);  // rows are replaced
  EXPECT_EQ(first->start_ns, whole->start_ns);
  EXPECT_EQ(first->end_ns, whole->end_ns);
  EXPECT_EQ(first->ranks[0].steps.back().step, kSteps - 1);
  EXPECT_LT(first->ranks[0].op_runs.size(), whole->ranks[0].op_runs.size());
  for (const RankRows& rows : first->ranks) {
    EXPECT_EQ(rows.gpu_work.size(), rows.steps.size() * kKernelsAStep);
    EXPECT_EQ(rows.spans.size(), rows.steps.size());
    EXPECT_EQ(first->names[static_cast<size_t>(rows.gpu_work[0].name)], "gemm");
    for (const GpuWork& work : rows.gpu_work) {
      EXPECT_GE(work.start_ns, rows.steps[0].start_ns);
    }
  }
}

TEST_F(FinishedTraceTest, SpansOfARangeComeWithTheirGpuWorkOrNotAtAll) {
  auto source = store::FinishedSource::Open(store::TraceFileOf(path_), 1);
  ASSERT_TRUE(source.ok());
  const int64_t from_ns = 1'000'000 + 50 * kStepNs;
  const int64_t to_ns = from_ns + 2 * kStepNs - 1;
  constexpr size_t kSpans = size_t{kRanks} * 2 * (kKernelsAStep + 1);
  store::RowBatch none;
  const Result<bool> too_many = source.value()->ReadSpans(from_ns, to_ns, kSpans - 1, &none);
  ASSERT_TRUE(too_many.ok()) << too_many.message();
  EXPECT_FALSE(too_many.value());
  EXPECT_TRUE(store::IsEmpty(none));
  store::RowBatch some;
  const Result<bool> read = source.value()->ReadSpans(from_ns, to_ns, kSpans, &some);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_TRUE(read.value());
  EXPECT_EQ(some.Get<schema::SpanRow>().size(), kSpans);
  ASSERT_EQ(some.Get<schema::GpuWorkRow>().size(), size_t{kRanks} * 2 * kKernelsAStep);
  for (const schema::GpuWorkRow& work : some.Get<schema::GpuWorkRow>()) {
    EXPECT_TRUE(work.step == 50 || work.step == 51) << work.step;
  }
}

TEST_F(FinishedTraceTest, RowsAreThoseOfTheCommonWay) {
  const std::unique_ptr<LiveTrace> trace = Open();
  const SnapshotPtr whole = Whole(*trace);
  const auto expected = ReadSnapshot(folder_.path());
  ASSERT_TRUE(expected.ok());
  const Snapshot& common = *expected.value();
  EXPECT_EQ(whole->state, common.state);
  EXPECT_EQ(whole->start_ns, common.start_ns);
  EXPECT_EQ(whole->end_ns, common.end_ns);
  EXPECT_EQ(whole->plan_ops.size(), common.plan_ops.size());
  ASSERT_EQ(whole->ranks.size(), common.ranks.size());
  for (size_t rank = 0; rank < common.ranks.size(); ++rank) {
    const RankRows& a = whole->ranks[rank];
    const RankRows& b = common.ranks[rank];
    ASSERT_EQ(a.op_runs.size(), size_t{kSteps * kOpsAStep});
    ASSERT_EQ(a.op_runs.size(), b.op_runs.size());
    for (size_t at = 0; at < a.op_runs.size(); ++at) {
      EXPECT_EQ(a.op_runs[at].id, b.op_runs[at].id);
      EXPECT_EQ(a.op_runs[at].ended_ns, b.op_runs[at].ended_ns);
      EXPECT_EQ(a.op_runs[at].track, b.op_runs[at].track);
    }
    EXPECT_EQ(a.steps.size(), b.steps.size());
    ASSERT_EQ(a.collectives.size(), b.collectives.size());
    EXPECT_EQ(a.collectives.back().op_run, b.collectives.back().op_run);
    ASSERT_EQ(a.memory.size(), b.memory.size());
    ASSERT_EQ(a.gpu_work.size(), size_t{kSteps * kKernelsAStep});
    ASSERT_EQ(a.gpu_work.size(), b.gpu_work.size());
    for (size_t at = 0; at < a.gpu_work.size(); ++at) {
      EXPECT_EQ(a.gpu_work[at].id, b.gpu_work[at].id);
      EXPECT_EQ(a.gpu_work[at].start_ns, b.gpu_work[at].start_ns);
    }
    EXPECT_EQ(a.spans.size(), size_t{kSteps});
    ASSERT_EQ(a.event_edges.size(), size_t{kSteps});
    ASSERT_EQ(a.event_edges.size(), b.event_edges.size());
    EXPECT_EQ(a.event_edges.back().step, kSteps - 1);
    EXPECT_EQ(a.event_edges.back().to_correlation, (kSteps - 1) * kKernelsAStep);
    int64_t live = 0;
    for (const MemoryEvent& event : a.memory) live += event.bytes;
    EXPECT_EQ(live, 0);
  }
}

// The rows of the whole run whose steps are in the part.
TEST_F(FinishedTraceTest, ARunThatDoesNotFitIsThereInPart) {
  const SnapshotPtr whole = Whole(*Open());
  for (const int64_t around : {0, 30, kSteps - 1}) {
    changed_ = false;
    const SnapshotPtr some = Whole(*Open({MemoryForHalf(), around}));
    ASSERT_TRUE(some->part) << around;
    const RunPart part = *some->part;
    EXPECT_TRUE(part.Contains(around));
    EXPECT_EQ(part.last_step - part.first_step + 1, kSteps / 3);
    EXPECT_EQ(part.first_of_run, 0);
    EXPECT_EQ(part.last_of_run, kSteps - 1);
    EXPECT_EQ(part.start_ns, whole->start_ns);
    EXPECT_EQ(part.end_ns, whole->end_ns);
    EXPECT_EQ(some->RunStartNs(), whole->RunStartNs());
    EXPECT_EQ(part.step_starts->size(), size_t{kSteps});
    for (const int32_t step : {0, 7, kSteps - 1}) {
      const int64_t start_ns = 1'000'000 + step * kStepNs;
      EXPECT_EQ(part.StartOf(step), start_ns);
      EXPECT_EQ(part.StepAt(start_ns), step);
      EXPECT_EQ(part.StepAt(start_ns + kStepNs - 1), step);
    }
    EXPECT_EQ(part.StepAt(999'999), std::nullopt);
    EXPECT_EQ(part.StartOf(kSteps), std::nullopt);
    const int64_t from_ns = 1'000'000 + part.first_step * kStepNs;
    EXPECT_EQ(some->start_ns, from_ns);
    EXPECT_EQ(some->end_ns, 1'000'000 + (part.last_step + 1) * kStepNs);
    ASSERT_EQ(some->ranks.size(), whole->ranks.size());
    for (size_t i = 0; i < some->ranks.size(); ++i) {
      const RankRows& rows = some->ranks[i];
      EXPECT_EQ(rows.steps.size(), size_t{kSteps / 3});
      EXPECT_EQ(rows.steps[0].step, part.first_step);
      std::vector<OpRunId> expected;
      for (const OpRun& run : whole->ranks[i].op_runs) {
        if (part.Contains(run.step)) expected.push_back(run.id);
      }
      std::vector<OpRunId> found;
      for (const OpRun& run : rows.op_runs) found.push_back(run.id);
      EXPECT_EQ(found, expected);
      EXPECT_EQ(rows.collectives.size(), size_t{kSteps / 3 * kOpsAStep / 2});
      EXPECT_EQ(rows.gpu_work.size(), size_t{kSteps / 3 * kKernelsAStep});
      EXPECT_EQ(rows.gpu_work[0].start_ns, from_ns);
      EXPECT_EQ(rows.spans.size(), size_t{kSteps / 3});
      EXPECT_EQ(rows.memory.size(), size_t{kSteps / 3 * kOpsAStep});
    }
  }
}

TEST_F(FinishedTraceTest, APartBeginsWithWhatWasHeldAndChangedBefore) {
  ChangeFile(
      "UPDATE memory_event SET bytes = 2 * bytes WHERE bytes > 0 AND "
      "rank = 1 AND step < 38;"
      "INSERT INTO config VALUES('prefetch.forward', '1');"
      "INSERT INTO marker VALUES"
      "(1, 1200000, 20, 'change', 'prefetch.forward', '1', '2'),"
      "(2, 1450000, 45, 'change', 'prefetch.forward', '2', '3'),"
      "(3, 1599000, 59, 'error', '', '', 'out of memory')");
  const SnapshotPtr some = Whole(*Open({MemoryForHalf(), 48}));
  ASSERT_TRUE(some->part);
  ASSERT_EQ(some->part->first_step, 38);
  EXPECT_EQ(some->config.at("prefetch.forward"), "2");
  ASSERT_EQ(some->markers.size(), 2u);
  EXPECT_EQ(some->markers[0].new_value, "3");
  EXPECT_EQ(some->markers[1].kind, "error");
  EXPECT_EQ(some->markers[1].time_ns, some->end_ns);
  EXPECT_EQ(some->ranks[0].memory.size(), size_t{kSteps / 3 * kOpsAStep});
  ASSERT_EQ(some->ranks[1].memory.size(), size_t{kSteps / 3 * kOpsAStep + 1});
  const MemoryEvent& held = some->ranks[1].memory[0];
  EXPECT_EQ(held.bytes, 38 * 64 * kOpsAStep / 2);
  EXPECT_EQ(held.executed_ns, some->start_ns);
  EXPECT_EQ(held.category, MemoryCategory::kActivation);
}

// It is when the first row of the whole run is, not the first step.
TEST_F(FinishedTraceTest, TheStartOfARunIsKnownWhateverPartOfItIsLoaded) {
  ChangeFile(
      "UPDATE memory_event SET issued_ns = 700000, executed_ns = 800000 "
      "WHERE id = (SELECT min(id) FROM memory_event);"
      "UPDATE span SET start_ns = 650000 WHERE id = (SELECT max(id) FROM "
      "span WHERE category = 'host')");
  const SnapshotPtr whole = Whole(*Open());
  EXPECT_EQ(whole->start_ns, 650'000);
  for (const int64_t around : {0, kSteps - 1}) {
    changed_ = false;
    const SnapshotPtr some = Whole(*Open({MemoryForHalf(), around}));
    ASSERT_TRUE(some->part);
    EXPECT_EQ(some->RunStartNs(), whole->start_ns);
    EXPECT_EQ(some->RunEndNs(), whole->end_ns);
  }
}

TEST_F(FinishedTraceTest, WhatFitsIsReadAtOnce) {
  const SnapshotPtr whole = ReadSnapshotWithin(folder_.path(), {}, {}).value();
  EXPECT_FALSE(whole->part);
  EXPECT_EQ(whole->ranks[0].steps.size(), size_t{kSteps});
  const SnapshotPtr some = ReadSnapshotWithin(folder_.path(), {1, 20}, {}).value();
  EXPECT_FALSE(some->loading);
  ASSERT_TRUE(some->part);
  EXPECT_TRUE(some->part->Contains(20));
  EXPECT_EQ(some->ranks[0].steps.size(), size_t{16});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(ReadSnapshotWithin(folder_.path(), {1, 20}, stop.get_token()).status().message(),
            folder_.path() + ": reading was stopped");
  EXPECT_FALSE(ReadSnapshotWithin(folder_.path() + "/gone", {}, {}).ok());
}

// Whenever it comes, the answer is what was read or that it was stopped.
TEST_F(FinishedTraceTest, ReadingMayBeStoppedAtAnyTime) {
  for (int at = 0; at < 20; ++at) {
    std::stop_source stop;
    const std::jthread stopper([&stop, at] {
      std::this_thread::sleep_for(std::chrono::microseconds(500 * at));
      stop.request_stop();
    });
    const Result<SnapshotPtr> read = ReadSnapshotWithin(folder_.path(), {1, 20}, stop.get_token());
    if (read.ok()) {
      EXPECT_EQ((*read)->ranks[0].steps.size(), size_t{16});
    } else {
      EXPECT_EQ(read.status().message(), folder_.path() + ": reading was stopped");
    }
  }
}

TEST_F(FinishedTraceTest, SeveralFilesThatDoNotFitAreThereInPart) {
  std::filesystem::copy(path_, folder_.path() + "/trace-second.db");
  const SnapshotPtr some = Whole(*Open({MemoryForHalf(2), 30}));
  ASSERT_TRUE(some->part);
  for (const RankRows& rows : some->ranks) {
    EXPECT_EQ(rows.op_runs.size(), size_t{2 * kSteps / 3 * kOpsAStep});
    EXPECT_EQ(rows.gpu_work.size(), size_t{2 * kSteps / 3 * kKernelsAStep});
    int64_t live = 0;
    for (const MemoryEvent& event : rows.memory) live += event.bytes;
    EXPECT_EQ(live, 0);
    for (const OpRun& run : rows.op_runs) EXPECT_TRUE(some->part->Contains(run.step));
  }
}

// What is in no finished step, and what lies beside all steps.
TEST(PartFilter, ThePartAtAnEndOfTheRunHasWhatIsBeyondIt) {
  const auto kept = [](int64_t first, int64_t last) {
    PartFilter filter({first, last, 0, 9, 1}, {.from_ns = 1000 + first * 100,
                                               .to_ns = 1100 + last * 100,
                                               .first_end_ns = 1100 + first * 100,
                                               .last_start_ns = 1000 + last * 100});
    store::RowBatch batch;
    for (const int64_t step : {-1, 0, 5, 9, 10}) {
      schema::OpRunRow run;
      run.step = step;
      batch.Get<schema::OpRunRow>().push_back(run);
    }
    for (const int64_t time_ns : {500, 1000, 1500, 1900, 2500}) {
      schema::MemoryEventRow event;
      event.issued_ns = event.executed_ns = time_ns;
      event.bytes = 8;
      batch.Get<schema::MemoryEventRow>().push_back(event);
    }
    filter.Keep(&batch);
    std::pair<std::vector<int64_t>, std::vector<int64_t>> rows;
    for (const auto& run : batch.Get<schema::OpRunRow>()) rows.first.push_back(run.step);
    for (const auto& event : batch.Get<schema::MemoryEventRow>())
      rows.second.push_back(event.executed_ns);
    return rows;
  };
  using Rows = std::vector<int64_t>;
  EXPECT_EQ(kept(0, 4), std::pair(Rows({-1, 0}), Rows({500, 1000})));
  EXPECT_EQ(kept(5, 6), std::pair(Rows({5}), Rows({1500, 1500})));  // the first: what was held
  EXPECT_EQ(kept(8, 9), std::pair(Rows({9, 10}), Rows({1800, 1900, 2500})));
}

// Files are read side by side, some tables ahead of others; the configuration comes with each
// batch.
TEST(PartFilter, KernelsWaitForTheirSpansAndChangesStay) {
  PartFilter filter({3, 4, 0, 9, 1}, {1300, 1500, 1400, 1400});
  const auto keep = [&filter](const std::vector<int64_t>& work,
                              const std::vector<std::pair<int64_t, int64_t>>& spans) {
    store::RowBatch batch;
    for (const int64_t id : work) {
      schema::GpuWorkRow row;
      row.id = schema::SpanId(id);
      batch.Get<schema::GpuWorkRow>().push_back(row);
    }
    for (const auto& [id, start_ns] : spans) {
      schema::SpanRow row;
      row.id = schema::SpanId(id);
      row.start_ns = start_ns;
      batch.Get<schema::SpanRow>().push_back(row);
    }
    batch.Get<schema::ConfigRow>().push_back({"prefetch.forward", "1"});
    if (spans.empty()) {
      batch.Get<schema::MarkerRow>().push_back(
          {{}, 1200, 2, "change", "prefetch.forward", "1", "2"});
    }
    filter.Keep(&batch);
    EXPECT_EQ(batch.Get<schema::ConfigRow>().back().value, "2");
    std::vector<int64_t> ids;
    for (const auto& row : batch.Get<schema::GpuWorkRow>()) ids.push_back(row.id.value());
    return ids;
  };
  constexpr int64_t kOther = store::kIdsPerFile;
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(keep({5, 6, 7, kOther + 5}, {}), Ids());
  EXPECT_EQ(keep({}, {{5, 1300}, {6, 1500}}), Ids({5}));
  EXPECT_EQ(keep({kOther + 4}, {{kOther + 4, 1200}, {kOther + 5, 1400}}), Ids({kOther + 5}));
  EXPECT_EQ(keep({8, 9}, {{8, 1499}}), Ids({8}));  // 7 has no span
  EXPECT_TRUE(filter.TakeRest().Get<schema::GpuWorkRow>().empty());
}

TEST(PartThatFits, IsAroundTheStepAndWithinTheRun) {
  const RunMemory needed{1000, 50};
  EXPECT_FALSE(PartThatFits(0, 99, 50, needed, 1050));
  EXPECT_TRUE(PartThatFits(0, 99, 50, needed, 1049));
  const auto part = PartThatFits(10, 109, 50, needed, 350);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->first_step, 40);
  EXPECT_EQ(part->last_step, 59);
  EXPECT_EQ(part->needed_bytes, 1050);
  EXPECT_EQ(PartThatFits(10, 109, 12, needed, 350)->first_step, 10);
  EXPECT_EQ(PartThatFits(10, 109, 109, needed, 350)->last_step, 109);
  for (const int64_t memory : {1, 40}) {  // not even for the ranks
    const auto least = PartThatFits(0, 99, 40, {INT64_MAX / 2, 50}, memory);
    EXPECT_EQ(least->first_step, 32);
    EXPECT_EQ(least->last_step, 47);
  }
  EXPECT_FALSE(PartThatFits(0, 15, 0, needed, 1));  // there is little to leave out
}

// No snapshot takes such steps, so they are not what to begin with either.
TEST_F(FinishedTraceTest, StepsThatCannotBeDoNotMoveWhatIsShownFirst) {
  ChangeFile(
      "INSERT INTO step VALUES(100000, 0, 9223372036854775807, 1, 5, 6, 0, 0, 0),"
      "(100001, 0, -9223372036854775807, 1, 5, 6, 0, 0, 0),"
      "(100002, 0, 2147483647, 1, 5, 6, 0, 0, 0),"
      "(100003, 0, -2, 1, 5, 6, 0, 0, 0)");
  auto source = store::FinishedSource::Open(store::TraceFileOf(path_), 1);
  ASSERT_TRUE(source.ok());
  const Result<store::StepBounds> bounds = source.value()->Bounds();
  ASSERT_TRUE(bounds.ok());
  EXPECT_EQ(bounds->first_step, 0);
  EXPECT_EQ(bounds->last_step, kSteps - 1);
}

TEST_F(FinishedTraceTest, SmallTracesAreNotForIt) {
  const auto source = store::FinishedSource::Open(store::TraceFileOf(path_));
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source.value(), nullptr);
}

// A long run's trace takes seconds to finish: whoever waits is told how far it is.
TEST(Finishing, TellsAscendingPercents) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path());
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  for (int i = 0; i < 100; ++i) recorder->Record(OpAt(plan_op, 0, i, 1000 + i, 1001 + i));
  std::vector<int> percents;
  store::SetFinishProgress([&percents](int percent) { percents.push_back(percent); });
  const Status finished = recorder->Finish();
  store::SetFinishProgress(nullptr);
  ASSERT_TRUE(finished.ok()) << finished.message();
  ASSERT_GT(percents.size(), 10u);  // tables
  EXPECT_TRUE(std::is_sorted(percents.begin(), percents.end()));
  EXPECT_GE(percents.front(), 0);
  EXPECT_EQ(percents.back(), store::kCopiedPercent);  // nothing is derived here
}

}  // namespace
}  // namespace shardscope::query
