// What the GPU did in a program that nobody changed, on screen.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/ui/gpu_test_util.h"
#include "tests/ui/harness.h"
#include "tests/ui/recorded_program_test_util.h"
#include "trace/analysis/report/report.h"
#include "ui/shell/shot.h"

namespace shardscope::ui_test {
namespace {

TEST(RecordedGpu, ShowsThreadsStreamsWaitsAndSharedQueuesWithoutOpLanes) {
  const RecordedProgram program;
  const auto shot = shell::TakeShot(program.snapshot(), {});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "gpu-recorded");
  EXPECT_TRUE(Items(shot->log, "timeline", "op_run:").empty());
  const ui::DrawnItem* thread =
      shot->log.Find("timeline", fmt::format("thread:0:{}", program.thread(0).value()));
  ASSERT_NE(thread, nullptr);
  EXPECT_EQ(std::get<int64_t>(thread->value), 20);
  // Ranges stand over what they contain.
  std::map<std::string, float> y_of;
  for (const ui::DrawnItem& item : Items(shot->log, "timeline", "range:0:")) {
    y_of.emplace(item.text, item.box.y0);
  }
  ASSERT_EQ(y_of.count("train_step") + y_of.count("forward") + y_of.count("FSDP::all_gather"), 3u);
  EXPECT_LT(y_of["train_step"], y_of["forward"]);
  EXPECT_LT(y_of["forward"], y_of["FSDP::all_gather"]);
  EXPECT_GE(y_of["FSDP::all_gather"], y_of["backward"]);
  // Rank 0 waits for rank 1 in its gathers: 4 ms of 10.
  const std::vector<ui::DrawnItem> waits = Items(shot->log, "timeline", "wait_of_work:0:");
  ASSERT_EQ(waits.size(), 5u);
  EXPECT_TRUE(Items(shot->log, "timeline", "wait_of_work:1:").empty());
  const std::string id = waits[0].id.substr(waits[0].id.rfind(':'));
  const ui::DrawnItem* gather = shot->log.Find("timeline", "work:0" + id);
  ASSERT_NE(gather, nullptr);
  EXPECT_NEAR(waits[0].box.x1 - waits[0].box.x0, 0.4F * (gather->box.x1 - gather->box.x0), 2);
  for (const ui::DrawnItem& channel : Items(shot->log, "timeline", "channel:")) {
    EXPECT_EQ(channel.unit, "shared") << channel.id;
    EXPECT_EQ(std::get<int64_t>(channel.value), 9);
  }
  EXPECT_EQ(Items(shot->log, "timeline", "channel:").size(), 4u);
  // The longest collective is selected, with the arrow from its launch.
  ASSERT_NE(shot->log.Find("details", "title"), nullptr);
  EXPECT_THAT(shot->log.Find("details", "title")->text, testing::HasSubstr("AllGather"));
  EXPECT_THAT(shot->log.Find("details", "nccl")->text, testing::HasSubstr("AllGather #"));
  EXPECT_EQ(Items(shot->log, "timeline", "launch:0:").size(), 1u);
}

TEST(RecordedGpu, MemoryShowsWhatIsReservedTakenByOthersAndFreedButInUse) {
  const RecordedProgram program;
  const auto shot = shell::TakeShot(program.snapshot(), {.language = ui::Language::kChinese});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "gpu-recorded-zh");
  for (const char* rank : {"0", "1"}) {
    const auto bytes = [&](const std::string& id) -> int64_t {
      const ui::DrawnItem* item = shot->log.Find("memory", id + ":" + rank);
      return item == nullptr ? -1 : std::get<int64_t>(item->value);
    };
    EXPECT_EQ(bytes("driver"), 600'000'000);
    EXPECT_EQ(bytes("reserved"), 400'000'000);
    EXPECT_EQ(bytes("nccl"), 100'000'000);
    EXPECT_EQ(bytes("used"), 900'000'000);
    EXPECT_EQ(bytes("free_gap"), 100'000'000);
    EXPECT_GE(bytes("axis_max"), 900'000'000);
  }
}

TEST(RecordedGpu, WithoutRowsOfMemoryThereIsNoEmptyAxis) {
  const RecordedProgram program;
  auto bare = std::make_shared<query::Snapshot>(*program.snapshot());
  bare->run_folder = "bare";
  for (query::RankRows& rows : bare->ranks) {
    rows.memory = {};
    rows.segments = {};
    rows.device_used = {};
  }
  const auto shot = shell::TakeShot(bare, {});
  ASSERT_TRUE(shot.ok()) << shot.message();
  EXPECT_NE(shot->log.Find("memory", "empty"), nullptr);
  EXPECT_EQ(shot->log.Find("memory", "axis_max:0"), nullptr);
}

TEST(RecordedGpu, HitsOfTheSearchAreLitInStreamsAndInNestedRanges) {
  const RecordedProgram program;
  // Five steps on two ranks, all of which is in view.
  const std::map<std::string, int64_t> hits_of = {{"fsdp::", 10},
                                                  {"kind:range forward", 10},
                                                  {"train_step rank:1", 5},
                                                  {"kind:kernel allgather", 10}};
  for (const auto& [query, hits] : hits_of) {
    const auto shot = shell::TakeShot(program.snapshot(), {.search = query});
    ASSERT_TRUE(shot.ok()) << shot.message();
    const auto value = [&log = shot->log](const char* panel, const char* id) {
      const ui::DrawnItem* item = log.Find(panel, id);
      return item == nullptr ? -1 : std::get<int64_t>(item->value);
    };
    EXPECT_EQ(value("search", "count"), hits) << query;
    EXPECT_EQ(value("timeline", "hits_lit"), hits) << query;
    EXPECT_GE(value("timeline", "minimap_hits"), 5) << query;  // of both ranks on one pixel, or not
    EXPECT_LE(value("timeline", "minimap_hits"), hits) << query;
  }
}

TEST(RecordedGpu, AHitThatIsAKernelOrARangeIsSelected) {
  const RecordedProgram program;
  Harness harness;
  harness.shell().OpenSnapshot(program.snapshot());
  harness.Frames(8);
  harness.shell().Post(ui::ShowSearch{true});
  for (const auto& [query, prefix] : {std::pair("kind:kernel allgather rank:1", "work:1:"),
                                      std::pair("fsdp::all_gather rank:1", "range:1:")}) {
    harness.shell().Post(ui::SearchFor{query});
    ASSERT_TRUE(harness.Until(
        [&, text = std::string(query)] {
          const auto& found = harness.context().search.found;
          return found != nullptr && found->text == text;
        },
        20));
    const std::vector<analysis::SearchHit> hits = harness.context().search.found->result.hits;
    ASSERT_EQ(hits.size(), 5u) << query;
    harness.shell().Post(ui::SelectHit{3});
    harness.Frames(2);
    ASSERT_TRUE(harness.Until(
        [&, id = prefix + std::to_string(hits[3].span.value())] {
          return harness.log().Find("timeline", id) != nullptr;
        },
        20));
    EXPECT_EQ(harness.context().selection.span, hits[3].span);
    EXPECT_EQ(harness.context().selection.rank, 1);
    EXPECT_TRUE(harness.context().selection.op_run.is_none());
    EXPECT_GE(hits[3].start_ns, harness.context().view.start_ns);
    EXPECT_LE(hits[3].end_ns, harness.context().view.end_ns);
  }
}

TEST(RecordedGpu, ReportCountsOverlapByKernels) {
  const RecordedProgram program;
  const analysis::KernelSummary kernels = analysis::MakeReport(*program.snapshot()).kernels;
  EXPECT_EQ(kernels.kernels, 20);
  EXPECT_EQ(kernels.joined, 0);
  EXPECT_EQ(kernels.compute_ns, 10 * 12 * kMs);
  EXPECT_EQ(kernels.communication_ns, 5 * (10 + 6) * kMs);
  EXPECT_EQ(kernels.exposed_ns(), 0);
  EXPECT_EQ(kernels.overlapping_pairs, 10);
}

}  // namespace
}  // namespace shardscope::ui_test
