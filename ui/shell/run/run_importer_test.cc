#include "ui/shell/run/run_importer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "trace/bookmarks/bookmarks.h"
#include "trace/import/cache.h"
#include "trace/query/live_trace.h"

namespace shardscope::shell {
namespace {

namespace fs = std::filesystem;

class RunImporterTest : public testing::Test {
 protected:
  RunImporterTest() : folder_(fs::path(testing::TempDir()) / fmt::format("imports{}", getpid())) {
    fs::create_directories(folder_);
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }
  ~RunImporterTest() override {
    unsetenv("XDG_CACHE_HOME");
    fs::remove_all(folder_);
  }

  // A trace of `num_kernels` kernels, one a microsecond; without its end if `cut`.
  std::string Trace(int num_kernels, bool cut = false) const {
    const std::string path = folder_ / "rank0.json";
    std::ofstream file(path);
    file << R"({"schemaVersion":1,"traceEvents":[)";
    for (int i = 0; i < num_kernels; ++i) {
      file << (i == 0 ? "\n" : ",\n")
           << fmt::format(
                  R"({{"ph":"X","cat":"kernel","name":"k{}","pid":0,"tid":7,"ts":{},"dur":1,)"
                  R"("args":{{"device":0,"stream":7,"correlation":{}}}}})",
                  i % 10, i, i);
    }
    if (!cut) file << "\n]}";
    return path;
  }

  // Names under the cache.
  std::vector<std::string> Cached() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache/shardscope/imports"))
      names.push_back(entry.path().filename());
    return names;
  }

  static void WaitFor(const RunImporter& importer) {
    while (!importer.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  const fs::path folder_;
};

TEST_F(RunImporterTest, IsForWhatIsNoRunYet) {
  const std::string path = Trace(10);
  EXPECT_TRUE(imports::NeedsImport(path));
  EXPECT_FALSE(imports::NeedsImport(folder_ / "nothing"));
  RunImporter importer(path, nullptr);
  WaitFor(importer);
  EXPECT_FALSE(imports::NeedsImport(importer.TakeRun()->value()->folder()));
}

TEST_F(RunImporterTest, GivesASmallRunWithoutAPreviewOnce) {
  RunImporter importer(Trace(100), nullptr);
  WaitFor(importer);
  EXPECT_EQ(importer.TakePreview(), nullptr);
  const auto run = importer.TakeRun();
  ASSERT_TRUE(run.has_value());
  ASSERT_TRUE(run->ok()) << run->message();
  EXPECT_TRUE(query::LookAtRun((**run)->folder()).found);
  EXPECT_FALSE(importer.TakeRun().has_value());
}

TEST_F(RunImporterTest, GivesAPreviewOfALargeOneAndRemovesItInTheEnd) {
  std::string preview;
  {
    RunImporter importer(Trace(700'000), nullptr);  // 70 MB
    WaitFor(importer);
    const auto rows = [](const std::string& folder) {
      return query::ReadSnapshot(folder).value()->ranks.at(0).gpu_work.size();
    };
    const std::unique_ptr<RunSession> first = importer.TakePreview();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(importer.TakePreview(), nullptr);
    preview = first->folder();
    EXPECT_LT(rows(preview), 700'000u);
    EXPECT_GT(rows(preview), 0u);
    const auto run = importer.TakeRun();
    ASSERT_TRUE(run.has_value() && run->ok());
    EXPECT_EQ(rows((**run)->folder()), 700'000u);
    EXPECT_EQ(importer.share(), 1);
  }
  EXPECT_FALSE(fs::exists(preview));
  EXPECT_EQ(Cached().size(), 1u);
}

TEST_F(RunImporterTest, LeavesNothingOfACancelledOne) {
  {
    RunImporter importer(Trace(700'000), nullptr);
    importer.Cancel();
    WaitFor(importer);
    EXPECT_FALSE(importer.TakeRun().has_value());
  }
  EXPECT_THAT(Cached(), testing::IsEmpty());
}

// Bookmarks of what was imported stand beside it: they are no reason to import it again.
TEST_F(RunImporterTest, BookmarksBesideATraceAreNoPartOfIt) {
  const std::string trace = Trace(100);
  const fs::path traces = folder_ / "traces";
  fs::create_directories(traces);
  fs::rename(trace, traces / "rank0.json");
  const auto run = imports::ImportCached(traces.string());
  ASSERT_TRUE(run.ok()) << run.message();
  const std::string file = bookmarks::FileOf((traces / "rank0.json").string(), run->folder);
  EXPECT_EQ(fs::path(file).parent_path(), fs::weakly_canonical(traces));
  ASSERT_TRUE(bookmarks::Apply(file, {{bookmarks::NewBookmark("t=0ns..1ms", "")}}).ok());
  EXPECT_TRUE(imports::IsCached(traces.string()));
  EXPECT_EQ(imports::ImportCached(traces.string())->folder, run->folder);
}

}  // namespace
}  // namespace shardscope::shell
