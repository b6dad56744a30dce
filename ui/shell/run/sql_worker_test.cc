#include "ui/shell/run/sql_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "trace/query/trace_test_util.h"

namespace shardscope::shell {
namespace {

using ::testing::HasSubstr;

constexpr const char* kEndless =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

class SqlWorkerTest : public ::testing::Test {
 protected:
  SqlWorkerTest() {
    const auto recorder = query::OpenRecorder(folder_.path());
    SHARDSCOPE_CHECK(recorder->Finish().ok());
    worker_ = std::make_unique<SqlWorker>(std::make_shared<FolderWatch>(folder_.path()),
                                          [this] { Wake(); });
  }

  void Wake() {
    const MutexLock lock(mutex_);
    ++wakes_;
    woken_.notify_all();
  }

  // The console once `is_there`; waits for the worker, not for a time.
  ui::SqlConsole Until(const std::function<bool(const ui::SqlConsole&)>& is_there) {
    ui::SqlConsole console;
    MutexLock lock(mutex_);
    while (true) {
      worker_->Show(&console);
      if (is_there(console)) return console;
      const int before = wakes_;
      woken_.wait(lock, [this, before]() REQUIRES(mutex_) { return wakes_ != before; });
    }
  }
  ui::SqlConsole Answered(const std::string& sql) {
    return Until([&](const ui::SqlConsole& console) {
      return console.running.empty() && console.answer && console.answer->query == sql;
    });
  }

  const query::TestFolder folder_;
  Mutex mutex_;
  CondVar woken_;
  int wakes_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<SqlWorker> worker_;
};

TEST_F(SqlWorkerTest, ListsTablesAndAnswers) {
  EXPECT_GT(Until([](const auto& console) { return console.tables != nullptr; }).tables->size(),
            10u);
  worker_->Start("SELECT value FROM config WHERE key = 'run.ranks'");
  const ui::SqlConsole console = Answered("SELECT value FROM config WHERE key = 'run.ranks'");
  ASSERT_EQ(console.answer->rows.rows.size(), 1u) << console.answer->error;
  EXPECT_EQ(console.answer->rows.rows[0][0], query::Cell(std::string("2")));
  EXPECT_FALSE(console.answer->is_cancelled);
  worker_->Start("SELECT nowhere");
  EXPECT_THAT(Answered("SELECT nowhere").answer->error, HasSubstr("no such column: nowhere"));
}

TEST_F(SqlWorkerTest, CancelsWhatRuns) {
  worker_->Start(kEndless);
  worker_->Cancel();  // before or after it began
  EXPECT_TRUE(Answered(kEndless).answer->is_cancelled);
  worker_->Start("SELECT 1");
  EXPECT_EQ(Answered("SELECT 1").answer->rows.rows.size(), 1u);

  worker_->Start(kEndless);
  ui::SqlConsole console;
  worker_->Show(&console);
  EXPECT_EQ(console.running, kEndless);
  worker_->Start("SELECT 2");  // instead of it
  EXPECT_EQ(Answered("SELECT 2").answer->rows.rows[0][0], query::Cell(int64_t{2}));
  worker_->Start(kEndless);
  worker_.reset();  // ends although it runs
}

TEST_F(SqlWorkerTest, SelectsNothingFromARunInTheFoldersPlace) {
  Until([](const auto& console) { return console.tables != nullptr; });
  const std::string away = folder_.path() + ".away";
  std::filesystem::rename(folder_.path(), away);
  worker_->Start("SELECT 1");
  EXPECT_THAT(Answered("SELECT 1").answer->error, HasSubstr("is gone"));
  std::filesystem::create_directory(folder_.path());
  SHARDSCOPE_CHECK(query::OpenRecorder(folder_.path())->Finish().ok());
  worker_->Start("SELECT 2");
  EXPECT_THAT(Answered("SELECT 2").answer->error, HasSubstr("holds another run now"));
  EXPECT_TRUE(Answered("SELECT 2").answer->rows.rows.empty());
  std::filesystem::remove_all(folder_.path());
  std::filesystem::rename(away, folder_.path());
  worker_->Start("SELECT 3");
  EXPECT_EQ(Answered("SELECT 3").answer->rows.rows.size(), 1u);
}

}  // namespace
}  // namespace shardscope::shell
