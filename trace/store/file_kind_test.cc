
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "trace/store/database.h"
#include "trace/store/reader.h"
#include "trace/store/run_files.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

using std::string_literals::operator""s;
using testing::EndsWith;
using testing::HasSubstr;

const std::string kProfilerTrace =
    R"({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]})";

class FileKind : public testing::Test {
 protected:
  FileKind() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
    SHARDSCOPE_CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ~FileKind() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string FileWith(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }
  // What every command says of a file with that content.
  std::string Said(const std::string& name, const std::string& content) const {
    return FindRun(FileWith(name, content)).message();
  }
  void MakeDatabase(const std::string& name, const std::string& sql) const {
    Result<Database> database = Database::Open(Path(name), Database::Mode::kCreate);
    SHARDSCOPE_CHECK(database.ok());
    ASSERT_TRUE(database->Execute(sql).ok());
  }

  std::string folder_;
};

TEST_F(FileKind, ProfilesOfOtherToolsAreNamed) {
  const auto remedy = [this](const std::string& name) {
    return "; make a run of it: shardscope import " + Path(name) + " -o RUN";
  };
  EXPECT_EQ(Said("a.json", kProfilerTrace),
            Path("a.json") +
                " is no Shardscope trace: it is a PyTorch profiler trace (Chrome JSON)" +
                remedy("a.json"));
  EXPECT_THAT(Said("b.json", R"([{"ph": "B", "ts": 1, "name": "x"}])"),
              EndsWith("it is a Chrome trace (JSON)" + remedy("b.json")));
  EXPECT_THAT(
      Said("c", "NVIDIA Tegra Profiler Report 2025@1@1@0.\n\x0b\x01\x02"),
      EndsWith("it is an Nsight Systems report (.nsys-rep); only that can read it: export it "
               "first: nsys export --type sqlite " +
               Path("c")));
  EXPECT_THAT(Said("d",
                   "\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94(\x8c\x08segments\x94]"
                   "\x8c\x0a"
                   "total_size"s),
              EndsWith("it is a CUDA memory snapshot of PyTorch (pickle)" + remedy("d")));
  EXPECT_THAT(Said("e",
                   "\x80\x02}q\x01(X\x07\0\0\0versionX\x04\0\0\0002.10X\x09\0\0\0pg_config}"
                   "X\x09\0\0\0pg_status"s),
              EndsWith("it is an NCCL flight recorder dump (pickle)" + remedy("e")));
  EXPECT_THAT(Said("g", R"({"segments": [], "device_traces": []})"),
              EndsWith("it is a CUDA memory snapshot of PyTorch (JSON)" + remedy("g")));
  EXPECT_THAT(Said("f", R"({"version": "2.10", "pg_config": {}, "entries": []})"),
              EndsWith("it is an NCCL flight recorder dump (JSON)" + remedy("f")));
}

TEST_F(FileKind, TheNameSaysNothing) {
  EXPECT_THAT(Said("trace-host-1.db", kProfilerTrace), HasSubstr("PyTorch profiler trace"));
  EXPECT_THAT(Said("a.nsys-rep", "hello\n"), HasSubstr("it is a text file; give a run folder"));
  EXPECT_THAT(Said("picture.db", "\x89PNG\r\n\x1a\n"), HasSubstr("it is a PNG image"));
}

TEST_F(FileKind, CompressedFilesAreLookedInto) {
  const std::string path = Path("a.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  // More than is read of the file, so that it ends in the middle.
  std::string events = kProfilerTrace;
  for (int i = 0; i < 200'000; ++i) events += std::to_string(i * 7919);
  gzwrite(file, events.data(), static_cast<unsigned>(events.size()));
  gzclose(file);
  EXPECT_THAT(FindRun(path).message(),
              HasSubstr("a PyTorch profiler trace (Chrome JSON), compressed with gzip"));
  EXPECT_THAT(Said("b.gz", "\x1f\x8b\x08 and no more"), HasSubstr("a file compressed with gzip"));
}

TEST_F(FileKind, CommonFiles) {
  EXPECT_THAT(Said("a", ""), HasSubstr("it is an empty file"));
  EXPECT_THAT(Said("b", "PK\x03\x04 archive/data.pkl"), HasSubstr("a file of torch.save() (zip)"));
  EXPECT_THAT(Said("c", "PK\x03\x04 a.txt"), HasSubstr("a zip archive"));
  EXPECT_THAT(Said("d", std::string(257, '\0') + "ustar"), HasSubstr("a tar archive"));
  EXPECT_THAT(
      Said("e", "{\"a\": 1}"),
      EndsWith("it is a JSON file; its beginning has no \"traceEvents\", as a trace of "
               "torch.profiler has; give such a file, a run folder or a trace-*.db in one"));
  EXPECT_THAT(Said("f", "\x80\x04K\x01."), HasSubstr("a Python pickle"));
  EXPECT_THAT(Said("h", "\x01\x02\x03"), HasSubstr("a file of another program"));
  // A character that the 64 KiB cut in two is text all the same.
  EXPECT_THAT(Said("g", std::string((64 << 10) - 1, 'x') + "é"), HasSubstr("a text file"));
}

TEST_F(FileKind, DatabasesOfOtherPrograms) {
  MakeDatabase("a.sqlite",
               "CREATE TABLE StringIds(id); CREATE TABLE TARGET_INFO_GPU(id);"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start)");
  EXPECT_THAT(FindRun(Path("a.sqlite")).message(),
              HasSubstr("it is an Nsight Systems report exported to SQLite; make a run of it"));
  MakeDatabase("b.db",
               "CREATE TABLE a(x); CREATE TABLE b(x); CREATE TABLE c(x);"
               "CREATE TABLE d(x); CREATE TABLE e(x); CREATE TABLE f(x)");
  EXPECT_THAT(FindRun(Path("b.db")).message(),
              HasSubstr("a SQLite database of another program (tables a, b, c, d, e, 1 more)"));
}

TEST_F(FileKind, AnEmptyLiveFileIsNoErrorWhileItsWriterLives) {
  const TraceFile file = NewTraceFile(folder_);
  const std::string path = file.LivePath();
  std::ofstream(path).flush();
  EXPECT_FALSE(CheckFileKind(path).ok());
  const Result<TraceLock> lock = TraceLock::TryTake(file);
  ASSERT_TRUE(lock.ok() && lock->held());
  EXPECT_TRUE(CheckFileKind(path).ok());
}

TEST_F(FileKind, ATraceOpensUnderAnyName) {
  const auto writer = TraceWriter::Create(folder_);
  ASSERT_TRUE(writer.ok() && writer.value()->Finish().ok());
  const std::string copy = Path("copy of a run");
  std::filesystem::rename(writer.value()->file().FinishedPath(), copy);
  const Result<RunFiles> run = FindRun(copy);
  ASSERT_TRUE(run.ok()) << run.message();
  const Result<TraceReader> reader = TraceReader::OpenNewest(run.value().traces.front());
  EXPECT_TRUE(reader.ok()) << reader.message();
}

}  // namespace
}  // namespace shardscope::store
