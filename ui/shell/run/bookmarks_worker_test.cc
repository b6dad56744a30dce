#include "ui/shell/run/bookmarks_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

namespace shardscope::shell {
namespace {

using bookmarks::Bookmark;
using bookmarks::NewBookmark;

class BookmarksWorkerTest : public testing::Test {
 protected:
  BookmarksWorkerTest() : folder_(testing::TempDir() + "/bookmarks_worker_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    file_ = bookmarks::FileOf(folder_, folder_);
  }
  ~BookmarksWorkerTest() override { std::filesystem::remove_all(folder_); }

  static bool Until(const BookmarksWorker& worker,
                    const std::function<bool(const ui::BookmarkList&)>& condition) {
    for (int i = 0; i < 2000; ++i) {
      const BookmarkListPtr list = worker.Latest();
      if (list != nullptr && condition(*list)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  static auto Has(size_t count) {
    return [count](const ui::BookmarkList& list) { return list.all.size() == count; };
  }

  std::string folder_;
  std::string file_;
};

TEST_F(BookmarksWorkerTest, TwoOnOneRunSeeEachOthersChanges) {
  BookmarksWorker one(folder_, folder_, {});
  BookmarksWorker two(folder_, folder_, {});
  const Bookmark a = NewBookmark("step=1", "of one");
  const Bookmark b = NewBookmark("step=2", "of two");
  one.Apply({a});
  two.Apply({b});
  EXPECT_TRUE(Until(one, Has(2)));
  EXPECT_TRUE(Until(two, Has(2)));
  one.Apply({b, true});
  EXPECT_TRUE(Until(two, Has(1)));
  EXPECT_EQ(two.Latest()->all.front(), a);
  EXPECT_EQ(bookmarks::Read(file_).value().size(), 1u);
}

TEST_F(BookmarksWorkerTest, WhatWasAskedLastIsKeptWhenTheRunIsClosed) {
  for (int i = 0; i < 20; ++i) {
    BookmarksWorker worker(folder_, folder_, {});
    worker.Apply({NewBookmark("step=1", "")});
  }
  EXPECT_EQ(bookmarks::Read(file_).value().size(), 20u);
}

TEST_F(BookmarksWorkerTest, ADamagedFileIsSaidAndLeftUntilItIsSetAside) {
  std::ofstream(file_) << "{\"version\": 1, \"bookm";
  BookmarksWorker worker(folder_, folder_, {});
  const auto is_wrong = [](const ui::BookmarkList& list) { return !list.problem.empty(); };
  ASSERT_TRUE(Until(worker, is_wrong));
  EXPECT_THAT(worker.Latest()->problem, testing::HasSubstr(file_));
  worker.Apply({NewBookmark("step=1", "kept in memory")});
  ASSERT_TRUE(Until(worker, Has(1)));
  EXPECT_TRUE(is_wrong(*worker.Latest()));
  EXPECT_EQ(worker.Latest()->unsaved, 1);
  EXPECT_EQ(std::filesystem::file_size(file_), 21u);  // as it was
  std::filesystem::rename(file_, file_ + ".old");
  ASSERT_TRUE(Until(worker, [](const ui::BookmarkList& list) { return list.problem.empty(); }));
  EXPECT_EQ(worker.Latest()->unsaved, 0);
  EXPECT_EQ(bookmarks::Read(file_).value().size(), 1u);
}

TEST_F(BookmarksWorkerTest, WhereNothingCanBeWrittenTheyStayInMemory) {
  BookmarksWorker worker(folder_ + "/gone/run", folder_ + "/gone/run", {});
  worker.Apply({NewBookmark("step=1", "a")});
  worker.Apply({NewBookmark("step=2", "b")});
  ASSERT_TRUE(Until(worker, Has(2)));
  EXPECT_FALSE(worker.Latest()->problem.empty());
  BookmarksWorker of_no_run({}, {}, {});
  of_no_run.Apply({NewBookmark("step=1", "a")});
  ASSERT_TRUE(Until(of_no_run, Has(1)));
  EXPECT_EQ(of_no_run.Latest()->problem, "");
}

TEST_F(BookmarksWorkerTest, ARunInTheFoldersPlaceGetsNone) {
  const Bookmark before = NewBookmark("step=1", "before");
  ASSERT_TRUE(bookmarks::Apply(file_, {bookmarks::Change{before}}).ok());
  BookmarksWorker worker(folder_, folder_, {}, std::make_shared<FolderWatch>(folder_));
  ASSERT_TRUE(Until(worker, Has(1)));
  const std::string away = folder_ + ".away";
  std::filesystem::remove_all(away);
  std::filesystem::rename(folder_, away);
  std::filesystem::create_directory(folder_);
  worker.Apply({NewBookmark("step=2", "after")});
  ASSERT_TRUE(Until(worker, Has(2)));
  EXPECT_THAT(worker.Latest()->problem, testing::HasSubstr("holds another run now"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  std::filesystem::remove(folder_);
  std::filesystem::rename(away, folder_);
  ASSERT_TRUE(Until(worker, [](const ui::BookmarkList& list) { return list.problem.empty(); }));
  EXPECT_EQ(bookmarks::Read(file_).value().size(), 2u);
}

}  // namespace
}  // namespace shardscope::shell
