// The folder of the open run is deleted, put back, or replaced by another run's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/ui/harness.h"
#include "trace/bookmarks/bookmarks.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::ui_test {
namespace {

using ::testing::HasSubstr;

constexpr double kPlaceSeconds = 60;  // of the worst machine
constexpr int64_t kPlaceMs = 1'000'000;

void RecordRun(const std::string& folder, int64_t bytes) {
  std::filesystem::create_directory(folder);
  const auto recorder = query::OpenRecorder(folder);
  recorder->Add(schema::RankRow{0, "host", 1, "cpu"});
  const auto track = recorder->Add(schema::TrackRow{{}, 0, "compute", "compute", 1});
  const auto op = query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  record::OpRecord run = query::OpAt(op, 0, 0, 120 * kPlaceMs, 130 * kPlaceMs);
  run.run.track = track;
  recorder->Record(run);
  schema::MemoryEventRow memory;
  memory.device = "cpu";
  memory.issued_ns = memory.executed_ns = 120 * kPlaceMs;
  memory.bytes = bytes;
  memory.category = "activation";
  memory.plan_op = op;
  recorder->Record(memory);
  schema::StepRow step;
  step.start_ns = 100 * kPlaceMs;
  step.end_ns = 200 * kPlaceMs;
  recorder->Record(step);
  SHARDSCOPE_CHECK(recorder->Finish().ok());
}

class RunPlaceTest : public testing::Test {
 protected:
  RunPlaceTest() {
    RecordRun(run_, 1000);
    SHARDSCOPE_CHECK(harness_.shell().Open(run_).ok());
    EXPECT_TRUE(harness_.Until(
        [this] {
          return !harness_.context().snapshot->loading && harness_.context().report != nullptr;
        },
        kPlaceSeconds));
    harness_.Frames(4);
  }

  const ui::DrawnItem* Drawn(const char* panel, const std::string& id) const {
    return harness_.log().Find(panel, id);
  }
  bool Shows(const char* panel, const std::string& id) {
    return harness_.Until([&] { return Drawn(panel, id) != nullptr; }, kPlaceSeconds);
  }
  bool IsThere(bool there) {
    return harness_.Until([&] { return (Drawn("banner", "not_there") == nullptr) == there; },
                          kPlaceSeconds);
  }
  void Show(const char* panel) { harness_.shell().Post(ui::FocusPanel{panel}); }
  // Of the run that is open.
  bool ShowsBlocks(int64_t bytes) {
    Show("blocks");
    harness_.shell().Post(ui::AskBlocks{});
    return harness_.Until(
        [&] {
          const ui::DrawnItem* live = Drawn("blocks", "live");
          return live != nullptr && std::get<int64_t>(live->value) == bytes;
        },
        kPlaceSeconds);
  }

  const query::TestFolder folder_;
  const std::string run_ = folder_.path() + "/run";
  const std::string away_ = folder_.path() + "/away";
  Harness harness_;
};

TEST_F(RunPlaceTest, AFolderThatIsGoneIsSaidUntilItIsBack) {
  std::filesystem::rename(run_, away_);
  ASSERT_TRUE(IsThere(false));
  EXPECT_THAT(Drawn("banner", "not_there")->text, HasSubstr("is gone: what is shown was read"));
  Show("sql");
  ASSERT_TRUE(Shows("sql", "not_there"));
  EXPECT_EQ(Drawn("sql", "table:v_op_run"), nullptr);
  Show("blocks");
  ASSERT_TRUE(Shows("blocks", "empty"));
  EXPECT_THAT(Drawn("blocks", "empty")->text, HasSubstr("is gone"));
  harness_.shell().KeepPicture(ui::PictureKind::kPng,
                               [] { return Result<std::string>("a picture"); });
  EXPECT_TRUE(
      harness_.Until([this] { return !harness_.context().notice.text.empty(); }, kPlaceSeconds));
  EXPECT_TRUE(harness_.context().notice.is_error);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/exports"));

  std::filesystem::rename(away_, run_);
  ASSERT_TRUE(IsThere(true));
  EXPECT_TRUE(ShowsBlocks(1000));
  Show("sql");
  EXPECT_TRUE(Shows("sql", "table:v_op_run"));
}

TEST_F(RunPlaceTest, ARunInItsPlaceIsNotMixedWithItAndCanBeOpened) {
  ASSERT_TRUE(ShowsBlocks(1000));
  Show("sql");
  ASSERT_TRUE(Shows("sql", "table:v_op_run"));
  std::filesystem::remove_all(run_);
  RecordRun(run_, 2000);
  // At once, before anybody has looked.
  harness_.shell().Post(ui::RunSql{"SELECT bytes FROM memory_event"});
  ASSERT_TRUE(IsThere(false));
  EXPECT_THAT(Drawn("banner", "not_there")->text, HasSubstr("holds another run now"));
  ASSERT_TRUE(
      harness_.Until([this] { return harness_.context().sql.answer != nullptr; }, kPlaceSeconds));
  EXPECT_THAT(harness_.context().sql.answer->error, HasSubstr("holds another run now"));
  EXPECT_TRUE(harness_.context().sql.answer->rows.rows.empty());
  Show("blocks");
  ASSERT_TRUE(Shows("blocks", "empty"));
  harness_.shell().Post(ui::AddBookmark{});
  harness_.shell().Post(ui::KeepBookmark{});
  EXPECT_TRUE(harness_.Until(
      [this] {
        const auto& list = harness_.context().bookmarks.list;
        return list != nullptr && list->unsaved == 1;
      },
      kPlaceSeconds));
  EXPECT_FALSE(std::filesystem::exists(bookmarks::FileOf(run_, run_)));

  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//##banner");
    test->ItemClick("**/open_replaced");
  }));
  ASSERT_TRUE(IsThere(true));
  EXPECT_TRUE(ShowsBlocks(2000));
}

}  // namespace
}  // namespace shardscope::ui_test
