// What the GPU did in the golden scenario of a training, on screen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/golden/gpu_scenario.h"
#include "tests/ui/gpu_test_util.h"
#include "tests/ui/harness.h"
#include "trace/analysis/report/report.h"
#include "trace/query/trace_test_util.h"
#include "ui/shell/shot.h"

namespace shardscope::ui_test {
namespace {

query::SnapshotPtr Golden() {
  static const query::SnapshotPtr kGolden = [] {
    const query::TestFolder folder;
    const auto cupti = cupti::LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
    SHARDSCOPE_CHECK(cupti.ok());
    golden::ScenarioOptions options;
    options.policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
    const Status written =
        golden::WriteTrace(golden::MakeScenario(options), cupti.value(), folder.path());
    SHARDSCOPE_CHECK(written.ok());
    return Read(folder.path());
  }();
  return kGolden;
}

TEST(GoldenGpu, EveryStreamHasALaneWithTheKernelsOfTheTrace) {
  const auto shot = shell::TakeShot(Golden(), {.height = 1400, .step = 1});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "gpu-golden");
  std::map<std::string, query::GpuWork> work_of_id;
  for (const query::RankRows& rows : Golden()->ranks) {
    std::map<query::TrackId, int64_t> work_of_track;
    for (const query::GpuWork& work : rows.gpu_work) {
      ++work_of_track[work.track];
      work_of_id[fmt::format("work:{}:{}", rows.rank, work.id.value())] = work;
    }
    ASSERT_GE(work_of_track.size(), 3u);
    for (const auto& [track, count] : work_of_track) {
      const ui::DrawnItem* lane =
          shot->log.Find("timeline", fmt::format("stream:{}:{}", rows.rank, track.value()));
      ASSERT_NE(lane, nullptr) << rows.rank << " " << track.value();
      EXPECT_EQ(std::get<int64_t>(lane->value), count);
    }
  }
  const std::vector<ui::DrawnItem> drawn = Items(shot->log, "timeline", "work:");
  EXPECT_GT(drawn.size(), 50u);
  for (const ui::DrawnItem& item : drawn) {
    const auto work = work_of_id.find(item.id);
    ASSERT_NE(work, work_of_id.end()) << item.id;
    EXPECT_EQ(std::get<int64_t>(item.value), work->second.end_ns - work->second.start_ns);
    EXPECT_EQ(item.text, Golden()->names[static_cast<size_t>(work->second.name)]);
  }
}

TEST(GoldenGpu, HealthAndReportSayTheSame) {
  const auto shot = shell::TakeShot(Golden(), {.height = 1200, .panel = "log"});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "gpu-health");
  const analysis::Report report = analysis::MakeReport(*Golden());
  ASSERT_GT(report.kernels.kernels, 0);
  EXPECT_DOUBLE_EQ(report.kernels.join_rate(), 1);
  const auto value = [&](const char* id) {
    const ui::DrawnItem* item = shot->log.Find("log", id);
    return item == nullptr ? -1 : std::get<int64_t>(item->value);
  };
  EXPECT_EQ(value("gpu_work"), report.kernels.kernels + report.kernels.copies);
  EXPECT_EQ(value("gpu_joined"), report.kernels.joined);
  EXPECT_EQ(value("gpu_overhead"), report.kernels.overhead_ns);
  EXPECT_GT(report.kernels.overhead_ns, 0);
  EXPECT_EQ(value("waits_seen"), report.edges.seen);
  EXPECT_EQ(value("waits_missing"), -1);  // no row where nothing differs
  for (const analysis::SourceState& source : report.sources) {
    const ui::DrawnItem* item = shot->log.Find("log", "source:" + source.source);
    ASSERT_NE(item, nullptr) << source.source;
    EXPECT_THAT(item->text, testing::StartsWith(source.status));
  }
  for (const analysis::GpuClockBounds& bounds : report.gpu_clocks) {
    EXPECT_EQ(value(fmt::format("gpu_clock:{}:{}", bounds.rank, bounds.device).c_str()),
              bounds.uncertainty_ns());
  }
  EXPECT_EQ(report.gpu_clocks.size(), 2u);
  // Kernels and ops are of one virtual clock.
  int64_t exposed_ns = 0;
  for (const analysis::StepBreakdown& step : report.steps) exposed_ns += step.time.exposed_ns;
  EXPECT_NEAR(static_cast<double>(report.kernels.exposed_ns()), static_cast<double>(exposed_ns),
              static_cast<double>(exposed_ns) / 1000);
}

TEST(GoldenGpu, HealthNamesLostWaitsTheRanksOfASourceAndWhatRecordingCosts) {
  auto damaged = std::make_shared<query::Snapshot>(*Golden());
  damaged->run_folder = "damaged";
  damaged->ranks[1].event_edges = {};
  damaged->processes[0].ranks = {0};
  damaged->processes[1].ranks = {1};
  damaged->capabilities = {{"cupti", "on", "", 0, 0},
                           {"cupti", "off", "held by Nsight Systems", 0, 1}};
  for (const bool recorded : {true, false}) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      damaged->overhead_steps.push_back(
          {0, rank, recorded ? 1 : 2, recorded, recorded ? 103 : 100});
    }
  }
  const auto shot = shell::TakeShot(damaged, {.height = 1400, .panel = "log"});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "gpu-health-damaged");
  const analysis::Report report = analysis::MakeReport(*damaged);
  ASSERT_GT(report.edges.missing, 0);
  const ui::DrawnItem* missing = shot->log.Find("log", "waits_missing");
  ASSERT_NE(missing, nullptr);
  EXPECT_EQ(std::get<int64_t>(missing->value), report.edges.missing);
  const std::vector<ui::DrawnItem> listed = Items(shot->log, "log", "wait_differs");
  ASSERT_FALSE(listed.empty());
  EXPECT_THAT(listed[0].text, testing::HasSubstr("rank 1"));
  const std::vector<ui::DrawnItem> sources = Items(shot->log, "log", "source:cupti");
  const std::vector<ui::DrawnItem> reasons = Items(shot->log, "log", "reason:cupti");
  ASSERT_EQ(sources.size(), 2u);
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_EQ(reasons[0].text, "rank 0");
  EXPECT_EQ(reasons[1].text, "rank 1: held by Nsight Systems");
  const ui::DrawnItem* overhead = shot->log.Find("log", "overhead");
  ASSERT_NE(overhead, nullptr);
  EXPECT_EQ(overhead->text, "+3.0 %");
  EXPECT_NE(shot->log.Find("log", "overhead_left_out"), nullptr);
}

// A wait that the Schedule plans and nobody saw is dotted, and Details say what that can mean.
TEST(GoldenGpu, AWaitThatNobodySawIsDrawnWhereItShouldBe) {
  auto damaged = std::make_shared<query::Snapshot>(*Golden());
  damaged->run_folder = "damaged";
  for (query::RankRows& rows : damaged->ranks) rows.event_edges = {};
  const analysis::Report report = analysis::MakeReport(*damaged);
  ASSERT_FALSE(report.edges.differences.empty());
  const auto shot = shell::TakeShot(damaged, {.height = 1400, .step = 1});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "gpu-wait-missing");
  EXPECT_FALSE(Items(shot->log, "timeline", "wait_missing:").empty());
  EXPECT_TRUE(Items(shot->log, "timeline", "wait:").empty());
  ASSERT_NE(shot->log.Find("details", "waited_event"), nullptr);
  EXPECT_THAT(shot->log.Find("details", "waited_event")->text,
              testing::HasSubstr("planned, not seen"));
}

TEST(GoldenGpu, AClickedKernelTellsItsShapeAndItsLaunch) {
  Harness harness;
  harness.shell().OpenSnapshot(Golden());
  harness.Frames(8);
  const query::RankRows& rows = Golden()->ranks[0];
  const ui::DrawnItem* item = nullptr;
  std::optional<query::GpuWork> work;
  const std::vector<ui::DrawnItem> drawn = Items(harness.log(), "timeline", "work:0:");
  for (const ui::DrawnItem& candidate : drawn) {
    for (const query::GpuWork& row : rows.gpu_work) {
      const bool same = candidate.id == "work:0:" + std::to_string(row.id.value());
      if (!same || row.kind != query::GpuWorkKind::kKernel) continue;
      if (candidate.box.x1 - candidate.box.x0 < 10) continue;
      item = &candidate;
      work = row;
    }
  }
  ASSERT_NE(item, nullptr);
  const std::string arrow = "launch:0:" + std::to_string(work->id.value());
  EXPECT_EQ(harness.log().Find("timeline", arrow), nullptr);
  const ImVec2 middle((item->box.x0 + item->box.x1) / 2, (item->box.y0 + item->box.y1) / 2);
  EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(middle);
    test->Yield(2);
    IM_CHECK(harness.log().Find("timeline", arrow) != nullptr);  // hover shows it
    test->MouseClick();
  }));
  EXPECT_EQ(harness.context().selection.span, work->id);
  EXPECT_EQ(harness.context().selection.op_run, query::OpRunId::None());
  const auto detail = [&](const char* id) { return harness.log().Find("details", id); };
  for (const char* id : {"grid", "block", "registers", "shared_bytes", "channel", "op", "stream"}) {
    EXPECT_NE(detail(id), nullptr) << id;
  }
  ASSERT_NE(detail("launch_delay"), nullptr);
  EXPECT_EQ(std::get<int64_t>(detail("launch_delay")->value),
            work->start_ns - work->launch_start_ns);
  EXPECT_EQ(std::get<int64_t>(detail("registers")->value), work->registers);
  const ui::DrawnItem* launch = harness.log().Find("timeline", arrow);
  ASSERT_NE(launch, nullptr);
  EXPECT_EQ(std::get<int64_t>(launch->value), work->start_ns - work->launch_start_ns);
  const int64_t before = harness.context().view.end_ns - harness.context().view.start_ns;
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_F);
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_LT(harness.context().view.end_ns - harness.context().view.start_ns, before / 2);
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Escape); }));
  EXPECT_EQ(harness.context().selection.span, query::SpanId::None());
}

// The kernel whose op waited for another stream's event, drawn wide enough to be clicked.
std::optional<query::GpuWork> WaitingKernel(const ui::DrawLog& log, ImVec2* middle) {
  const query::RankRows& rows = Golden()->ranks[0];
  for (const query::GpuWork& work : rows.gpu_work) {
    const ui::DrawnItem* item = log.Find("timeline", "work:0:" + std::to_string(work.id.value()));
    if (item == nullptr || item->box.x1 - item->box.x0 < 8) continue;
    for (const query::EventEdge& edge : rows.event_edges) {
      if (edge.to_track != work.track || edge.to_correlation != work.correlation) continue;
      *middle = {(item->box.x0 + item->box.x1) / 2, (item->box.y0 + item->box.y1) / 2};
      return work;
    }
  }
  return std::nullopt;
}

// Clicks it; nullopt if there is none.
std::optional<query::GpuWork> ClickWaitingKernel(Harness* harness) {
  ImVec2 middle;
  const std::optional<query::GpuWork> work = WaitingKernel(harness->log(), &middle);
  if (!work) return std::nullopt;
  EXPECT_TRUE(harness->Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(middle);
    test->MouseClick();
    test->Yield(2);
  }));
  return work;
}

TEST(GoldenGpu, OverlapShowsTheStepsOfTheRankOfTheSelectedKernel) {
  Harness harness;
  harness.shell().OpenSnapshot(Golden());
  ASSERT_TRUE(harness.Until([&] { return harness.context().figures != nullptr; }, 20));
  harness.shell().Post(ui::FocusPanel{"overlap"});
  for (const int32_t rank : {1, 0}) {
    const query::RankRows& rows = Golden()->ranks[static_cast<size_t>(rank)];
    harness.shell().Post(ui::SelectSpan{rows.gpu_work[0].id, rank});
    harness.Frames(4);
    const ui::DrawnItem* shown = harness.log().Find("overlap", "rank");
    ASSERT_NE(shown, nullptr);
    EXPECT_EQ(std::get<int64_t>(shown->value), rank);
  }
}

TEST(GoldenGpu, OJumpsFromAKernelToItsOpAndBack) {
  Harness harness;
  harness.shell().OpenSnapshot(Golden());
  harness.Frames(8);
  const std::optional<query::GpuWork> work = ClickWaitingKernel(&harness);
  ASSERT_TRUE(work.has_value());
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_O); }));
  const ui::Selection on_op = harness.context().selection;
  EXPECT_EQ(on_op.span, query::SpanId::None());
  std::optional<query::OpRun> op_run;
  for (const query::OpRun& run : Golden()->ranks[0].op_runs) {
    if (run.id == on_op.op_run) op_run = run;
  }
  ASSERT_TRUE(op_run.has_value());
  EXPECT_EQ(op_run->plan_op, work->plan_op);
  EXPECT_EQ(op_run->step, work->step);
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_O); }));
  const ui::Selection back = harness.context().selection;
  EXPECT_EQ(back.op_run, query::OpRunId::None());
  for (const query::GpuWork& row : Golden()->ranks[0].gpu_work) {
    if (row.id != back.span) continue;
    EXPECT_EQ(row.plan_op, work->plan_op);
    EXPECT_EQ(row.step, work->step);
  }
  EXPECT_GE(back.span, query::SpanId(0));
  // Without a selection there is nowhere to go.
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_Escape);
    test->KeyPress(ImGuiKey_O);
  }));
  EXPECT_EQ(harness.context().selection.span, query::SpanId::None());
  EXPECT_EQ(harness.context().selection.op_run, query::OpRunId::None());
}

TEST(GoldenGpu, WaitsAreLinesOfTheSelectionAndLinksInDetails) {
  Harness harness;
  harness.shell().OpenSnapshot(Golden());
  harness.Frames(8);
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Escape); }));
  harness.Frames(2);
  EXPECT_TRUE(Items(harness.log(), "timeline", "wait:").empty());
  const std::optional<query::GpuWork> work = ClickWaitingKernel(&harness);
  ASSERT_TRUE(work.has_value());
  // Lines begin at the end of what was waited for and end at the start of what waited.
  std::map<query::SpanId, query::GpuWork> work_of_id;
  for (const query::GpuWork& row : Golden()->ranks[0].gpu_work) work_of_id[row.id] = row;
  int64_t incoming = 0;
  const std::vector<ui::DrawnItem> lines = Items(harness.log(), "timeline", "wait:");
  ASSERT_FALSE(lines.empty());
  for (const ui::DrawnItem& line : lines) {
    int64_t from = -1, to = -1;
    ASSERT_EQ(std::sscanf(line.id.c_str(), "wait:%ld:%ld", &from, &to), 2) << line.id;
    ASSERT_TRUE(work_of_id.contains(query::SpanId(from)) && work_of_id.contains(query::SpanId(to)))
        << line.id;
    EXPECT_EQ(std::get<int64_t>(line.value),
              work_of_id[query::SpanId(to)].start_ns - work_of_id[query::SpanId(from)].end_ns);
    incoming += to == work->id.value() ? 1 : 0;
  }
  EXPECT_GE(incoming, 1);
  EXPECT_TRUE(Items(harness.log(), "timeline", "wait_extra:").empty());
  EXPECT_TRUE(Items(harness.log(), "timeline", "wait_missing:").empty());
  // The row in Details leads to the other end.
  const ui::DrawnItem* row = harness.log().Find("details", "waited_event");
  ASSERT_NE(row, nullptr);
  const ImVec2 link((row->box.x0 + row->box.x1) / 2, (row->box.y0 + row->box.y1) / 2);
  EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(link);
    test->MouseClick();
    test->Yield(2);
  }));
  EXPECT_NE(harness.context().selection.span, work->id);
  ASSERT_TRUE(work_of_id.contains(harness.context().selection.span));
  EXPECT_NE(work_of_id[harness.context().selection.span].track, work->track);
}

TEST(GoldenGpu, MemoryHasTheBandsOfTheDevice) {
  const auto shot = shell::TakeShot(Golden(), {});
  ASSERT_TRUE(shot.ok()) << shot.message();
  // Each colour is named, on as many lines as that takes; the plots begin below.
  float legend_end = 0;
  for (const ui::Text text :
       {ui::Text::kMemoryFreeGap, ui::Text::kMemoryReserved, ui::Text::kMemoryOthers,
        ui::Text::kMemoryTracer, ui::Text::kMemoryContext}) {
    const std::string name = ui::Tr(ui::Language::kEnglish, text);
    const ui::DrawnItem* entry = shot->log.Find("memory", "legend:" + name);
    ASSERT_NE(entry, nullptr) << name;
    legend_end = std::max(legend_end, entry->box.y1);
  }
  ASSERT_NE(shot->log.Find("memory", "driver:0"), nullptr);
  EXPECT_LE(legend_end, shot->log.Find("memory", "driver:0")->box.y0);
  const std::vector<analysis::MemoryPeak> peaks = analysis::MemoryPeaks(*Golden());
  for (const analysis::MemoryPeak& peak : peaks) {
    const auto bytes = [&](const std::string& id) -> int64_t {
      const ui::DrawnItem* item = shot->log.Find("memory", id + ":" + std::to_string(peak.rank));
      return item == nullptr ? -1 : std::get<int64_t>(item->value);
    };
    EXPECT_EQ(bytes("peak"), peak.peak_bytes);
    EXPECT_EQ(bytes("driver"), peak.driver_peak_bytes);
    EXPECT_EQ(bytes("used"), peak.device_peak_bytes);
    EXPECT_EQ(bytes("device_peak"), peak.device_peak_bytes);
    EXPECT_GT(bytes("free_gap"), 0);
    EXPECT_GT(bytes("reserved"), 0);
    EXPECT_EQ(std::to_string(bytes("tracer")), Golden()->meta.at("cupti_device_bytes"));
    EXPECT_GT(bytes("tracer"), 0);
    EXPECT_GT(peak.device_peak_bytes, peak.driver_peak_bytes);
    EXPECT_GE(bytes("axis_max"), peak.device_peak_bytes);
  }
}

}  // namespace
}  // namespace shardscope::ui_test
