#include "trace/bookmarks/bookmarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trace/base/process.h"

namespace shardscope::bookmarks {
namespace {

using testing::HasSubstr;

class BookmarksTest : public testing::Test {
 protected:
  BookmarksTest() : folder_(testing::TempDir() + "/bookmarks_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    file_ = folder_ + "/bookmarks.json";
  }
  ~BookmarksTest() override {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(folder_);
  }

  void WriteText(const std::string& text) const { std::ofstream(file_) << text; }
  std::string Text() const {
    std::ifstream stream(file_);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::string folder_;
  std::string file_;
};

TEST_F(BookmarksTest, AreAddedChangedAndRemoved) {
  EXPECT_TRUE(Read(file_).value().empty());
  EXPECT_FALSE(std::filesystem::exists(file_));  // reading makes none
  const Bookmark first = NewBookmark("step=3", "a note with \"quotes\", 中文");
  Bookmark second = NewBookmark("step=5&rank=1&op=AG%20block1", "");
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(first.made.size(), std::string("2026-11-25T12:53:11Z").size());
  ASSERT_TRUE(Apply(file_, {{first}}).ok());
  EXPECT_THAT(Apply(file_, {{second}}).value(), testing::ElementsAre(first, second));
  second.note = "changed";
  ASSERT_TRUE(Apply(file_, {{second}}).ok());
  EXPECT_THAT(Read(file_).value(), testing::ElementsAre(first, second));
  EXPECT_THAT(Apply(file_, {{first, true}, {first, true}}).value(), testing::ElementsAre(second));
}

// As a trainer does that records into the run.
TEST_F(BookmarksTest, AreKeptWhileTheFolderIsLocked) {
  FolderLock trainer(folder_);
  const Bookmark one = NewBookmark("step=3", "while it trains");
  auto kept = std::async(std::launch::async, [&] { return Apply(file_, {{one}}); });
  EXPECT_EQ(kept.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  trainer = FolderLock();
  EXPECT_THAT(kept.get().value(), testing::ElementsAre(one));
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename(), "bookmarks.json");
  }
}

TEST_F(BookmarksTest, WhatIsNotKnownStays) {
  WriteText(R"({"made_by": "a script", "version": 1, "bookmarks": [
    {"id": "a", "link": "step=1", "note": "x", "made": "then", "color": "red"}]})");
  ASSERT_TRUE(Apply(file_, {{{"a", "step=1", "y", "then"}}, {NewBookmark("step=2", "")}}).ok());
  EXPECT_THAT(Text(), HasSubstr("\"made_by\": \"a script\""));
  EXPECT_THAT(Text(), HasSubstr("\"color\": \"red\""));
  EXPECT_THAT(Text(), HasSubstr("\"note\": \"y\""));
  EXPECT_EQ(Read(file_).value().size(), 2u);
}

TEST_F(BookmarksTest, AFileThatCannotBeReadIsNeverOverwritten) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no whole JSON"},
      {R"({"version": 1, "bookmarks": [{"id": "a", )", "no whole JSON"},
      {std::string("{\"version\": 1, \"bookmarks\": \"\xff\"}"), "no whole JSON"},
      {"[]", "no 'version' and 'bookmarks'"},
      {R"({"version": "x", "bookmarks": []})", "no 'version'"},
      {R"({"version": 2, "bookmarks": []})", "a newer Shardscope wrote it"},
      {R"({"version": 1, "bookmarks": [{"id": "a", "link": "s"}, 5]})", "bookmark 2 is no object"},
      {R"({"version": 1, "bookmarks": [{"id": "a"}]})", "bookmark 1 has no text 'link'"},
      {R"({"version": 1, "bookmarks": [{"id": "", "link": "s"}]})", "an empty 'id'"},
      {R"({"version": 1, "bookmarks": [{"id": "a", "link": "s", "note": 3}]})", "no text 'note'"},
      {std::string(100'000, '['), "no whole JSON"},
  };
  for (const auto& [text, why] : cases) {
    WriteText(text);
    const auto read = Read(file_);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.message(), HasSubstr(file_));
    EXPECT_THAT(read.message(), HasSubstr(why));
    EXPECT_EQ(Apply(file_, {{NewBookmark("step=1", "")}}).message(), read.message());
    EXPECT_EQ(Text(), text);
  }
}

TEST_F(BookmarksTest, AFolderThatCannotBeWrittenIsSaid) {
  if (geteuid() == 0) {
    // Whom rights do not bind: a folder that is not there.
    EXPECT_THAT(Apply(folder_ + "/gone/bookmarks.json", {{NewBookmark("step=1", "")}}).message(),
                HasSubstr("gone/bookmarks.json"));
    return;
  }
  std::filesystem::permissions(
      folder_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_THAT(Apply(file_, {{NewBookmark("step=1", "")}}).message(), HasSubstr(file_));
}

TEST_F(BookmarksTest, OfARunThatWasDeletedItSaysThatItsFolderIsGone) {
  EXPECT_THAT(Apply(folder_ + "/gone/bookmarks.json", {{NewBookmark("step=1", "")}}).message(),
              HasSubstr("the folder of the run is gone"));
}

TEST_F(BookmarksTest, SeveralWritersLoseNothing) {
  constexpr int kEach = 25;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([this] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(Apply(file_, {{NewBookmark("step=1", "")}}).ok());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::set<std::string> ids;
  const std::vector<Bookmark> all = Read(file_).value();
  for (const Bookmark& bookmark : all) ids.insert(bookmark.id);
  EXPECT_EQ(ids.size(), size_t{4 * kEach});
}

TEST_F(BookmarksTest, TheFileStandsBesideTheRun) {
  const auto canonical = [](const std::string& path) {
    return std::filesystem::weakly_canonical(path).string();
  };
  std::filesystem::create_directories(folder_ + "/run");
  std::filesystem::create_directories(folder_ + "/cache/1234");
  const std::string run = folder_ + "/run";
  EXPECT_EQ(FileOf(run, run), canonical(run + "/bookmarks.json"));
  EXPECT_EQ(FileOf(run + "/", run), canonical(run + "/bookmarks.json"));
  EXPECT_EQ(FileOf(run + "/trace.db", run), canonical(run + "/trace.db.bookmarks.json"));
  const std::string cached = folder_ + "/cache/1234";
  EXPECT_EQ(FileOf(folder_ + "/a.json.gz", cached),
            canonical(folder_ + "/a.json.gz.bookmarks.json"));
  EXPECT_EQ(FileOf("/proc/gone/a.json.gz", cached), canonical(cached + "/bookmarks.json"));
}

// One at a time and together they do the same to a list as to the file.
TEST_F(BookmarksTest, AListIsChangedAsTheFileIs) {
  const Bookmark a = NewBookmark("step=1", "a");
  const Bookmark b = NewBookmark("step=2", "b");
  const std::vector<Change> changes = {{a}, {b}, {{a.id, "step=3", "c", a.made}}, {b, true}};
  std::vector<Bookmark> list;
  Apply(changes, &list);
  EXPECT_EQ(list, Apply(file_, changes).value());
  EXPECT_THAT(list, testing::ElementsAre(Bookmark{a.id, "step=3", "c", a.made}));
}

}  // namespace
}  // namespace shardscope::bookmarks
