// The input: one byte of flags, then edits of six bytes each: where (3), what (1), value (2).
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/folder.h"
#include "tests/fuzz/targets.h"
#include "trace/analysis/derived.h"
#include "trace/analysis/report/report.h"
#include "trace/base/check.h"
#include "trace/query/live_trace.h"
#include "trace/query/summary.h"
#include "trace/store/chunk_table.h"
#include "trace/store/finished_source.h"
#include "trace/store/row_io.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"
#include "trace/store/writer.h"

namespace shardscope::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPage = 4096;
constexpr int kSteps = 3;
constexpr int64_t kStart = 1'000'000'000'000;

enum Flags : uint8_t {
  kTwoFiles = 1,   // and a good trace of another process on another clock
  kLiveFile = 2,   // a live file whose writer died: it is finished first
  kWholeFile = 4,  // the rest of the input is the file itself
  kSql = 8,        // also through the views
  kDerived = 16,   // a finished file with derived rows, which a report of it then shows, and chunks
};

struct PlannedOp {
  const char* kind;
  const char* category;
  const char* role;
};
constexpr std::array kOps = {PlannedOp{"all_gather", "communication", "all_gather"},
                             PlannedOp{"forward", "compute", "compute"},
                             PlannedOp{"backward", "compute", "compute"},
                             PlannedOp{"reduce_scatter", "communication", "reduce_scatter"},
                             PlannedOp{"optimizer", "optimizer", "compute"}};

class RowMaker {
 public:
  RowMaker(store::Database* database, int64_t rank) : database_(database), rank_(rank) {}

  void AddAll(const std::string& host) {
    Add(schema::MetaRow{"host", host});
    Add(schema::MetaRow{"pid", std::to_string(rank_)});
    Add(schema::MetaRow{"name", "fuzz"});
    Add(schema::ConfigRow{"transport", "emulated"});
    Add(schema::CapabilityRow{schema::CapabilityId(1), "engine", "on", "", 0});
    Add(schema::ClockRow{schema::ClockId(1), kStart + rank_ * kStart, kStart * 1000, 50});
    Add(schema::RankRow{rank_, host, rank_, "cpu"});
    Add(schema::StringRow{schema::StringId(1), "kernel"});
    Add(schema::ScheduleRow{schema::ScheduleId(1), "fuzz", "schedule", 1000});
    for (size_t i = 0; i < kOps.size(); ++i) AddPlan(static_cast<int64_t>(i), kOps[i]);
    for (int step = 0; step < kSteps; ++step) AddStep(step);
    Add(schema::MarkerRow{schema::MarkerId(1), Now(), 1, "change", "prefetch.backward", "pre",
                          "none"});
    Add(schema::FlowRow{schema::FlowId(1), schema::SpanId(1), schema::SpanId(2),
                        schema::StringId(1)});
  }

 private:
  template <typename Row>
  void Add(const Row& row) {
    SHARDSCOPE_CHECK(inserter_.Insert(row, database_).ok());
  }
  int64_t Now() const { return kStart + rank_ * kStart + tick_ * 1'000'000; }

  void AddPlan(int64_t i, const PlannedOp& op) {
    schema::PlanOpRow row;
    row.id = schema::PlanOpId(i + 1);
    row.schedule = schema::ScheduleId(1);
    row.op = i;
    row.name = std::string("F m0 block0 ") + op.kind;
    row.kind = op.kind;
    row.category = op.category;
    row.phase = "forward";
    row.unit = "block0";
    row.stream = op.role;
    Add(row);
    Add(schema::TrackRow{schema::TrackId(i + 1), rank_, op.role, op.role, i});
    if (i > 0)
      Add(schema::PlanEdgeRow{schema::PlanEdgeId(i), schema::PlanOpId(i + 1), schema::PlanOpId(i),
                              "event"});
  }

  void AddStep(int step) {
    const int64_t start_ns = Now();
    for (size_t i = 0; i < kOps.size(); ++i) AddRun(step, static_cast<int64_t>(i), kOps[i]);
    schema::StepRow row;
    row.id = schema::StepId(step + 1);
    row.rank = rank_;
    row.step = step;
    row.schedule = schema::ScheduleId(1);
    row.start_ns = start_ns;
    row.end_ns = Now();
    row.tokens = 64;
    row.loss = 2.5;
    Add(row);
  }

  void AddRun(int step, int64_t op, const PlannedOp& planned) {
    schema::OpRunRow run;
    const int64_t id = ++next_id_;
    run.id = schema::OpRunId(id);
    run.plan_op = schema::PlanOpId(op + 1);
    run.track = schema::TrackId(op + 1);
    run.rank = rank_;
    run.step = step;
    run.issued_ns = run.ready_ns = run.started_ns = Now();
    ++tick_;
    run.ended_ns = Now();
    run.blocking_plan_op = op == 0 ? schema::PlanOpId::None() : schema::PlanOpId(op);
    run.blocking_kind = op == 0 ? "none" : "event";
    Add(run);
    Add(schema::SpanRow{schema::SpanId(id), run.track, run.started_ns, 1000, schema::StringId(1),
                        "host", run.id});
    Add(schema::CounterRow{schema::CounterId(id), run.track, run.started_ns, schema::StringId(1),
                           0.5});
    Add(schema::MemoryEventRow{schema::MemoryEventId(id), rank_, "cpu", run.issued_ns,
                               run.started_ns, op % 2 == 0 ? 4096 : -4096, "gradient", "block0",
                               run.plan_op, step});
    if (std::strcmp(planned.category, "communication") != 0) return;
    schema::CollectiveRow collective;
    collective.id = schema::CollectiveId(id);
    collective.op_run = run.id;
    collective.rank = rank_;
    collective.step = step;
    collective.communicator = "default";
    collective.sequence = next_sequence_++;
    collective.kind = planned.kind;
    collective.payload_bytes = collective.wire_bytes = 4096;
    collective.dtype = "fp32";
    collective.group_size = 2;
    collective.transport = "emulated";
    collective.truth = "emulated";
    Add(collective);
  }

  store::Database* database_;
  store::RowInserter inserter_;  // uses database_
  const int64_t rank_;
  int64_t tick_ = 0;
  int64_t next_id_ = 0;
  int64_t next_sequence_ = 0;
};

using Bytes = std::vector<char>;

Bytes ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void WriteFile(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

struct GoodTraces {
  Bytes live;
  Bytes finished;
  Bytes derived;  // finished, with derived rows and chunks
  Bytes other;    // finished, of another process
};

void WriteLive(const std::string& path, int64_t rank, const std::string& host) {
  Result<store::Database> database = store::Database::Open(path, store::Database::Mode::kCreate);
  SHARDSCOPE_CHECK(database.ok() && store::CreateLiveSchema(&*database).ok());
  RowMaker(&*database, rank).AddAll(host);
}

GoodTraces MakeGoodTraces(const std::string& folder) {
  GoodTraces traces;
  WriteLive(folder + "/trace-a-1.live.db", 0, "a");
  WriteLive(folder + "/trace-b-2.live.db", 1, "b");
  traces.live = ReadFile(folder + "/trace-a-1.live.db");
  SHARDSCOPE_CHECK(store::FindRun(folder).ok());  // finishes both
  traces.finished = ReadFile(folder + "/trace-a-1.db");
  traces.other = ReadFile(folder + "/trace-b-2.db");
  query::DeriveWhileFinishing(analysis::MakeDeriver());
  std::filesystem::remove(folder + "/trace-a-1.db");
  std::filesystem::remove(folder + "/trace-b-2.db");
  WriteLive(folder + "/trace-a-1.live.db", 0, "a");
  SHARDSCOPE_CHECK(query::ReadSummary(folder).value() != nullptr);
  SHARDSCOPE_CHECK(store::AddRowChunks(folder + "/trace-a-1.db", 0).ok());
  traces.derived = ReadFile(folder + "/trace-a-1.db");
  SHARDSCOPE_CHECK(!traces.finished.empty() && !traces.other.empty());
  return traces;
}

void Edit(Input edits, Bytes* file) {
  for (; edits.size() >= 6 && !file->empty(); edits = edits.subspan(6)) {
    const size_t at = (edits[0] | edits[1] << 8 | edits[2] << 16) % file->size();
    const size_t page = at / kPage * kPage;
    const size_t in_page = std::min(kPage, file->size() - page);
    switch (edits[3] % 6) {
      case 0:
        (*file)[at] = static_cast<char>(edits[4]);
        break;
      case 1:
        for (size_t i = 0; i < 8 && at + i < file->size(); ++i) {
          (*file)[at + i] = static_cast<char>(edits[4 + (i > 0 ? 1 : 0)]);
        }
        break;
      case 2:
        file->resize(at);
        break;
      case 3: {  // one page twice
        const size_t from = (edits[4] | edits[5] << 8) * kPage % file->size() / kPage * kPage;
        std::memmove(file->data() + page, file->data() + from,
                     std::min(in_page, file->size() - from));
        break;
      }
      case 4:
        std::memset(file->data() + page, edits[4], in_page);
        break;
      default:
        (*file)[at] = static_cast<char>((*file)[at] ^ (1 << edits[4] % 8));
        break;
    }
  }
}

// All rows as the app reads those of a large file.
void ReadAsLarge(const std::string& path) {
  const auto source = store::FinishedSource::OpenFile(path);
  if (!source.ok()) return;
  store::RowBatch batch;
  do {
    const Status read = (*source)->ReadNext(&batch);
    if (!read.ok()) return;
  } while (!store::IsEmpty(batch));
}

void OpenAndReport(const std::string& folder, bool sql) {
  ReadAsLarge(folder + "/trace-a-1.db");
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(folder);
  if (!snapshot.ok()) {
    SHARDSCOPE_CHECK(snapshot.message().find("trace-a-1") != std::string::npos);
    return;
  }
  PrintReports(**snapshot);
  const Result<query::SnapshotPtr> summary = query::ReadSummary(folder);
  if (summary.ok() && *summary != nullptr) PrintReports(**summary);
  const auto second_step =
      [](const query::Snapshot& known) -> std::optional<std::vector<query::TimeRange>> {
    const int64_t middle_ns = known.start_ns + (known.end_ns - known.start_ns) / 2;
    return std::vector<query::TimeRange>{{middle_ns, middle_ns}};
  };
  const Result<query::SnapshotPtr> some = query::ReadSummaryAround(folder, second_step, 0);
  if (some.ok() && *some != nullptr) PrintReports(**some);
  if (!sql) return;
  const Result<store::RunFiles> run = store::FindRun(folder);
  if (!run.ok()) return;
  Result<store::Database> database = store::OpenRunDatabase(run.value());
  if (!database.ok()) return;
  for (const char* view : {"v_op_run", "v_step", "v_collective", "v_memory_peak", "v_dropped"}) {
    (void)database->QueryInteger(std::string("SELECT count(*) FROM ") + view);
  }
}

}  // namespace

void FuzzTrace(Input input) {
  static const Folder folder("fuzz");
  static const GoodTraces good = MakeGoodTraces(folder.path);
  if (input.empty()) return;
  const uint8_t flags = input[0];
  input = input.subspan(1);
  for (const auto& entry : fs::directory_iterator(folder.path)) fs::remove_all(entry.path());
  Bytes file = (flags & kLiveFile) != 0  ? good.live
               : (flags & kDerived) != 0 ? good.derived
                                         : good.finished;
  if ((flags & kWholeFile) != 0) {
    file.assign(input.begin(), input.end());
  } else {
    Edit(input, &file);
  }
  const std::string end = (flags & kLiveFile) != 0 ? ".live.db" : ".db";
  WriteFile(folder.path + "/trace-a-1" + end, file);
  if ((flags & kTwoFiles) != 0) WriteFile(folder.path + "/trace-b-2.db", good.other);
  OpenAndReport(folder.path, (flags & kSql) != 0);
}

}  // namespace shardscope::fuzz
