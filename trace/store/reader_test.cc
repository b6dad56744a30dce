// Files from anywhere: each gives one clear error, and nothing of them is run.
#include "trace/store/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "trace/base/process.h"
#include "trace/schema/ddl.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

using testing::HasSubstr;

class Hostile : public testing::Test {
 protected:
  Hostile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
    SHARDSCOPE_CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ~Hostile() override { std::filesystem::remove_all(folder_); }

  // A good finished trace.
  std::string GoodTrace() const {
    auto writer = TraceWriter::Create(folder_);
    SHARDSCOPE_CHECK(writer.ok());
    SHARDSCOPE_CHECK(writer.value()->Finish().ok());
    return writer.value()->file().FinishedPath();
  }
  std::string GoodTraceWith(const std::string& sql) const {
    const std::string path = GoodTrace();
    Result<Database> database = Database::Open(path, Database::Mode::kReadWrite);
    SHARDSCOPE_CHECK(database.ok());
    const Status changed = database->Execute(sql);
    EXPECT_TRUE(changed.ok()) << changed.message();
    return path;
  }
  std::string FileWith(const std::string& name, const std::string& content) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::string folder_;
};

TEST_F(Hostile, GoodTraceOpens) {
  const Result<TraceReader> reader = TraceReader::Open(GoodTrace());
  EXPECT_TRUE(reader.ok()) << reader.message();
}

TEST_F(Hostile, NoSqliteFile) {
  EXPECT_THAT(TraceReader::Open(FileWith("a.db", "hello, this is text and no database")).message(),
              HasSubstr("not a SQLite file; it may be cut or damaged: copy it again"));
  EXPECT_THAT(TraceReader::Open(FileWith("b.db", "")).message(), HasSubstr("not a SQLite file"));
  EXPECT_THAT(TraceReader::Open(folder_ + "/missing.db").message(), HasSubstr("No such file"));
}

TEST_F(Hostile, AnotherProgramsDatabase) {
  const std::string path = folder_ + "/other.db";
  {
    Result<Database> other = Database::Open(path, Database::Mode::kCreate);
    ASSERT_TRUE(other->Execute("CREATE TABLE op_run(id INTEGER)").ok());
  }
  EXPECT_THAT(TraceReader::Open(path).message(), HasSubstr("another program"));
}

TEST_F(Hostile, NewerSchemaNamesBothVersions) {
  const std::string newer = std::to_string(schema::kVersion + 1);
  const std::string message =
      TraceReader::Open(GoodTraceWith("PRAGMA user_version=" + newer)).message();
  EXPECT_THAT(message, HasSubstr("schema " + newer));
  EXPECT_THAT(message, HasSubstr("up to " + std::to_string(schema::kVersion)));
}

// What makes a trace of this program one of a version before 4, which clustered finished ones.
std::string BackTo(int64_t version, bool finished = true) {
  std::string sql = "PRAGMA user_version=" + std::to_string(version);
  for (const schema::View& view : schema::Views()) sql += ";DROP VIEW " + view.name;
  std::vector<std::string> indexes = schema::CreateIndexesBefore4();
  const std::vector<schema::TableInfo>& tables = schema::Tables();
  for (size_t i = 0; i < tables.size(); ++i) {
    const std::string& name = tables[i].name;
    if (tables[i].since > version) {
      sql += ";DROP TABLE " + name;
      std::erase_if(indexes, [on = " ON " + name + "("](const std::string& index) {
        return index.find(on) != std::string::npos;
      });
    } else if (finished) {
      sql += ";CREATE TEMP TABLE rows AS SELECT * FROM " + name + ";DROP TABLE " + name + ";" +
             schema::CreateTablesBefore4()[i] + ";INSERT INTO " + name +
             " SELECT * FROM rows;DROP TABLE rows";
    }
  }
  if (!finished) return sql;
  for (const std::string& index : indexes) sql += ";" + index;
  return sql;
}

TEST_F(Hostile, OlderTracesOpenWithTheirMissingTablesEmpty) {
  Result<TraceReader> reader = TraceReader::Open(GoodTraceWith(BackTo(1)));
  ASSERT_TRUE(reader.ok()) << reader.message();
  RowBatch batch;
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    const auto rows = reader->ReadAll(&batch.At(table));
    EXPECT_TRUE(rows.ok()) << rows.message();
  }
  for (const schema::View& view : schema::Views()) {
    const auto rows = reader->database().QueryInteger("SELECT count(*) FROM " + view.name);
    EXPECT_TRUE(rows.ok()) << rows.message();
  }
  // The version does not make the other tables optional, nor the new ones welcome.
  EXPECT_THAT(TraceReader::Open(GoodTraceWith(BackTo(1) + ";DROP TABLE flow")).message(),
              HasSubstr("lacks table flow"));
  EXPECT_THAT(TraceReader::Open(GoodTraceWith("PRAGMA user_version=1")).message(),
              HasSubstr("unexpected"));
  EXPECT_THAT(TraceReader::Open(GoodTraceWith("PRAGMA user_version=0")).message(),
              HasSubstr("schema 0"));
}

TEST_F(Hostile, AnOlderTraceThatWasCutIsFinishedAsANewOne) {
  std::string stem;
  {
    auto writer = TraceWriter::Create(folder_);
    ASSERT_TRUE(writer.ok());
    stem = writer.value()->file().stem;
    ASSERT_TRUE(writer.value()->Begin().ok());
    ASSERT_TRUE(writer.value()->Insert(schema::StringRow{schema::StringId(1), "kept"}).ok());
    ASSERT_TRUE(writer.value()->Commit().ok());
  }
  const TraceFile file{stem};
  Result<Database> live = Database::Open(file.LivePath(), Database::Mode::kReadWrite);
  ASSERT_TRUE(live.ok() && live->Execute(BackTo(1, false)).ok());
  live = Database();
  const Result<RunFiles> run = FindRun(folder_);
  ASSERT_TRUE(run.ok()) << run.message();
  Result<TraceReader> reader = TraceReader::Open(file.FinishedPath());
  ASSERT_TRUE(reader.ok()) << reader.message();
  EXPECT_EQ(*reader->database().QueryText("SELECT text FROM string WHERE id = 1"), "kept");
  EXPECT_EQ(*reader->database().QueryInteger("PRAGMA user_version"), schema::kVersion);
}

TEST_F(Hostile, ChangedSchemaIsRefused) {
  EXPECT_THAT(TraceReader::Open(GoodTraceWith("CREATE TRIGGER t AFTER INSERT ON step BEGIN DELETE "
                                              "FROM step; END"))
                  .message(),
              HasSubstr("unexpected trigger t"));
  EXPECT_THAT(TraceReader::Open(GoodTraceWith("CREATE TABLE extra(x)")).message(),
              HasSubstr("unexpected table extra"));
  EXPECT_THAT(TraceReader::Open(GoodTraceWith("DROP TABLE flow")).message(),
              HasSubstr("lacks table flow"));
  EXPECT_THAT(TraceReader::Open(GoodTraceWith("ALTER TABLE flow ADD COLUMN x INTEGER")).message(),
              HasSubstr("table flow is not as it should be"));
}

TEST_F(Hostile, ViewsOfTheFileAreNotUsed) {
  Result<TraceReader> reader = TraceReader::Open(
      GoodTraceWith("DROP VIEW v_dropped; CREATE VIEW v_dropped AS SELECT 'planted' AS source"));
  ASSERT_TRUE(reader.ok()) << reader.message();
  const Result<int64_t> rows = reader->database().QueryInteger("SELECT count(*) FROM v_dropped");
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(rows.value(), 0);
}

TEST_F(Hostile, TruncatedAtAnyPlaceNeverCrashes) {
  const std::string path = GoodTrace();
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  for (int64_t keep = size - 1000; keep > 0; keep -= 7000) {
    std::filesystem::resize_file(path, static_cast<uintmax_t>(keep));
    Result<TraceReader> reader = TraceReader::Open(path);
    if (reader.ok()) {
      // The schema's pages were whole; reading the rest must end in an answer or an error.
      RowBatch batch;
      (void)reader->ReadAll(&batch.At(kTable<schema::MetaRow>.index));
      (void)reader->database().QueryInteger("SELECT count(*) FROM v_step");
    } else {
      EXPECT_NE(reader.message(), "");
    }
  }
  std::filesystem::resize_file(path, 600);
  EXPECT_FALSE(TraceReader::Open(path).ok());
}

TEST_F(Hostile, NothingCanBeWritten) {
  Result<TraceReader> reader = TraceReader::Open(GoodTrace());
  ASSERT_TRUE(reader.ok()) << reader.message();
  for (const char* sql : {"DELETE FROM meta", "CREATE TABLE x(y)", "CREATE TEMP TABLE x(y)",
                          "ATTACH '/tmp/x.db' AS x", "VACUUM INTO '/tmp/x.db'"}) {
    EXPECT_FALSE(reader->database().Execute(sql).ok()) << sql;
  }
}

// record.max_bytes removes the oldest segment, whoever reads it.
TEST_F(Hostile, ARemovedFileIsReadToItsEnd) {
  const std::string path = GoodTraceWith("INSERT INTO meta (key, value) VALUES ('name', 'here')");
  Result<TraceReader> reader = TraceReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.message();
  ASSERT_TRUE(std::filesystem::remove(path));
  RowBatch batch;
  const Result<size_t> count = reader->ReadAll(&batch.At(kTable<schema::MetaRow>.index));
  EXPECT_TRUE(count.ok()) << count.message();
  bool is_there = false;
  for (const schema::MetaRow& row : batch.Get<schema::MetaRow>()) is_there |= row.value == "here";
  EXPECT_TRUE(is_there);
}

TEST_F(Hostile, ReaderWaitsForAWriterThatIsJustStarting) {
  const TraceFile file = NewTraceFile(folder_);
  {
    const Result<TraceLock> lock = TraceLock::TryTake(file);
    ASSERT_TRUE(lock.ok());
    EXPECT_TRUE(WriterLives(file));
    std::ofstream(file.LivePath()).flush();
    std::thread starting([&file] {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      Result<Database> database = Database::Open(file.LivePath(), Database::Mode::kCreate);
      EXPECT_TRUE(CreateLiveSchema(&*database).ok());
    });
    EXPECT_TRUE(TraceReader::OpenNewest(file).ok());
    starting.join();
  }
  EXPECT_FALSE(WriterLives(file));
}

// A reader that looks whether a writer lives holds the lock for a moment; a finisher that came just
// then would leave a killed run as it is.
TEST_F(Hostile, WhoAsksForTheWriterKeepsNobodyFromTheLock) {
  const TraceFile file = NewTraceFile(folder_);
  std::ofstream(file.LockPath()).flush();
  std::atomic<bool> is_done = false;
  std::vector<std::thread> asking;
  for (int i = 0; i < 2; ++i) {
    asking.emplace_back([&] {
      while (!is_done) static_cast<void>(WriterLives(file));
    });
  }
  for (int i = 0; i < 300; ++i) {
    const Result<TraceLock> lock = TraceLock::TryTake(file);
    EXPECT_TRUE(lock.ok() && lock->held()) << i;
    const Result<TraceLock> second = TraceLock::TryTake(file);
    EXPECT_TRUE(second.ok() && !second->held()) << i;
  }
  is_done = true;
  for (std::thread& thread : asking) thread.join();
}

// What it wrote just before may have been missed: with the state that nothing comes after, a reader
// is sent back once more.
TEST_F(Hostile, AfterTheEndOfAWriterIsFoundItsFileIsReadOnceMore) {
  auto writer = TraceWriter::Create(folder_);
  ASSERT_TRUE(writer.ok()) << writer.message();
  const TraceFile file = writer.value()->file();
  const Result<RunFiles> run = FindRun(folder_);
  ASSERT_TRUE(run.ok()) << run.message();
  const auto source = RunSource::Open(*run);
  ASSERT_TRUE(source.ok()) << source.message();
  // So that nobody can finish it: what is in a folder of this name is not removed.
  ASSERT_TRUE(std::filesystem::create_directory(file.UnfinishedPath()));
  writer.value().reset();
  const auto reads_more = [&] {
    RowBatch batch;
    const Result<bool> more = source.value()->Read(&batch);
    EXPECT_TRUE(more.ok()) << more.message();
    return more.ok() && more.value();
  };
  bool more = false;
  while (source.value()->state() == SourceState::kLive && !HasFailure()) more = reads_more();
  EXPECT_EQ(source.value()->state(), SourceState::kCut);
  EXPECT_TRUE(more);
  EXPECT_FALSE(reads_more());
}

// A Read takes so many rows of a table that all steps would come with the first of their op runs.
TEST_F(Hostile, StepsOfALongRunComeWhenAllOpRunsHave) {
  constexpr int64_t kSteps = 1200;
  constexpr int64_t kOps = 100;
  auto writer = TraceWriter::Create(folder_);
  ASSERT_TRUE(writer.ok()) << writer.message();
  ASSERT_TRUE(writer.value()->Begin().ok());
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t at = 0; at < kOps; ++at) {
      schema::OpRunRow run;
      run.id = schema::OpRunId(1 + step * kOps + at);
      run.step = step;
      run.blocking_kind = "none";
      ASSERT_TRUE(writer.value()->Insert(run).ok());
    }
    schema::StepRow row;
    row.id = schema::StepId(1 + step);
    row.step = step;
    ASSERT_TRUE(writer.value()->Insert(row).ok());
  }
  ASSERT_TRUE(writer.value()->Commit().ok());
  const Result<RunFiles> run = FindRun(folder_);
  ASSERT_TRUE(run.ok()) << run.message();
  const auto source = RunSource::Open(*run);
  ASSERT_TRUE(source.ok()) << source.message();
  int64_t op_runs = 0;
  int64_t steps = 0;
  int reads = 0;
  for (bool more = true; more; ++reads) {
    RowBatch batch;
    const Result<bool> left = source.value()->Read(&batch);
    ASSERT_TRUE(left.ok()) << left.message();
    more = *left;
    op_runs += static_cast<int64_t>(batch.Get<schema::OpRunRow>().size());
    for (const schema::StepRow& row : batch.Get<schema::StepRow>()) EXPECT_EQ(row.step, steps++);
    EXPECT_EQ(steps, more ? 0 : kSteps);
  }
  EXPECT_GT(reads, 1);
  EXPECT_EQ(steps, kSteps);
  EXPECT_EQ(op_runs, kSteps * kOps);
}

// A folder has the name of the finished file.
TEST_F(Hostile, AFinishedFileThatCannotTakeItsPlaceLeavesTheLiveOneAlone) {
  auto writer = TraceWriter::Create(folder_);
  ASSERT_TRUE(writer.ok()) << writer.message();
  const TraceFile file = writer.value()->file();
  ASSERT_TRUE(std::filesystem::create_directory(file.FinishedPath()));
  EXPECT_THAT(writer.value()->Finish().message(), HasSubstr("cannot rename"));
  EXPECT_FALSE(Exists(file.UnfinishedPath()));
  EXPECT_TRUE(Exists(file.LivePath()));
  ASSERT_TRUE(std::filesystem::remove(file.FinishedPath()));
  const Status finished = writer.value()->Finish();
  EXPECT_TRUE(finished.ok()) << finished.message();
  EXPECT_FALSE(Exists(file.LivePath()));
}

TEST_F(Hostile, RunFolderErrors) {
  EXPECT_THAT(FindRun(folder_).message(), HasSubstr("is no run folder"));
  EXPECT_THAT(FindRun(folder_ + "/none").message(), HasSubstr("does not exist"));
  FileWith("run.toml", "");
  EXPECT_THAT(FindRun(folder_).message(), HasSubstr("was killed or failed while it started"));
  const FolderLock lock(folder_);
  EXPECT_THAT(FindRun(folder_).message(), HasSubstr("its run is starting"));
  EXPECT_THAT(FindRun(FileWith("x.txt", "x")).message(), HasSubstr("is no Shardscope trace"));
}

TEST(Trace, SecondWriterOfAFolderGetsItsOwnFile) {
  std::string pattern = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const auto first = TraceWriter::Create(pattern);
  const auto second = TraceWriter::Create(pattern);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first.value()->file().stem, second.value()->file().stem);
  EXPECT_EQ(ListTraces(pattern).size(), 2u);
  // A live file whose writer lives is not finished by a reader.
  EXPECT_TRUE(FindRun(pattern).ok());
  EXPECT_TRUE(Exists(first.value()->file().LivePath()));
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace shardscope::store
