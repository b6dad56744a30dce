#include "trace/store/finished_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/check.h"
#include "trace/base/words.h"
#include "trace/store/held_memory.h"
#include "trace/store/row_chunk.h"
#include "trace/store/row_io.h"
#include "trace/store/source.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

constexpr size_t kRowsAtATime = 100'000;     // of the large tables each
constexpr size_t kRowsAhead = kRowsOfChunk;  // likewise, by ReadNext()

constexpr size_t kMostTracks = 1 << 16;  // each is searched on its own
constexpr int64_t kFirstVersion = 4;     // older files have no step_range

// That a file can have.
size_t MostRowsOf(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes / kLeastRowBytes;
}

// What a file of so many bytes has beside its chunks. A damaged one may claim more than it has.
int64_t WithoutChunks(int64_t bytes, Database* database) {
  return bytes - std::min(BytesOfChunks(database), bytes / 2);
}

// Rows of a table that a statement gives, one after the other.
class Cursor {
 public:
  static Result<std::unique_ptr<Cursor>> Open(const Table& table, const std::string& condition,
                                              TraceReader* reader) {
    SHARDSCOPE_ASSIGN_OR_RETURN(Statement select, reader->database().Prepare(fmt::format(
                                                      "{} {}", table.select, condition)));
    const std::string& path = reader->database().path();
    return std::unique_ptr<Cursor>(new Cursor(table, std::move(select), path, MostRowsOf(path)));
  }
  Statement& statement() { return select_; }

  // Appends the next row. false at the end.
  Result<bool> Read(RowBatch* batch) {
    const Result<bool> row = select_.Step();
    if (!row.ok() || !row.value()) return row;
    if (rows_left_ == 0) return RepeatsItself(path_, table_.name);
    --rows_left_;
    ColumnSource columns(select_);
    batch->At(table_.index).Read(&columns);
    return true;
  }

  Status ReadAll(RowBatch* batch) {
    for (bool more = true; more;) {
      SHARDSCOPE_ASSIGN_OR_RETURN(more, Read(batch));
    }
    return Status::Ok();
  }

 private:
  Cursor(const Table& table, Statement select, std::string path, size_t most_rows)
      : table_(table), select_(std::move(select)), path_(std::move(path)), rows_left_(most_rows) {}

  const Table& table_;
  Statement select_;
  std::string path_;
  size_t rows_left_;
};

// Where the rows of these steps lie, among some of the steps beside them. Without a first or last
// step (INT64_MIN, INT64_MAX) all rows in front or behind.
Result<IdRange> IdsOfSteps(const Table& table, const RowLimits& limits, Database* database) {
  const bool is_step = table.index == kTable<schema::StepRow>.index;
  const std::string id = is_step ? "step_row" : table.name;
  const std::string of_steps = fmt::format("FROM step_range WHERE step BETWEEN {} AND {}",
                                           limits.first_step, limits.last_step);
  IdRange ids;
  if (limits.first_step != INT64_MIN) {
    SHARDSCOPE_ASSIGN_OR_RETURN(
        ids.first, database->QueryInteger(fmt::format(
                       "SELECT coalesce(min(first_{0}), {2}) {1} AND first_{0} <= last_{0}", id,
                       of_steps, INT64_MAX)));
  }
  if (limits.last_step != INT64_MAX) {
    SHARDSCOPE_ASSIGN_OR_RETURN(
        ids.last, database->QueryInteger(fmt::format("SELECT coalesce(max(last_{}), {}) {}", id,
                                                     INT64_MIN, of_steps)));
  }
  return ids;
}

// nullopt: ids do not tell where the rows within limits lie.
Result<std::optional<IdRange>> IdsWithin(const Table& table, const RowLimits& limits,
                                         Database* database) {
  if (table.part == schema::PartRule::kMemory) {
    return std::optional(IdRange{limits.first_memory_event, limits.last_memory_event});
  }
  if (table.part != schema::PartRule::kSteps) return std::optional<IdRange>();
  SHARDSCOPE_ASSIGN_OR_RETURN(const IdRange ids, IdsOfSteps(table, limits, database));
  return std::optional(ids);
}

std::string ConditionOf(const IdRange& ids) {
  return fmt::format("id BETWEEN {} AND {}", ids.first, ids.last);
}

// Empty: all rows of this table.
std::string ConditionOf(const Table& table, const RowLimits& limits,
                        const std::optional<IdRange>& ids) {
  using schema::PartRule;
  const std::string began =
      fmt::format("start_ns >= {} AND start_ns < {}", limits.from_ns, limits.to_ns);
  switch (table.part) {
    case PartRule::kSteps:
      return ConditionOf(*ids);
    case PartRule::kMemory:
      return fmt::format("executed_ns >= {} AND issued_ns < {} AND {}", limits.from_ns,
                         limits.to_ns, ConditionOf(*ids));
    case PartRule::kSpans:
      return began;
    case PartRule::kBesideSpans:
      return fmt::format(
          "id >= (SELECT min(id) FROM span WHERE {0}) AND id <= (SELECT max(id) FROM span WHERE "
          "{0})",
          began);
    // All of it is asked for, or few rows: what limits them looks at each.
    case PartRule::kAll:
    case PartRule::kBetweenSteps:
    case PartRule::kTime:
    case PartRule::kMarkers:
    case PartRule::kSegments:
      return "";
  }
  return "";
}

Status Start(const Table& table, const std::optional<RowLimits>& limits,
             const std::optional<IdRange>& ids, TraceReader* reader,
             std::unique_ptr<Cursor>* cursor) {
  const std::string condition = limits ? ConditionOf(table, *limits, ids) : "";
  const std::string where = condition.empty() ? "" : fmt::format("WHERE {}", condition);
  SHARDSCOPE_ASSIGN_OR_RETURN(*cursor,
                              Cursor::Open(table, fmt::format("{} ORDER BY id", where), reader));
  return Status::Ok();
}

// Reads at most *left rows. Lets a cursor go at its end: a statement that is stepped again would
// begin anew.
Status Drain(std::unique_ptr<Cursor>* cursor, size_t* left, RowBatch* batch) {
  for (; *cursor != nullptr && *left > 0; --*left) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, (*cursor)->Read(batch));
    if (more) continue;
    cursor->reset();
    return Status::Ok();
  }
  return Status::Ok();
}

// Rows of a hot table, all or those within limits: packed ones, where the file has them and ids
// tell where they lie, or those of a statement.
struct HotRows {
  const Table* table = nullptr;
  std::optional<RowLimits> limits;
  std::unique_ptr<RowChunks> chunks;
  std::unique_ptr<Cursor> cursor;
};

void KeepMemoryWithin(const RowLimits& limits, size_t first,
                      std::vector<schema::MemoryEventRow>* rows) {
  const auto is_beyond = [&limits](const schema::MemoryEventRow& row) {
    return row.executed_ns < limits.from_ns || row.issued_ns >= limits.to_ns;
  };
  const auto begin = rows->begin() + static_cast<std::ptrdiff_t>(first);
  rows->erase(std::remove_if(begin, rows->end(), is_beyond), rows->end());
}

Status StartHot(const Table& table, const std::optional<RowLimits>& limits, TraceReader* reader,
                HotRows* rows) {
  rows->table = &table;
  rows->limits = limits;
  std::optional<IdRange> ids = IdRange();
  if (limits) {
    SHARDSCOPE_ASSIGN_OR_RETURN(ids, IdsWithin(table, *limits, &reader->database()));
  }
  if (ids) {
    SHARDSCOPE_ASSIGN_OR_RETURN(rows->chunks, RowChunks::Open(table, &reader->database(), *ids));
    if (rows->chunks != nullptr) return Status::Ok();
  }
  return Start(table, limits, ids, reader, &rows->cursor);
}

// As Drain(), but a chunk is read whole.
Status DrainHot(HotRows* rows, size_t* left, RowBatch* batch) {
  AnyRows& target = batch->At(rows->table->index);
  while (rows->chunks != nullptr && *left > 0) {
    const size_t before = target.size();
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, rows->chunks->Read(&target));
    if (!more) rows->chunks.reset();
    if (rows->limits && rows->table->part == schema::PartRule::kMemory) {
      KeepMemoryWithin(*rows->limits, before, &batch->Get<schema::MemoryEventRow>());
    }
    *left -= std::min(*left, target.size() - before);
  }
  return Drain(&rows->cursor, left, batch);
}

// Calls visit() for every row that `select` gives, until it returns false.
template <typename Visit>
Status ForEachRow(const std::string& path, const char* table, Statement* select,
                  const Visit& visit) {
  for (size_t left = MostRowsOf(path);; --left) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) return Status::Ok();
    if (left == 0) return RepeatsItself(path, table);
    if (!visit()) return Status::Ok();
  }
}

// Of memory events: what those in front of `limits` sum up to, and the ids between which those lie
// that are within.
struct MemoryBefore {
  HeldMemory held;
  int64_t first_within = INT64_MAX;
  int64_t last_within = INT64_MIN;

  void Add(const schema::MemoryEventRow& event, const RowLimits& limits) {
    if (event.executed_ns < limits.from_ns) {
      held.Add({event.rank, event.device, event.category, event.unit, event.bytes});
    } else if (event.issued_ns < limits.to_ns) {
      first_within = std::min(first_within, event.id.value());
      last_within = std::max(last_within, event.id.value());
    }
  }
};

// Has a connection of its own, so that any thread may call it.
Result<MemoryBefore> ReadMemoryBefore(const std::string& path, const IdRange& ids,
                                      const RowLimits& limits, const std::atomic<bool>& stopping) {
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
  const RowLimits all_times{.from_ns = INT64_MIN,
                            .to_ns = INT64_MAX,
                            .first_memory_event = ids.first,
                            .last_memory_event = ids.last};
  HotRows rows;
  SHARDSCOPE_RETURN_IF_ERROR(StartHot(kTable<schema::MemoryEventRow>, all_times, &reader, &rows));
  MemoryBefore found;
  RowBatch batch;
  const std::vector<schema::MemoryEventRow>& events = batch.Get<schema::MemoryEventRow>();
  do {
    Clear(&batch);
    size_t left = kRowsAhead;
    SHARDSCOPE_RETURN_IF_ERROR(DrainHot(&rows, &left, &batch));
    for (const schema::MemoryEventRow& event : events) found.Add(event, limits);
  } while (!events.empty() && !stopping);
  return found;
}

}  // namespace

struct FinishedSource::Memory {
  std::unique_ptr<Cursor> rows;
};

// The op runs of the file. Has a connection of its own, so that any one thread may use it.
class FinishedSource::OpRuns {
 public:
  static Result<std::unique_ptr<OpRuns>> Open(const std::string& path,
                                              const std::optional<RowLimits>& limits) {
    SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
    auto op_runs = std::make_unique<OpRuns>();
    op_runs->reader_ = std::move(reader);
    SHARDSCOPE_RETURN_IF_ERROR(
        StartHot(kTable<schema::OpRunRow>, limits, &op_runs->reader_, &op_runs->rows_));
    return op_runs;
  }

  Result<RowBatch> Read(RowBatch room) {
    Clear(&room);
    size_t left = kRowsAhead;
    room.Get<schema::OpRunRow>().reserve(left + (rows_.chunks ? kMostRowsOfChunk : 0));
    SHARDSCOPE_RETURN_IF_ERROR(DrainHot(&rows_, &left, &room));
    return room;
  }

 private:
  TraceReader reader_;
  HotRows rows_;
};

// The other hot tables that Snapshots show, one after the other.
class FinishedSource::Others {
 public:
  static Result<std::unique_ptr<Others>> Open(const std::string& path,
                                              const std::optional<RowLimits>& limits) {
    SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
    auto others = std::make_unique<Others>();
    others->reader_ = std::move(reader);
    const RowBatch tables;
    for (size_t i = 0; i < schema::kNumTables; ++i) {
      const Table& table = tables.At(i).table();
      if (!table.hot || table.sql_only || i == kTable<schema::OpRunRow>.index) continue;
      SHARDSCOPE_RETURN_IF_ERROR(
          StartHot(table, limits, &others->reader_, &others->tables_.emplace_back()));
    }
    return others;
  }

  Result<RowBatch> Read(RowBatch room) {
    Clear(&room);
    size_t left = kRowsAhead;
    for (HotRows& rows : tables_) SHARDSCOPE_RETURN_IF_ERROR(DrainHot(&rows, &left, &room));
    return room;
  }

 private:
  TraceReader reader_;
  std::vector<HotRows> tables_;
};

FinishedSource::~FinishedSource() {
  if (next_op_runs_.valid()) next_op_runs_.wait();
  if (next_others_.valid()) next_others_.wait();
}

Result<std::unique_ptr<FinishedSource>> FinishedSource::Open(const TraceFile& file,
                                                             int64_t least_bytes) {
  const std::string path = file.FinishedPath();
  if (!Exists(path) || DatabaseBytes(path) < least_bytes) return std::unique_ptr<FinishedSource>();
  SHARDSCOPE_ASSIGN_OR_RETURN(std::unique_ptr<FinishedSource> source, OpenFile(path));
  Database& database = source->reader_.database();
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_bounded, WasBounded(&database));
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t version, database.QueryInteger("PRAGMA user_version"));
  if (is_bounded || version < kFirstVersion) {
    return std::unique_ptr<FinishedSource>();
  }
  return source;
}

Result<std::unique_ptr<FinishedSource>> FinishedSource::OpenFile(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
  std::unique_ptr<FinishedSource> source(new FinishedSource());
  source->reader_ = std::move(reader);
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string state, source->reader_.State());
  source->cut_ = state == Name(words::TraceState::kCut);
  return source;
}

int64_t FinishedSource::BytesOfRows() {
  const int64_t bytes = DatabaseBytes(reader_.database().path());
  return bytes < kLargeBytes ? bytes : WithoutChunks(bytes, &reader_.database());
}

// Small files are not opened: they have no chunks.
int64_t FinishedSource::BytesOfRows(const TraceFile& file) {
  const int64_t bytes = DatabaseBytes(file.FinishedPath());
  if (bytes < kLargeBytes) return bytes;
  Result<TraceReader> reader = TraceReader::Open(file.FinishedPath());
  return reader.ok() ? WithoutChunks(bytes, &reader->database()) : bytes;
}

Result<StepBounds> FinishedSource::Bounds() {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement select, reader_.database().Prepare(fmt::format(
                            "SELECT min(step), max(step), min(start_ns), max(end_ns) FROM step "
                            "WHERE step BETWEEN -1 AND {} HAVING count(*) > 0",
                            kMaxStep)));
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (!row) return StepBounds{};
  return StepBounds{select.Integer(0), select.Integer(1), select.Integer(2), select.Integer(3)};
}

Status FinishedSource::ReadSmallTables(RowBatch* batch) {
  for (size_t i = 0; i < schema::kNumTables; ++i) {
    const Table& table = batch->At(i).table();
    if (table.hot || table.derived || table.sql_only) continue;
    SHARDSCOPE_RETURN_IF_ERROR(reader_.ReadAll(&batch->At(i)).status());
  }
  return Status::Ok();
}

// One search a track: an index on nothing but the track's own order.
Result<std::vector<schema::TrackId>> FinishedSource::TracksOfSpans() {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement next,
      reader_.database().Prepare("SELECT track FROM span WHERE track > ? ORDER BY track LIMIT 1"));
  std::vector<schema::TrackId> tracks;
  while (true) {
    next.Bind(1, tracks.empty() ? INT64_MIN : tracks.back().value());
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, next.Step());
    if (!row) return tracks;
    if (tracks.size() == kMostTracks) return RepeatsItself(reader_.database().path(), "span");
    tracks.push_back(schema::TrackId(next.Integer(0)));
    next.Reset();
  }
}

Status FinishedSource::ReadRowsOf(const Table& table, int64_t first_step, int64_t last_step,
                                  RowBatch* batch) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const IdRange range,
      IdsOfSteps(table, {.first_step = first_step, .last_step = last_step}, &reader_.database()));
  const std::string ids = ConditionOf(range);
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const auto rows, Cursor::Open(table,
                                    fmt::format("WHERE {} AND step BETWEEN {} AND {} ORDER BY id",
                                                ids, first_step, last_step),
                                    &reader_));
  return rows->ReadAll(batch);
}

Status FinishedSource::ReadEarliest(RowBatch* batch) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const auto memory,
      Cursor::Open(
          kTable<schema::MemoryEventRow>,
          fmt::format("WHERE id = (SELECT id FROM (SELECT id, issued_ns FROM memory_event "
                      "ORDER BY id LIMIT {}) WHERE issued_ns >= 0 ORDER BY issued_ns LIMIT 1)",
                      kRowsAtATime),
          &reader_));
  SHARDSCOPE_RETURN_IF_ERROR(memory->ReadAll(batch));
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const auto spans,
      Cursor::Open(kTable<schema::SpanRow>,
                   "WHERE track = ? AND start_ns >= 0 ORDER BY start_ns, id LIMIT 1", &reader_));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<schema::TrackId> tracks, TracksOfSpans());
  for (const schema::TrackId track : tracks) {
    spans->statement().Bind(1, track.value());
    SHARDSCOPE_RETURN_IF_ERROR(spans->ReadAll(batch));
    spans->statement().Reset();
  }
  return Status::Ok();
}

Status FinishedSource::ReadStepRows(int64_t first_step, int64_t last_step, RowBatch* batch) {
  return ReadRowsOf(kTable<schema::StepRow>, first_step, last_step, batch);
}

Status FinishedSource::ReadSteps(int64_t first_step, int64_t last_step, RowBatch* batch) {
  SHARDSCOPE_RETURN_IF_ERROR(ReadStepRows(first_step, last_step, batch));
  SHARDSCOPE_RETURN_IF_ERROR(ReadRowsOf(kTable<schema::OpRunRow>, first_step, last_step, batch));
  return ReadRowsOf(kTable<schema::CollectiveRow>, first_step, last_step, batch);
}

Result<int64_t> FinishedSource::LastStepOfPart(int64_t first_step) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement ranges,
      reader_.database().Prepare(
          "SELECT step, last_step_row - first_step_row + last_op_run - first_op_run + 2 "
          "FROM step_range WHERE step >= ? ORDER BY step"));
  ranges.Bind(1, first_step);
  int64_t last_step = first_step;
  for (size_t rows = 0; rows < kRowsAtATime;) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, ranges.Step());
    if (!row) break;
    last_step = ranges.Integer(0);
    rows += static_cast<size_t>(std::clamp<int64_t>(ranges.Integer(1), 1, kRowsAtATime));
  }
  return last_step;
}

Result<bool> FinishedSource::HasGpuRows() {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const int64_t count,
      reader_.database().QueryInteger(
          "SELECT EXISTS(SELECT 1 FROM gpu_work) OR EXISTS(SELECT 1 FROM memory_segment)"));
  return count > 0;
}

Result<bool> FinishedSource::HasSpans() {
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t count,
                              reader_.database().QueryInteger("SELECT EXISTS(SELECT 1 FROM span)"));
  return count > 0;
}

Result<bool> FinishedSource::HasDerived() {
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t count, reader_.database().QueryInteger(
                                                       "SELECT EXISTS(SELECT 1 FROM step_part)"));
  return count > 0;
}

Result<int64_t> FinishedSource::NumRanks() {
  return reader_.database().QueryInteger("SELECT count(*) FROM rank");
}

Result<int64_t> FinishedSource::NumOpRuns() {
  return reader_.database().QueryInteger("SELECT count(*) FROM op_run");
}

Status FinishedSource::ForEachMemoryChange(const std::function<void(const MemoryChange&)>& visit) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement select, reader_.database().Prepare("SELECT rank, issued_ns, executed_ns, bytes, "
                                                   "step, category FROM memory_event ORDER BY id"));
  return ForEachRow(reader_.database().path(), "memory_event", &select, [&] {
    visit({select.Integer(0), select.Integer(1), select.Integer(2), select.Integer(3),
           select.Integer(4), select.Text(5)});
    return true;
  });
}

Status FinishedSource::ReadMemoryHeld(const std::atomic<bool>& stopping, RowBatch* batch) {
  SHARDSCOPE_CHECK(limits_.has_value());
  const std::string& path = reader_.database().path();
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t middle,
                              reader_.database().QueryInteger(
                                  "SELECT (SELECT coalesce(min(id), 0) / 2 FROM memory_event) + "
                                  "(SELECT coalesce(max(id), 0) / 2 FROM memory_event)"));
  const auto start = [&](const IdRange& ids) {
    return std::async(std::launch::async,
                      [&, ids] { return ReadMemoryBefore(path, ids, *limits_, stopping); });
  };
  auto first = start({.last = middle});
  Result<MemoryBefore> second = start({.first = middle + 1}).get();
  Result<MemoryBefore> all = first.get();
  if (!all.ok()) return all.status();
  if (!second.ok()) return second.status();
  all->held.Add(second->held);
  limits_->first_memory_event = std::min(all->first_within, second->first_within);
  limits_->last_memory_event = std::max(all->last_within, second->last_within);
  all->held.TakeRows(limits_->from_ns, &batch->Get<schema::MemoryEventRow>());
  return Status::Ok();
}

Status FinishedSource::ReadCounters(RowBatch* batch) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto rows,
                              Cursor::Open(kTable<schema::CounterRow>, "ORDER BY id", &reader_));
  return rows->ReadAll(batch);
}

Status FinishedSource::ReadDerived(const std::function<void(RowBatch*)>& take,
                                   const std::atomic<bool>* stopping) {
  constexpr size_t kAtATime = 4096;
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(reader_.database().path()));
  RowBatch batch;
  for (size_t i = 0; i < schema::kNumTables; ++i) {
    const Table& table = batch.At(i).table();
    if (!table.derived || table.sql_only || i == kTable<schema::StepRangeRow>.index) continue;
    SHARDSCOPE_ASSIGN_OR_RETURN(auto rows, Cursor::Open(table, "", &reader));
    while (rows != nullptr && (stopping == nullptr || !*stopping)) {
      size_t left = kAtATime;
      SHARDSCOPE_RETURN_IF_ERROR(Drain(&rows, &left, &batch));
      take(&batch);
    }
  }
  return Status::Ok();
}

Result<RowBatch> FinishedSource::ReadMemory() {
  if (memory_ == nullptr) {
    memory_ = std::make_unique<Memory>();
    SHARDSCOPE_RETURN_IF_ERROR(
        Start(kTable<schema::MemoryEventRow>, {}, {}, &reader_, &memory_->rows));
  }
  RowBatch batch;
  size_t left = kRowsAtATime;
  SHARDSCOPE_RETURN_IF_ERROR(Drain(&memory_->rows, &left, &batch));
  return batch;
}

// Whether at most `most_rows` spans of these tracks begin in the range.
Result<bool> FinishedSource::AreFewSpans(const std::vector<schema::TrackId>& tracks,
                                         int64_t from_ns, int64_t to_ns, size_t most_rows) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement count, reader_.database().Prepare("SELECT count(*) FROM (SELECT 1 FROM span WHERE "
                                                  "track = ? AND start_ns BETWEEN ? AND ? LIMIT "
                                                  "?)"));
  auto left = static_cast<int64_t>(most_rows);
  for (const schema::TrackId track : tracks) {
    count.Bind(1, track.value());
    count.Bind(2, from_ns);
    count.Bind(3, to_ns);
    count.Bind(4, left + 1);
    SHARDSCOPE_RETURN_IF_ERROR(count.Step().status());
    left -= count.Integer(0);
    if (left < 0) return false;
    count.Reset();
  }
  return true;
}

Result<bool> FinishedSource::ReadSpans(int64_t from_ns, int64_t to_ns, size_t most_rows,
                                       RowBatch* batch) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<schema::TrackId> tracks, TracksOfSpans());
  const Result<bool> few = AreFewSpans(tracks, from_ns, to_ns, most_rows);
  if (!few.ok() || !few.value()) return few;
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const auto spans,
      Cursor::Open(kTable<schema::SpanRow>,
                   "WHERE track = ? AND start_ns BETWEEN ? AND ? ORDER BY start_ns, id", &reader_));
  for (const schema::TrackId track : tracks) {
    spans->statement().Bind(1, track.value());
    spans->statement().Bind(2, from_ns);
    spans->statement().Bind(3, to_ns);
    SHARDSCOPE_RETURN_IF_ERROR(spans->ReadAll(batch));
    spans->statement().Reset();
  }
  std::vector<schema::SpanRow>& rows = batch->Get<schema::SpanRow>();
  std::sort(rows.begin(), rows.end(),
            [](const schema::SpanRow& a, const schema::SpanRow& b) { return a.id < b.id; });
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto work,
                              Cursor::Open(kTable<schema::GpuWorkRow>, "WHERE id = ?", &reader_));
  for (const schema::SpanRow& span : rows) {
    work->statement().Bind(1, span.id.value());
    SHARDSCOPE_RETURN_IF_ERROR(work->ReadAll(batch));
    work->statement().Reset();
  }
  return true;
}

void FinishedSource::ReadAhead(RowBatch room) {
  RowBatch room_of_ops;
  std::swap(room.Get<schema::OpRunRow>(), room_of_ops.Get<schema::OpRunRow>());
  next_op_runs_ = std::async(std::launch::async, [this, room = std::move(room_of_ops)]() mutable {
    return op_runs_->Read(std::move(room));
  });
  next_others_ = std::async(std::launch::async, [this, room = std::move(room)]() mutable {
    return others_->Read(std::move(room));
  });
}

Status FinishedSource::ReadNext(RowBatch* batch) {
  if (op_runs_ == nullptr) {
    SHARDSCOPE_ASSIGN_OR_RETURN(auto op_runs, OpRuns::Open(reader_.database().path(), limits_));
    SHARDSCOPE_ASSIGN_OR_RETURN(auto others, Others::Open(reader_.database().path(), limits_));
    op_runs_ = std::move(op_runs);
    others_ = std::move(others);
  }
  if (!next_op_runs_.valid()) ReadAhead({});
  Result<RowBatch> op_runs = next_op_runs_.get();
  Result<RowBatch> others = next_others_.get();
  if (!op_runs.ok()) return op_runs.status();
  if (!others.ok()) return others.status();
  RowBatch room = std::exchange(*batch, std::move(others).value());
  std::swap(batch->Get<schema::OpRunRow>(), op_runs->Get<schema::OpRunRow>());
  ReadAhead(std::move(room));
  return Status::Ok();
}

}  // namespace shardscope::store
