#include "trace/store/finished_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "trace/store/source.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

constexpr size_t kRowsAtATime = 100'000;  // of the large tables each

constexpr size_t kLeastRowBytes = 4;     // what a row takes of its file
constexpr size_t kMostTracks = 1 << 16;  // each is searched on its own
constexpr int64_t kFirstVersion = 4;     // older files have no step_range

// Pages of a damaged file may point at one another: then rows or tracks come without end.
Status Repeats(const std::string& path, const char* table) {
  return Status::Error(
      fmt::format("{} is damaged: its table {} repeats itself; copy it again", path, table));
}

// Rows of a statement, one after the other.
template <typename Row>
class Cursor {
 public:
  static Result<Cursor> Open(TraceReader* reader, const std::string& condition) {
    SHARDSCOPE_ASSIGN_OR_RETURN(
        Statement select,
        reader->database().Prepare(fmt::format("{} {}", schema::TableOf<Row>::kSelect, condition)));
    const std::string& path = reader->database().path();
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    return Cursor(std::move(select), path, error ? 0 : bytes / kLeastRowBytes);
  }
  Statement& statement() { return select_; }

  // false at the end.
  Result<bool> Next() {
    const Result<bool> row = select_.Step();
    if (!row.ok() || !row.value()) return row;
    if (rows_left_ == 0) return Repeats(path_, schema::TableOf<Row>::kName);
    --rows_left_;
    row_ = ReadRow<Row>(select_);
    return true;
  }
  const Row& row() const { return row_; }

 private:
  Cursor(Statement select, std::string path, size_t most_rows)
      : select_(std::move(select)), path_(std::move(path)), rows_left_(most_rows) {}

  Statement select_;
  std::string path_;
  size_t rows_left_;
  Row row_;
};

template <typename Row>
Status ReadInto(Cursor<Row>* cursor, RowBatch* batch) {
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, cursor->Next());
    if (!more) return Status::Ok();
    batch->Get<Row>().push_back(cursor->row());
  }
}

template <typename Row>
Status Start(TraceReader* reader, std::unique_ptr<Cursor<Row>>* cursor) {
  SHARDSCOPE_ASSIGN_OR_RETURN(auto opened, Cursor<Row>::Open(reader, "ORDER BY id"));
  *cursor = std::make_unique<Cursor<Row>>(std::move(opened));
  return Status::Ok();
}

// Lets a cursor go at its end: a statement that is stepped again would begin anew.
template <typename Row>
Status Drain(std::unique_ptr<Cursor<Row>>* cursor, size_t* left, RowBatch* batch) {
  while (*cursor != nullptr && *left > 0) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, (*cursor)->Next());
    if (!more) {
      cursor->reset();
      return Status::Ok();
    }
    batch->Get<Row>().push_back((*cursor)->row());
    --*left;
  }
  return Status::Ok();
}

// Tables that ReadSmallTables() leaves to the others.
template <typename Row>
constexpr bool kIsLarge =
    schema::TableOf<Row>::kHot || schema::TableOf<Row>::kDerived || schema::TableOf<Row>::kSqlOnly;

// Tables that are read beside the op runs.
template <typename Row>
constexpr bool kIsOther = !schema::TableOf<Row>::kSqlOnly && !std::is_same_v<Row, schema::OpRunRow>;

template <typename Row>
using CursorPointer = std::unique_ptr<Cursor<Row>>;

}  // namespace

struct FinishedSource::Memory {
  std::unique_ptr<Cursor<schema::MemoryEventRow>> rows;
};

// The op runs of the file. Has a connection of its own, so that any one thread may use it.
class FinishedSource::OpRuns {
 public:
  static Result<std::unique_ptr<OpRuns>> Open(const std::string& path) {
    SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
    auto op_runs = std::make_unique<OpRuns>();
    op_runs->reader_ = std::move(reader);
    SHARDSCOPE_RETURN_IF_ERROR(Start(&op_runs->reader_, &op_runs->rows_));
    return op_runs;
  }

  Result<RowBatch> Read() {
    RowBatch batch;
    size_t left = kRowsAtATime;
    batch.Get<schema::OpRunRow>().reserve(left);
    SHARDSCOPE_RETURN_IF_ERROR(Drain(&rows_, &left, &batch));
    return batch;
  }

 private:
  TraceReader reader_;
  std::unique_ptr<Cursor<schema::OpRunRow>> rows_;
};

// The other hot tables that Snapshots show, one after the other.
class FinishedSource::Others {
 public:
  static Result<std::unique_ptr<Others>> Open(const std::string& path) {
    SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
    auto others = std::make_unique<Others>();
    others->reader_ = std::move(reader);
    SHARDSCOPE_RETURN_IF_ERROR(
        others->ForEach([&](auto* cursor) { return Start(&others->reader_, cursor); }));
    return others;
  }

  Result<RowBatch> Read() {
    RowBatch batch;
    size_t left = kRowsAtATime;
    SHARDSCOPE_RETURN_IF_ERROR(ForEach([&](auto* cursor) { return Drain(cursor, &left, &batch); }));
    return batch;
  }

 private:
  // Calls visit(&cursor) for one table after the other, until there is an error.
  template <typename Visit>
  Status ForEach(const Visit& visit) {
    Status status;
    schema::ForEachType(schema::HotRows(), [&]<typename Row>() {
      if constexpr (kIsOther<Row>) {
        if (status.ok()) status = visit(&std::get<CursorPointer<Row>>(cursors_));
      }
    });
    return status;
  }

  TraceReader reader_;
  schema::Each<std::tuple, CursorPointer, schema::HotRows> cursors_;
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
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const int64_t bounded,
      database.QueryInteger(
          fmt::format("SELECT count(*) FROM meta WHERE key = '{}'", kDroppedThroughStep)));
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t version, database.QueryInteger("PRAGMA user_version"));
  if (bounded > 0 || version < kFirstVersion) {
    return std::unique_ptr<FinishedSource>();
  }
  return source;
}

Result<std::unique_ptr<FinishedSource>> FinishedSource::OpenFile(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
  std::unique_ptr<FinishedSource> source(new FinishedSource());
  source->reader_ = std::move(reader);
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const std::string state,
      source->reader_.database().QueryText("SELECT value FROM meta WHERE key = 'state'"));
  source->cut_ = state == "cut";
  return source;
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
  Status status;
  schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
    if constexpr (!kIsLarge<Row>) {
      if (!status.ok()) return;
      status =
          reader_.ReadAll<Row>([batch](Row&& row) { batch->Get<Row>().push_back(std::move(row)); })
              .status();
    }
  });
  return status;
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
    if (tracks.size() == kMostTracks) return Repeats(reader_.database().path(), "span");
    tracks.push_back(schema::TrackId(next.Integer(0)));
    next.Reset();
  }
}

Status FinishedSource::ReadSteps(int64_t first_step, int64_t last_step, RowBatch* batch) {
  const auto read = [&]<typename Row>(const char* first_id, const char* last_id) -> Status {
    constexpr const char* kCondition =
        "WHERE id BETWEEN (SELECT min({0}) FROM step_range WHERE {2} AND {0} <= {1}) AND "
        "(SELECT max({1}) FROM step_range WHERE {2}) AND {2} ORDER BY id";
    SHARDSCOPE_ASSIGN_OR_RETURN(
        auto rows, Cursor<Row>::Open(&reader_, fmt::format(kCondition, first_id, last_id,
                                                           "step BETWEEN ?1 AND ?2")));
    rows.statement().Bind(1, first_step);
    rows.statement().Bind(2, last_step);
    return ReadInto(&rows, batch);
  };
  SHARDSCOPE_RETURN_IF_ERROR(read.operator()<schema::StepRow>("first_step_row", "last_step_row"));
  SHARDSCOPE_RETURN_IF_ERROR(read.operator()<schema::OpRunRow>("first_op_run", "last_op_run"));
  return read.operator()<schema::CollectiveRow>("first_collective", "last_collective");
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

Result<int64_t> FinishedSource::NumOpRuns() {
  return reader_.database().QueryInteger("SELECT count(*) FROM op_run");
}

Status FinishedSource::ForEachMemoryChange(const std::function<void(const MemoryChange&)>& visit) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement select, reader_.database().Prepare("SELECT rank, issued_ns, executed_ns, bytes, "
                                                   "step, category FROM memory_event ORDER BY id"));
  const std::string& path = reader_.database().path();
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  for (size_t left = error ? 0 : bytes / kLeastRowBytes;; --left) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return Status::Ok();
    if (left == 0) return Repeats(path, "memory_event");
    visit({select.Integer(0), select.Integer(1), select.Integer(2), select.Integer(3),
           select.Integer(4), select.Text(5)});
  }
}

Status FinishedSource::ReadCounters(RowBatch* batch) {
  auto rows = Cursor<schema::CounterRow>::Open(&reader_, "ORDER BY id");
  return rows.ok() ? ReadInto(&rows.value(), batch) : rows.status();
}

Status FinishedSource::ReadDerived(RowBatch* batch) {
  Status status;
  schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
    if constexpr (schema::TableOf<Row>::kDerived || std::is_same_v<Row, schema::StepRow>) {
      if (!status.ok() || std::is_same_v<Row, schema::StepRangeRow>) return;
      auto rows = Cursor<Row>::Open(&reader_, "");
      status = rows.ok() ? ReadInto(&rows.value(), batch) : rows.status();
    }
  });
  return status;
}

Result<RowBatch> FinishedSource::ReadMemory() {
  if (memory_ == nullptr) {
    memory_ = std::make_unique<Memory>();
    SHARDSCOPE_RETURN_IF_ERROR(Start(&reader_, &memory_->rows));
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
      auto spans,
      Cursor<schema::SpanRow>::Open(
          &reader_, "WHERE track = ? AND start_ns BETWEEN ? AND ? ORDER BY start_ns, id"));
  for (const schema::TrackId track : tracks) {
    spans.statement().Bind(1, track.value());
    spans.statement().Bind(2, from_ns);
    spans.statement().Bind(3, to_ns);
    SHARDSCOPE_RETURN_IF_ERROR(ReadInto(&spans, batch));
    spans.statement().Reset();
  }
  std::vector<schema::SpanRow>& rows = batch->Get<schema::SpanRow>();
  std::sort(rows.begin(), rows.end(),
            [](const schema::SpanRow& a, const schema::SpanRow& b) { return a.id < b.id; });
  auto work = Cursor<schema::GpuWorkRow>::Open(&reader_, "WHERE id = ?");
  if (!work.ok()) return work.status();
  for (const schema::SpanRow& span : rows) {
    work->statement().Bind(1, span.id.value());
    SHARDSCOPE_RETURN_IF_ERROR(ReadInto(&work.value(), batch));
    work->statement().Reset();
  }
  return true;
}

Result<RowBatch> FinishedSource::ReadNext() {
  if (op_runs_ == nullptr) {
    SHARDSCOPE_ASSIGN_OR_RETURN(auto op_runs, OpRuns::Open(reader_.database().path()));
    SHARDSCOPE_ASSIGN_OR_RETURN(auto others, Others::Open(reader_.database().path()));
    op_runs_ = std::move(op_runs);
    others_ = std::move(others);
  }
  const auto start = [this] {
    next_op_runs_ = std::async(std::launch::async, [this] { return op_runs_->Read(); });
    next_others_ = std::async(std::launch::async, [this] { return others_->Read(); });
  };
  if (!next_op_runs_.valid()) start();
  Result<RowBatch> op_runs = next_op_runs_.get();
  Result<RowBatch> others = next_others_.get();
  if (!op_runs.ok()) return op_runs.status();
  if (!others.ok()) return others.status();
  RowBatch batch = std::move(others).value();
  batch.Get<schema::OpRunRow>() = std::move(op_runs->Get<schema::OpRunRow>());
  start();
  return batch;
}

}  // namespace shardscope::store
