#include "trace/store/finisher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "trace/schema/columns.h"
#include "trace/schema/ddl.h"
#include "trace/store/catalogue.h"
#include "trace/store/chunk_table.h"
#include "trace/store/database.h"
#include "trace/store/reader.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

constexpr int64_t kNoStep = std::numeric_limits<int32_t>::min();

Derive& DeriveOfProcess() {
  static Derive derive;
  return derive;
}

FinishProgress& ProgressOfProcess() {
  static FinishProgress progress;
  return progress;
}

// One table of all segments (writer.h, Note: Segments). A plain SELECT * lets SQLite copy rows as
// they are, which is several times faster; only a trace that was bounded needs more.
std::string SelectRows(const schema::TableInfo& table, size_t num_segments, bool bounded) {
  // The newest segment has all rare rows.
  if (!table.hot || !bounded) {
    return fmt::format("SELECT * FROM segment{}.{}", num_segments - 1, table.name);
  }
  std::string select;
  for (size_t i = 0; i < num_segments; ++i) {
    select += fmt::format("{}SELECT * FROM segment{}.{} WHERE 1", i == 0 ? "" : " UNION ALL ", i,
                          table.name);
    if (table.per_step) {
      select += fmt::format(
          " AND (step < -1 OR step > coalesce((SELECT CAST(value AS INTEGER) FROM segment{0}.meta "
          "WHERE key = '{1}'), {2}))",
          num_segments - 1, kDroppedThroughStep, kNoStep);
    }
    if (i > 0) {
      select += fmt::format(" AND id > coalesce((SELECT max(id) FROM segment{}.{}), 0)", i - 1,
                            table.name);
    }
  }
  return select;
}

// Rows of a damaged file may share their text: a small one must not fill the disk. A finished file
// is at most about half as large again as the live one, for its indexes.
int64_t MostPages(const std::vector<std::string>& segments) {
  uintmax_t bytes = 0;
  for (const std::string& segment : segments) {
    for (const char* const part : {"", "-wal"}) {
      std::error_code error;
      const uintmax_t size = std::filesystem::file_size(segment + part, error);
      if (!error) bytes += size;
    }
  }
  return 1000 + static_cast<int64_t>(3 * bytes / kPageBytes);
}

// About how many rows it has: ids count up.
int64_t RowsOf(const schema::TableInfo& table, size_t num_segments, Database* target) {
  if (!table.hot) return 1;
  const Result<int64_t> last = target->QueryInteger(
      fmt::format("SELECT coalesce(max(id), 0) FROM segment{}.{}", num_segments - 1, table.name));
  return last.ok() ? std::max<int64_t>(*last, 1) : 1;
}

// Per step, the ids of its rows in one table.
template <typename RowId>
Status FindRanges(const char* table, Database* database,
                  std::map<int64_t, schema::StepRangeRow>* ranges,
                  RowId schema::StepRangeRow::*first, RowId schema::StepRangeRow::*last) {
  Result<Statement> select = database->Prepare(fmt::format("SELECT step, id FROM {}", table));
  if (!select.ok()) return select.status();
  schema::StepRangeRow* range = nullptr;  // of the row before: most rows have the same step
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) return Status::Ok();
    const int64_t step = select->Integer(0);
    const RowId id(select->Integer(1));
    if (range == nullptr || range->step != step) {
      const schema::StepRangeRow none{.step = step,
                                      .first_step_row = {},
                                      .last_step_row = schema::StepId::None(),
                                      .first_op_run = {},
                                      .last_op_run = schema::OpRunId::None(),
                                      .first_collective = {},
                                      .last_collective = schema::CollectiveId::None()};
      range = &ranges->try_emplace(step, none).first->second;
    }
    if (range->*last < range->*first) range->*first = id;
    range->*first = std::min(range->*first, id);
    range->*last = std::max(range->*last, id);
  }
}

Status InsertStepRanges(Database* database) {
  using Row = schema::StepRangeRow;
  std::map<int64_t, Row> ranges;
  SHARDSCOPE_RETURN_IF_ERROR(
      FindRanges("step", database, &ranges, &Row::first_step_row, &Row::last_step_row));
  SHARDSCOPE_RETURN_IF_ERROR(
      FindRanges("op_run", database, &ranges, &Row::first_op_run, &Row::last_op_run));
  SHARDSCOPE_RETURN_IF_ERROR(
      FindRanges("collective", database, &ranges, &Row::first_collective, &Row::last_collective));
  RowBatch batch;
  for (const auto& [step, range] : ranges) batch.Get<Row>().push_back(range);
  return InsertBatch(batch, database);
}

Status CopyTables(const std::vector<std::string>& segments, Database* target) {
  for (size_t i = 0; i < segments.size(); ++i) {
    Result<Statement> attach = target->Prepare(fmt::format("ATTACH ? AS segment{}", i));
    if (!attach.ok()) return attach.status();
    const std::string uri = ReadOnlyUri(segments[i]);
    attach->Bind(1, std::string_view(uri));
    SHARDSCOPE_RETURN_IF_ERROR(attach->Run());
  }
  SHARDSCOPE_RETURN_IF_ERROR(
      target->Execute(fmt::format("PRAGMA main.max_page_count={}", MostPages(segments))));
  SHARDSCOPE_RETURN_IF_ERROR(target->Execute("BEGIN"));
  const Result<int64_t> version = target->QueryInteger("PRAGMA segment0.user_version");
  if (!version.ok()) return version.status();
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const int64_t dropped,
      target->QueryInteger(fmt::format("SELECT count(*) FROM segment{}.meta WHERE key = '{}'",
                                       segments.size() - 1, kDroppedThroughStep)));
  const bool bounded = segments.size() > 1 || dropped > 0;
  const std::vector<schema::TableInfo>& tables = schema::Tables();
  std::vector<double> rows;
  double all_rows = 0;
  double copied_rows = 0;
  for (const schema::TableInfo& table : tables) {
    const bool there = table.since <= *version;
    rows.push_back(there ? static_cast<double>(RowsOf(table, segments.size(), target)) : 0);
    all_rows += rows.back();
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    SHARDSCOPE_RETURN_IF_ERROR(target->Execute(schema::CreateTables()[i]));
    if (tables[i].since > *version) continue;  // an older program was killed while it wrote this
    SHARDSCOPE_RETURN_IF_ERROR(
        target->Execute(fmt::format("INSERT INTO main.{} {}", tables[i].name,
                                    SelectRows(tables[i], segments.size(), bounded))));
    copied_rows += rows[i];
    TellFinishProgress(static_cast<int>(kCopiedPercent * copied_rows / all_rows));
  }
  return Status::Ok();
}

// A trace without what is derived is still a whole one: what could not be made is left out.
void AddDerived(const std::string& path) {
  if (!DeriveOfProcess()) return;
  const Result<RowBatch> rows = DeriveOfProcess()(path);
  if (!rows.ok() || IsEmpty(*rows)) return;
  Result<Database> database = Database::Open(path, Database::Mode::kReadWrite);
  if (!database.ok()) return;
  const Status begun = database->Execute("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF");
  if (begun.ok()) (void)InsertBatch(*rows, &*database);
}

// Checks the segments before anything of them is copied. Returns the state that the newest gives.
Result<std::string> CheckSegments(const TraceFile& file, const std::vector<int64_t>& segments) {
  std::string state;
  for (const int64_t segment : segments) {
    SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(file.LivePath(segment)));
    SHARDSCOPE_ASSIGN_OR_RETURN(state, reader.State());
  }
  return state;
}

}  // namespace

void SetDerive(Derive derive) { DeriveOfProcess() = std::move(derive); }

void SetFinishProgress(FinishProgress progress) { ProgressOfProcess() = std::move(progress); }

void TellFinishProgress(int percent) {
  if (ProgressOfProcess()) ProgressOfProcess()(percent);
}

// No journal: until the rename this file is not visible, and after a crash it is built anew.
Status ConfigureFinished(Database* database) {
  return database->Execute(
      fmt::format("PRAGMA page_size={}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
                  "PRAGMA trusted_schema=OFF; PRAGMA application_id={}; PRAGMA user_version={}",
                  kPageBytes, schema::kApplicationId, schema::kVersion));
}

Status CompleteFinished(words::TraceState state, Database* database) {
  for (const std::string& index : schema::CreateIndexes()) {
    SHARDSCOPE_RETURN_IF_ERROR(database->Execute(index));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CreateViews(ViewsOf::kFile, database));
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute(
      fmt::format("UPDATE meta SET value = '{}' WHERE key = 'state'", Name(state))));
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("COMMIT"));
  return InsertStepRanges(database);
}

Status PublishFinished(const std::string& temporary, const TraceFile& file, bool packs_rows) {
  AddDerived(temporary);
  Status status = packs_rows ? AddRowChunks(temporary) : Status::Ok();
  if (status.ok()) status = SyncPath(temporary, 0);
  if (status.ok() && std::rename(temporary.c_str(), file.FinishedPath().c_str()) != 0) {
    status = Status::Error(
        fmt::format("cannot rename {} to {}: {}", temporary, file.FinishedPath(), SystemError()));
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncPath(file.Folder(), O_DIRECTORY);
}

Status BuildFinished(const TraceFile& file, words::TraceState state, const RowBatch& rest) {
  const std::vector<int64_t> segments = LiveSegments(file);
  if (segments.empty() || segments.size() > kMaxSegments + 1) {
    return Status::Error(
        fmt::format("cannot finish {}: it has {} live files", file.stem, segments.size()));
  }
  std::vector<std::string> paths;
  for (const int64_t segment : segments) paths.push_back(file.LivePath(segment));
  const std::string temporary = file.UnfinishedPath();
  unlink(temporary.c_str());
  {
    Result<Database> target = Database::Open(temporary, Database::Mode::kCreate);
    if (!target.ok()) return target.status();
    Status copied = ConfigureFinished(&*target);
    if (copied.ok()) copied = CopyTables(paths, &*target);
    if (copied.ok()) copied = InsertRows(rest, &*target);
    if (copied.ok()) copied = CompleteFinished(state, &*target);
    if (!copied.ok()) {
      unlink(temporary.c_str());
      return copied;
    }
  }
  // With several segments it is bounded in size (record.max_bytes).
  SHARDSCOPE_RETURN_IF_ERROR(PublishFinished(temporary, file, segments.size() == 1));
  RemoveLive(file);
  return Status::Ok();
}

Status FinishIfAbandoned(const TraceFile& file) {
  if (LiveSegments(file).empty()) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceLock lock, TraceLock::TryTake(file));
  if (!lock.held()) return Status::Ok();
  Status status;
  const std::vector<int64_t> segments = LiveSegments(file);
  if (!segments.empty() && Exists(file.FinishedPath())) {
    RemoveLive(file);  // killed between the rename and the removal
  } else if (!segments.empty()) {
    const Result<std::string> state = CheckSegments(file, segments);
    const bool was_finishing = state.ok() && *state == Name(words::TraceState::kFinishing);
    status = state.ok() ? BuildFinished(file, was_finishing ? words::TraceState::kFinished
                                                            : words::TraceState::kCut)
                        : state.status();
  }
  lock.RemoveAndRelease();
  return status;
}

}  // namespace shardscope::store
