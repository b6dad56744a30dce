// A large finished trace is read from its chunks: the rows must be those of its tables, whatever
// was changed in it since, and a damaged one gives an error.
#include "trace/store/chunk_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/file_size_limit_test_util.h"
#include "trace/schema/ddl.h"
#include "trace/store/finished_source.h"
#include "trace/store/finished_writer.h"
#include "trace/store/finisher.h"
#include "trace/store/reader.h"
#include "trace/store/row_chunk.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kOpRuns = 40'000;  // three chunks
constexpr int64_t kEvents = 20'000;  // two

// Fields as bytes behind one another, so that rows of all tables compare alike; a NaN is itself.
class RowBytes final : public schema::FieldSink {
 public:
  void Integer(int64_t value) override { Add(&value, sizeof value); }
  void Real(double value) override { Add(&value, sizeof value); }
  void Text(std::string_view value) override {
    Integer(static_cast<int64_t>(value.size()));
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Add(const void* value, size_t size) { bytes_.append(static_cast<const char*>(value), size); }

  std::string bytes_;
};

// By table.
std::vector<std::string> BytesOfTables(const RowBatch& batch) {
  std::vector<std::string> all;
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    RowBytes bytes;
    const AnyRows& rows = batch.At(table);
    for (size_t i = 0; i < rows.size(); ++i) rows.Write(i, &bytes);
    all.push_back(bytes.bytes());
  }
  return all;
}

void InsertSteps(FinishedWriter* writer) {
  for (int64_t id = 1; id <= 20; ++id) {
    schema::StepRow row;
    row.id = schema::StepId(id);
    row.step = id - 1;
    row.start_ns = id * 1000;
    row.end_ns = id * 1000 + 900;
    row.loss = id == 7 ? std::numeric_limits<double>::quiet_NaN() : 1.0 / static_cast<double>(id);
    SHARDSCOPE_CHECK(writer->Insert(row).ok());
  }
}

void InsertOpRuns(FinishedWriter* writer) {
  for (int64_t id = 1; id <= kOpRuns; ++id) {
    schema::OpRunRow row;
    row.id = schema::OpRunId(3 * id);  // others are in no file
    row.plan_op = schema::PlanOpId(id % 100);
    row.step = id * 20 / (kOpRuns + 1);
    row.issued_ns = id * 7 - id % 13;
    row.ready_ns = row.issued_ns + 1;
    row.started_ns = id % 1000 == 0 ? -1 : row.issued_ns + id % 300;
    row.ended_ns = id == 99 ? std::numeric_limits<int64_t>::max() : row.started_ns + 70'000;
    row.blocking_plan_op = schema::PlanOpId::None();
    row.blocking_kind = id % 3 == 0 ? "" : id % 3 == 1 ? "event" : "none";
    SHARDSCOPE_CHECK(writer->Insert(row).ok());
  }
}

void InsertEvents(FinishedWriter* writer) {
  for (int64_t id = 1; id <= kEvents; ++id) {
    schema::MemoryEventRow row;
    row.id = schema::MemoryEventId(id);
    row.device = "cpu";
    row.issued_ns = row.executed_ns = id * 9;
    row.bytes = id % 2 == 0 ? -4096 : 4096;
    row.category = "activation";
    row.unit = fmt::format("block{}", id % 40);
    SHARDSCOPE_CHECK(writer->Insert(row).ok());
  }
  for (int64_t id = 1; id <= 10; ++id) {
    schema::SpanRow row;
    row.id = schema::SpanId(id);
    row.start_ns = id;
    SHARDSCOPE_CHECK(writer->Insert(row).ok());
  }
}

std::string NewFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
  SHARDSCOPE_CHECK(mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

class RowChunksOfAFile : public testing::Test {
 protected:
  // Written once, each test has a copy.
  static void SetUpTestSuite() {
    original_ = TraceFile{NewFolder() + "/trace-a-1"};
    auto writer = FinishedWriter::Create(original_);
    SHARDSCOPE_CHECK(writer.ok());
    InsertSteps(writer->get());
    InsertOpRuns(writer->get());
    InsertEvents(writer->get());
    SHARDSCOPE_CHECK((*writer)->Finish().ok());
  }
  static void TearDownTestSuite() {
    std::filesystem::remove_all(std::filesystem::path(original_.FinishedPath()).parent_path());
  }

  RowChunksOfAFile()
      : folder_(NewFolder()), file_{folder_ + "/trace-a-1"}, path_(file_.FinishedPath()) {
    std::filesystem::copy_file(original_.FinishedPath(), path_);
  }
  ~RowChunksOfAFile() override { std::filesystem::remove_all(folder_); }

  void Pack() const { EXPECT_TRUE(AddRowChunks(path_, 0).ok()); }
  void Change(const std::string& sql) const {
    Result<Database> database = Database::Open(path_, Database::Mode::kReadWrite);
    ASSERT_TRUE(database.ok());
    const Status changed = database->Execute(sql);
    ASSERT_TRUE(changed.ok()) << changed.message();
  }
  int64_t Query(const std::string& sql) const {
    Result<TraceReader> reader = TraceReader::Open(path_);
    SHARDSCOPE_CHECK(reader.ok());
    const Result<int64_t> value = reader->database().QueryInteger(sql);
    EXPECT_TRUE(value.ok()) << value.message();
    return value.ok() ? *value : -1;
  }
  int64_t ChunksOf(const std::string& table) const {
    return Query("SELECT count(*) FROM row_chunk WHERE table_name = '" + table + "'");
  }

  // As a viewer loads it.
  Status Load(RowBatch* all, const RowLimits* limits = nullptr) const {
    SHARDSCOPE_ASSIGN_OR_RETURN(const auto source, FinishedSource::Open(file_, 0));
    if (limits != nullptr) source->Limit(*limits);
    RowBatch batch;
    do {
      SHARDSCOPE_RETURN_IF_ERROR(source->ReadNext(&batch));
      for (size_t table = 0; table < schema::kNumTables; ++table) {
        batch.At(table).CopyTo(&all->At(table));
      }
    } while (!IsEmpty(batch));
    return Status::Ok();
  }
  // Likewise with SQL.
  Status Select(RowBatch* all) const {
    SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path_));
    for (size_t table = 0; table < schema::kNumTables; ++table) {
      const Table& one = all->At(table).table();
      if (!one.hot || one.sql_only) continue;
      SHARDSCOPE_RETURN_IF_ERROR(reader.ReadAll(&all->At(table)).status());
    }
    return Status::Ok();
  }
  void ExpectRowsOfTables() const {
    RowBatch loaded;
    const Status status = Load(&loaded);
    ASSERT_TRUE(status.ok()) << status.message();
    RowBatch selected;
    ASSERT_TRUE(Select(&selected).ok());
    EXPECT_EQ(loaded.Get<schema::OpRunRow>().size(), selected.Get<schema::OpRunRow>().size());
    const std::vector<std::string> bytes = BytesOfTables(loaded);
    const std::vector<std::string> expected = BytesOfTables(selected);
    for (size_t table = 0; table < schema::kNumTables; ++table) {
      EXPECT_TRUE(bytes[table] == expected[table]) << loaded.At(table).table().name;
    }
  }
  void ExpectDamaged(const std::string& what) const {
    RowBatch batch;
    EXPECT_THAT(Load(&batch).message(), AllOf(HasSubstr(path_ + " is damaged: its table row_chunk"),
                                              HasSubstr(what), HasSubstr("copy it again")));
  }

  const std::string folder_;
  const TraceFile file_;
  const std::string path_;

 private:
  static inline TraceFile original_;
};

TEST_F(RowChunksOfAFile, HaveTheRowsOfItsTables) {
  ExpectRowsOfTables();
  EXPECT_EQ(Query("SELECT count(*) FROM row_chunk"), 0);  // it is small
  Pack();
  EXPECT_EQ(ChunksOf("op_run"), 3);
  EXPECT_EQ(ChunksOf("memory_event"), 2);
  EXPECT_EQ(ChunksOf("step"), 1);
  EXPECT_EQ(ChunksOf("span"), 1);
  EXPECT_EQ(ChunksOf("collective"), 0);
  EXPECT_EQ(Query("SELECT sum(num_rows) FROM row_chunk WHERE table_name = 'op_run'"), kOpRuns);
  ExpectRowsOfTables();
  Change("DELETE FROM op_run WHERE id = 3");
  EXPECT_EQ(ChunksOf("op_run"), 0);
  Pack();  // once more
  EXPECT_EQ(Query("SELECT sum(num_rows) FROM row_chunk WHERE table_name = 'op_run'"), kOpRuns - 1);
  EXPECT_EQ(Query("SELECT count(*) FROM row_chunk"), 7);
  ExpectRowsOfTables();
}

// Files have had up to kMostRowsOfChunk rows in one.
TEST_F(RowChunksOfAFile, LargerOnesThanAreWrittenAreRead) {
  Pack();
  RowBatch all;
  ASSERT_TRUE(Select(&all).ok());
  Change(
      "DELETE FROM row_chunk WHERE table_name = 'op_run' AND id > (SELECT min(id) FROM row_chunk "
      "WHERE table_name = 'op_run')");
  Change(
      "UPDATE row_chunk SET id = id - 2 WHERE id > (SELECT id FROM row_chunk WHERE table_name = "
      "'op_run')");
  {
    Result<Database> database = Database::Open(path_, Database::Mode::kReadWrite);
    ASSERT_TRUE(database.ok());
    Result<Statement> change = database->Prepare(
        "UPDATE row_chunk SET num_rows = ?, data = ? WHERE table_name = 'op_run'");
    ASSERT_TRUE(change.ok());
    const std::string data = PackRows(all.At(kTable<schema::OpRunRow>.index));
    change->Bind(1, kOpRuns);
    change->BindBlob(2, data);
    ASSERT_TRUE(change->Run().ok());
  }
  EXPECT_EQ(ChunksOf("op_run"), 1);
  ExpectRowsOfTables();
}

TEST_F(RowChunksOfAFile, TakeLessThanHalfOfWhatRowsTake) {
  const int64_t before = DatabaseBytes(path_);
  Pack();
  Result<TraceReader> reader = TraceReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  EXPECT_GT(BytesOfChunks(&reader->database()), 0);
  EXPECT_LT(DatabaseBytes(path_) - before, before / 2);
  EXPECT_LT(BytesOfChunks(&reader->database()), DatabaseBytes(path_) - before);
}

TEST_F(RowChunksOfAFile, AreNotCountedAsRowsOfALargeFile) {
  Pack();
  const auto expect_bytes_of_rows = [&](int64_t bytes) {
    const auto source = FinishedSource::Open(file_, 0);
    ASSERT_TRUE(source.ok());
    EXPECT_EQ((*source)->BytesOfRows(), bytes);
    EXPECT_EQ(FinishedSource::BytesOfRows(file_), bytes);
  };
  ASSERT_LT(DatabaseBytes(path_), FinishedSource::kLargeBytes);
  expect_bytes_of_rows(DatabaseBytes(path_));
  Change("INSERT INTO meta VALUES('padding', hex(zeroblob(17 << 20)))");
  ASSERT_GT(DatabaseBytes(path_), FinishedSource::kLargeBytes);
  expect_bytes_of_rows(DatabaseBytes(path_) - Query("SELECT sum(length(data)) FROM row_chunk"));
}

TEST_F(RowChunksOfAFile, GoWhenTheirTableIsChanged) {
  Pack();
  Change("UPDATE op_run SET rank = 7 WHERE id = 300");
  EXPECT_EQ(ChunksOf("op_run"), 0);
  EXPECT_EQ(ChunksOf("memory_event"), 2);
  ExpectRowsOfTables();
  Change("DELETE FROM memory_event WHERE id = 1");
  EXPECT_EQ(ChunksOf("memory_event"), 0);
  ExpectRowsOfTables();
  Change(
      "INSERT INTO span SELECT 11, track, start_ns, duration_ns, name_string, category, op_run "
      "FROM span WHERE id = 1");
  EXPECT_EQ(ChunksOf("span"), 0);
  EXPECT_EQ(ChunksOf("step"), 1);
  Change("DELETE FROM step");
  EXPECT_EQ(Query("SELECT count(*) FROM row_chunk"), 0);
  ExpectRowsOfTables();
}

TEST_F(RowChunksOfAFile, AreNotReadWithoutTheTriggers) {
  Pack();
  Change("DROP TRIGGER op_run_chunks_DELETE; DELETE FROM op_run WHERE id < 5000");
  EXPECT_EQ(ChunksOf("op_run"), 3);
  ExpectRowsOfTables();
}

TEST_F(RowChunksOfAFile, ATriggerOfTheirNameThatDoesSomethingElseIsRefused) {
  Pack();
  Change(
      "DROP TRIGGER op_run_chunks_DELETE; CREATE TRIGGER op_run_chunks_DELETE AFTER DELETE ON "
      "op_run BEGIN DELETE FROM step; END");
  EXPECT_THAT(TraceReader::Open(path_).message(),
              HasSubstr("trigger op_run_chunks_DELETE is not as it should be"));
}

TEST_F(RowChunksOfAFile, SmallAndBoundedTracesHaveNone) {
  EXPECT_TRUE(AddRowChunks(path_).ok());
  EXPECT_EQ(Query("SELECT count(*) FROM row_chunk"), 0);
  Change(fmt::format("INSERT INTO meta VALUES('{}', '3')", kDroppedThroughStep));
  Pack();
  EXPECT_EQ(Query("SELECT count(*) FROM row_chunk"), 0);
  EXPECT_EQ(Query("SELECT count(*) FROM main.sqlite_schema WHERE type = 'trigger'"), 0);
}

TEST_F(RowChunksOfAFile, WhereTheyCannotBeWrittenTheFileStaysAsItWas) {
  const int64_t before = DatabaseBytes(path_);
  {
    const FileSizeLimit limit(static_cast<rlim_t>(before) + 100'000);
    Pack();
  }
  EXPECT_EQ(DatabaseBytes(path_), before);
  EXPECT_EQ(Query("SELECT count(*) FROM row_chunk"), 0);
  EXPECT_EQ(Query("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
  ExpectRowsOfTables();
  Pack();
  EXPECT_EQ(ChunksOf("op_run"), 3);
}

TEST_F(RowChunksOfAFile, FinishingTellsThatItGoesOn) {
  std::vector<int> percents;
  SetFinishProgress([&percents](int percent) { percents.push_back(percent); });
  Pack();
  SetFinishProgress(nullptr);
  ASSERT_FALSE(percents.empty());
  EXPECT_TRUE(std::is_sorted(percents.begin(), percents.end()));
  EXPECT_GT(percents.front(), kDerivedPercent);
  EXPECT_LE(percents.back(), 100);
}

TEST_F(RowChunksOfAFile, OtherReadersLeaveThemAside) {
  Pack();
  const auto source = FinishedSource::Open(file_, 0);
  ASSERT_TRUE(source.ok());
  RowBatch batch;
  ASSERT_TRUE((*source)->ReadSmallTables(&batch).ok());
  ASSERT_TRUE((*source)->ReadDerived([&batch](RowBatch* rows) { AppendRows(rows, &batch); }).ok());
  EXPECT_TRUE(batch.Get<schema::RowChunkRow>().empty());
}

// Of the steps [first, last] of InsertSteps(), an end of the run being all that is beyond.
RowLimits LimitsOf(int64_t first, int64_t last) {
  RowLimits limits{.first_step = first,
                   .last_step = last,
                   .from_ns = (first + 1) * 8500,
                   .to_ns = (last + 2) * 8500};
  if (first == 0) limits.first_step = limits.from_ns = INT64_MIN;
  if (last == 19) limits.last_step = limits.to_ns = INT64_MAX;
  return limits;
}

TEST_F(RowChunksOfAFile, SomeStepsHaveTheSameRowsAsWithSql) {
  constexpr std::array<std::pair<int64_t, int64_t>, 5> kParts = {
      {{3, 4}, {0, 2}, {17, 19}, {9, 9}, {0, 19}}};
  std::vector<std::vector<std::string>> with_sql;
  std::vector<RowBatch> held_with_sql;
  const std::atomic<bool> stopping = false;
  const auto load = [&](RowLimits limits, RowBatch* rows, RowBatch* held) {
    const auto source = FinishedSource::Open(file_, 0);
    ASSERT_TRUE(source.ok());
    (*source)->Limit(limits);
    ASSERT_TRUE((*source)->ReadMemoryHeld(stopping, held).ok());
    RowBatch batch;
    do {
      const Status read = (*source)->ReadNext(&batch);
      ASSERT_TRUE(read.ok()) << read.message();
      for (size_t table = 0; table < schema::kNumTables; ++table) {
        batch.At(table).CopyTo(&rows->At(table));
      }
    } while (!IsEmpty(batch));
  };
  for (const auto& [first, last] : kParts) {
    RowBatch rows;
    load(LimitsOf(first, last), &rows, &held_with_sql.emplace_back());
    EXPECT_FALSE(rows.Get<schema::OpRunRow>().empty());
    EXPECT_FALSE(rows.Get<schema::MemoryEventRow>().empty());
    with_sql.push_back(BytesOfTables(rows));
  }
  Pack();
  for (size_t i = 0; i < kParts.size(); ++i) {
    SCOPED_TRACE(i);
    RowBatch rows;
    RowBatch held;
    load(LimitsOf(kParts[i].first, kParts[i].second), &rows, &held);
    EXPECT_TRUE(BytesOfTables(rows) == with_sql[i]);
    EXPECT_TRUE(BytesOfTables(held) == BytesOfTables(held_with_sql[i]));
  }
}

TEST_F(RowChunksOfAFile, SomeStepsAreReadFromTheirChunksAlone) {
  Pack();
  const RowLimits limits = LimitsOf(17, 19);
  Change(
      "UPDATE row_chunk SET data = x'00' WHERE id = (SELECT min(id) FROM row_chunk WHERE "
      "table_name = 'op_run')");
  RowBatch batch;
  const Status read = Load(&batch, &limits);
  EXPECT_TRUE(read.ok()) << read.message();
  EXPECT_FALSE(batch.Get<schema::OpRunRow>().empty());
  ExpectDamaged("has rows of op_run that cannot be unpacked");
  Change(
      "UPDATE row_chunk SET data = x'00' WHERE id = (SELECT max(id) FROM row_chunk WHERE "
      "table_name = 'op_run')");
  EXPECT_THAT(Load(&batch, &limits).message(), HasSubstr("rows of op_run that cannot be unpacked"));
}

// Of the part that has rows of it, and of one whose rows are found by way of it.
TEST_F(RowChunksOfAFile, AMissingChunkIsAnErrorOfSomeSteps) {
  const RowLimits early = LimitsOf(3, 4);
  const RowLimits late = LimitsOf(17, 19);
  const std::string lacks = "does not have all rows of op_run";
  const auto remove = [this](const std::string& which) {
    Pack();
    Change("DELETE FROM row_chunk WHERE id = (SELECT " + which +
           " FROM row_chunk WHERE table_name = 'op_run')");
    EXPECT_EQ(ChunksOf("op_run"), 2);
  };
  RowBatch batch;
  remove("min(id)");
  EXPECT_THAT(Load(&batch, &early).message(), HasSubstr(lacks));
  EXPECT_TRUE(Load(&batch, &late).ok());
  remove("min(id) + 1");
  EXPECT_THAT(Load(&batch, &late).message(), HasSubstr(lacks));
  remove("max(id)");
  EXPECT_THAT(Load(&batch, &late).message(), HasSubstr(lacks));
}

TEST_F(RowChunksOfAFile, NumbersOfChunksAsFarApartAsThereAreAreAnError) {
  Pack();
  Change(
      "UPDATE row_chunk SET id = -9223372036854775808 WHERE id = (SELECT min(id) FROM row_chunk "
      "WHERE table_name = 'op_run')");
  Change(
      "UPDATE row_chunk SET id = 9223372036854775807 WHERE id = (SELECT max(id) FROM row_chunk "
      "WHERE table_name = 'op_run')");
  const RowLimits late = LimitsOf(17, 19);
  RowBatch batch;
  EXPECT_THAT(Load(&batch, &late).message(), HasSubstr("does not have all rows of op_run"));
  ExpectDamaged("does not have all rows of op_run");
}

TEST_F(RowChunksOfAFile, AnOlderFileWithoutTheTableLoads) {
  Change("DROP TABLE row_chunk; PRAGMA user_version=8");
  ExpectRowsOfTables();
}

TEST_F(RowChunksOfAFile, AChunkThatCannotBeUnpackedIsAnError) {
  Pack();
  Change("UPDATE row_chunk SET data = substr(data, 1, length(data) - 1) WHERE table_name = 'step'");
  ExpectDamaged("has rows of step that cannot be unpacked");
  Change("DELETE FROM row_chunk WHERE table_name = 'step'");
  ExpectRowsOfTables();
  Change("UPDATE row_chunk SET data = x'' WHERE table_name = 'op_run'");
  ExpectDamaged("has rows of op_run that cannot be unpacked");
  Change(
      "UPDATE row_chunk SET data = (SELECT data FROM row_chunk WHERE table_name = 'span') WHERE "
      "table_name = 'op_run'");
  ExpectDamaged("has rows of op_run that cannot be unpacked");
}

TEST_F(RowChunksOfAFile, AnotherNumberOfRowsIsAnError) {
  Pack();
  Change("UPDATE row_chunk SET num_rows = num_rows - 1 WHERE table_name = 'span'");
  ExpectDamaged("another number of rows of span");
}

TEST_F(RowChunksOfAFile, AMissingChunkIsAnError) {
  Pack();
  Change("UPDATE row_chunk SET id = id + 1 WHERE id = (SELECT max(id) FROM row_chunk)");
  ExpectDamaged("does not have all rows of memory_event");
  Change(
      "DELETE FROM row_chunk WHERE id = (SELECT max(id) FROM row_chunk WHERE table_name = "
      "'memory_event')");
  ExpectDamaged("does not have all rows of memory_event");
}

TEST_F(RowChunksOfAFile, OneThatComesTwiceIsAnError) {
  Pack();
  Change(
      "UPDATE row_chunk SET (num_rows, data) = (SELECT num_rows, data FROM row_chunk WHERE "
      "table_name = 'op_run' ORDER BY id LIMIT 1) WHERE table_name = 'op_run'");
  ExpectDamaged("repeats itself");
}

TEST_F(RowChunksOfAFile, ADeletedOneInFrontIsAnError) {
  Pack();
  Change(
      "DELETE FROM row_chunk WHERE id = (SELECT min(id) FROM row_chunk WHERE table_name = "
      "'op_run')");
  ExpectDamaged("does not have all rows of op_run");
}

}  // namespace
}  // namespace shardscope::store
