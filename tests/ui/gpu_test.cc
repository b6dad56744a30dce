// What the GPU did, on screen: the golden scenario of a training, and a program that nobody
// changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "tests/golden/gpu_scenario.h"
#include "tests/ui/harness.h"
#include "trace/analysis/report.h"
#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"
#include "ui/shell/shot.h"

namespace shardscope::ui_test {
namespace {

constexpr int64_t kMs = 1'000'000;

void Keep(const shell::Shot& shot, const std::string& name) {
  const char* folder = std::getenv("SHARDSCOPE_PICTURES");
  if (folder == nullptr) return;
  const Status status = shell::WritePng(shot.image, std::string(folder) + "/" + name + ".png");
  EXPECT_TRUE(status.ok()) << status.message();
}

query::SnapshotPtr Read(const std::string& folder) {
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(folder);
  SHARDSCOPE_CHECK(snapshot.ok());
  return snapshot.value();
}

query::SnapshotPtr Golden() {
  static const query::SnapshotPtr kGolden = [] {
    const query::TestFolder folder;
    const auto cupti = cupti::LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
    SHARDSCOPE_CHECK(cupti.ok());
    golden::ScenarioOptions options;
    options.policy.num_ranks = 2;
    const Status written =
        golden::WriteTrace(golden::MakeScenario(options), cupti.value(), folder.path());
    SHARDSCOPE_CHECK(written.ok());
    return Read(folder.path());
  }();
  return kGolden;
}

// Items of `panel` whose id begins with `prefix`.
std::vector<ui::DrawnItem> Items(const ui::DrawLog& log, const char* panel,
                                 const std::string& prefix) {
  std::vector<ui::DrawnItem> items;
  for (const ui::DrawnItem& item : log.items()) {
    if (item.panel == panel && item.id.starts_with(prefix)) items.push_back(item);
  }
  return items;
}

TEST(GoldenGpu, EveryStreamHasALaneWithTheKernelsOfTheTrace) {
  const auto shot = shell::TakeShot(Golden(), {.height = 1400, .step = 1});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "gpu-golden");
  std::map<std::string, const query::GpuWork*> work_of_id;
  for (const query::RankRows& rows : Golden()->ranks) {
    std::map<int64_t, int64_t> work_of_track;
    for (const query::GpuWork& work : rows.gpu_work) {
      ++work_of_track[work.track];
      work_of_id[fmt::format("work:{}:{}", rows.rank, work.id)] = &work;
    }
    ASSERT_GE(work_of_track.size(), 3u);
    for (const auto& [track, count] : work_of_track) {
      const ui::DrawnItem* lane =
          shot->log.Find("timeline", fmt::format("stream:{}:{}", rows.rank, track));
      ASSERT_NE(lane, nullptr) << rows.rank << " " << track;
      EXPECT_EQ(std::get<int64_t>(lane->value), count);
    }
  }
  const std::vector<ui::DrawnItem> drawn = Items(shot->log, "timeline", "work:");
  EXPECT_GT(drawn.size(), 50u);
  for (const ui::DrawnItem& item : drawn) {
    const auto work = work_of_id.find(item.id);
    ASSERT_NE(work, work_of_id.end()) << item.id;
    EXPECT_EQ(std::get<int64_t>(item.value), work->second->end_ns - work->second->start_ns);
    EXPECT_EQ(item.text, Golden()->names[static_cast<size_t>(work->second->name)]);
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
  for (const analysis::StepBreakdown& step : report.steps) exposed_ns += step.exposed_ns;
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
  const query::GpuWork* work = nullptr;
  const std::vector<ui::DrawnItem> drawn = Items(harness.log(), "timeline", "work:0:");
  for (const ui::DrawnItem& candidate : drawn) {
    for (const query::GpuWork& row : rows.gpu_work) {
      const bool same = candidate.id == "work:0:" + std::to_string(row.id);
      if (!same || row.kind != query::GpuWorkKind::kKernel) continue;
      if (candidate.box.x1 - candidate.box.x0 < 10) continue;
      item = &candidate;
      work = &row;
    }
  }
  ASSERT_NE(item, nullptr);
  const std::string arrow = "launch:0:" + std::to_string(work->id);
  EXPECT_EQ(harness.log().Find("timeline", arrow), nullptr);
  const ImVec2 middle((item->box.x0 + item->box.x1) / 2, (item->box.y0 + item->box.y1) / 2);
  EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(middle);
    test->Yield(2);
    IM_CHECK(harness.log().Find("timeline", arrow) != nullptr);  // hover shows it
    test->MouseClick();
  }));
  EXPECT_EQ(harness.context().selection.span, work->id);
  EXPECT_EQ(harness.context().selection.op_run, -1);
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
  EXPECT_EQ(harness.context().selection.span, -1);
}

// The kernel whose op waited for another stream's event, drawn wide enough to be clicked.
const query::GpuWork* WaitingKernel(const ui::DrawLog& log, ImVec2* middle) {
  const query::RankRows& rows = Golden()->ranks[0];
  for (const query::GpuWork& work : rows.gpu_work) {
    const ui::DrawnItem* item = log.Find("timeline", "work:0:" + std::to_string(work.id));
    if (item == nullptr || item->box.x1 - item->box.x0 < 8) continue;
    for (const query::EventEdge& edge : rows.event_edges) {
      if (edge.to_track != work.track || edge.to_correlation != work.correlation) continue;
      *middle = {(item->box.x0 + item->box.x1) / 2, (item->box.y0 + item->box.y1) / 2};
      return &work;
    }
  }
  return nullptr;
}

TEST(GoldenGpu, OJumpsFromAKernelToItsOpAndBack) {
  Harness harness;
  harness.shell().OpenSnapshot(Golden());
  harness.Frames(8);
  ImVec2 middle;
  const query::GpuWork* work = WaitingKernel(harness.log(), &middle);
  ASSERT_NE(work, nullptr);
  EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(middle);
    test->MouseClick();
    test->Yield(2);
    test->KeyPress(ImGuiKey_O);
  }));
  const ui::Selection on_op = harness.context().selection;
  EXPECT_EQ(on_op.span, -1);
  const query::OpRun* op_run = nullptr;
  for (const query::OpRun& run : Golden()->ranks[0].op_runs) {
    if (run.id == on_op.op_run) op_run = &run;
  }
  ASSERT_NE(op_run, nullptr);
  EXPECT_EQ(op_run->plan_op, work->plan_op);
  EXPECT_EQ(op_run->step, work->step);
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_O); }));
  const ui::Selection back = harness.context().selection;
  EXPECT_EQ(back.op_run, -1);
  for (const query::GpuWork& row : Golden()->ranks[0].gpu_work) {
    if (row.id != back.span) continue;
    EXPECT_EQ(row.plan_op, work->plan_op);
    EXPECT_EQ(row.step, work->step);
  }
  EXPECT_GE(back.span, 0);
  // Without a selection there is nowhere to go.
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_Escape);
    test->KeyPress(ImGuiKey_O);
  }));
  EXPECT_EQ(harness.context().selection.span, -1);
  EXPECT_EQ(harness.context().selection.op_run, -1);
}

TEST(GoldenGpu, WaitsAreLinesOfTheSelectionAndLinksInDetails) {
  Harness harness;
  harness.shell().OpenSnapshot(Golden());
  harness.Frames(8);
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Escape); }));
  harness.Frames(2);
  EXPECT_TRUE(Items(harness.log(), "timeline", "wait:").empty());
  ImVec2 middle;
  const query::GpuWork* work = WaitingKernel(harness.log(), &middle);
  ASSERT_NE(work, nullptr);
  EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(middle);
    test->MouseClick();
    test->Yield(2);
  }));
  // Lines begin at the end of what was waited for and end at the start of what waited.
  std::map<int64_t, const query::GpuWork*> work_of_id;
  for (const query::GpuWork& row : Golden()->ranks[0].gpu_work) work_of_id[row.id] = &row;
  int64_t incoming = 0;
  const std::vector<ui::DrawnItem> lines = Items(harness.log(), "timeline", "wait:");
  ASSERT_FALSE(lines.empty());
  for (const ui::DrawnItem& line : lines) {
    int64_t from = -1, to = -1;
    ASSERT_EQ(std::sscanf(line.id.c_str(), "wait:%ld:%ld", &from, &to), 2) << line.id;
    ASSERT_TRUE(work_of_id.contains(from) && work_of_id.contains(to)) << line.id;
    EXPECT_EQ(std::get<int64_t>(line.value), work_of_id[to]->start_ns - work_of_id[from]->end_ns);
    incoming += to == work->id ? 1 : 0;
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
  EXPECT_NE(work_of_id[harness.context().selection.span]->track, work->track);
}

TEST(GoldenGpu, MemoryHasTheBandsOfTheDevice) {
  const auto shot = shell::TakeShot(Golden(), {});
  ASSERT_TRUE(shot.ok()) << shot.message();
  // Each colour is named, on as many lines as that takes; the plots begin below.
  float legend_end = 0;
  for (const ui::Text text : {ui::Text::kMemoryFreeGap, ui::Text::kMemoryReserved,
                              ui::Text::kMemoryOthers, ui::Text::kMemoryContext}) {
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
    EXPECT_GT(peak.device_peak_bytes, peak.driver_peak_bytes);
    EXPECT_GE(bytes("axis_max"), peak.device_peak_bytes);
  }
}

// Two processes of one program: nested ranges, a compute and a communication stream that share a
// hardware queue, NCCL's own rows; rank 1 is late. Reserved memory, and what the driver handed out.
class RecordedProgram {
 public:
  RecordedProgram() {
    auto recorder = query::OpenRecorder(folder_.path());
    recorder->SetMeta("recorded", "process");
    for (int64_t rank = 0; rank < 2; ++rank) AddRank(rank, recorder.get());
    SHARDSCOPE_CHECK(recorder->Finish().ok());
    snapshot_ = Read(folder_.path());
  }
  const query::SnapshotPtr& snapshot() const { return snapshot_; }
  int64_t thread(size_t rank) const { return threads_[rank]; }
  int64_t nccl_stream(size_t rank) const { return nccl_streams_[rank]; }

 private:
  static int64_t Track(record::Recorder* recorder, int64_t rank, const std::string& name,
                       const std::string& role, int64_t position) {
    schema::TrackRow row;
    row.rank = rank;
    row.name = name;
    row.role = role;
    row.position = position;
    return recorder->AddTrack(row);
  }
  static schema::SpanRow Span(record::Recorder* recorder, int64_t track, const std::string& name,
                              const char* category, int64_t start_ns, int64_t end_ns) {
    schema::SpanRow row;
    row.track = track;
    row.start_ns = start_ns;
    row.duration_ns = end_ns - start_ns;
    row.name_string = recorder->AddString(name);
    row.category = category;
    row.op_run = -1;
    return row;
  }
  static void AddStream(record::Recorder* recorder, int64_t track, int64_t stream) {
    schema::GpuStreamRow row;
    row.track = track;
    row.op_track = -1;
    row.context = 1;
    row.stream = stream;
    recorder->AddGpuStream(row);
  }
  void AddRank(int64_t rank, record::Recorder* recorder) {
    schema::RankRow row;
    row.rank = rank;
    recorder->AddRank(row);
    const int64_t thread = Track(recorder, rank, "thread 4711", "host", 0);
    const int64_t compute = Track(recorder, rank, "GPU 0 context 1 stream 7", "compute", 1);
    const int64_t nccl = Track(recorder, rank, "GPU 0 context 1 stream 13", "compute", 2);
    const int64_t communicator = Track(recorder, rank, "NCCL abc", "host", 3);
    threads_.push_back(thread);
    nccl_streams_.push_back(nccl);
    AddStream(recorder, compute, 7);
    AddStream(recorder, nccl, 13);
    for (int64_t step = 0; step < 5; ++step) {
      const int64_t start_ns = (1000 + 40 * step) * kMs;
      const auto range = [&](const char* name, int64_t from_ms, int64_t to_ms) {
        recorder->Record(
            Span(recorder, thread, name, "host", start_ns + from_ms * kMs, start_ns + to_ms * kMs));
      };
      range("FSDP::all_gather", 1, 3);
      range("forward", 0, 18);
      range("backward", 19, 36);
      range("train_step", 0, 38);
      AddKernel(recorder, thread, compute,
                Span(recorder, compute, "void at::native::gemm<float>(float*)", "compute",
                     start_ns + 5 * kMs, start_ns + 17 * kMs));
      AddGather(recorder, thread, nccl, communicator, start_ns + (6 + 4 * rank) * kMs,
                start_ns + 16 * kMs, step);
    }
    AddMemory(recorder, rank, thread);
  }
  static void AddKernel(record::Recorder* recorder, int64_t thread, int64_t, schema::SpanRow span) {
    record::GpuWorkRecord record;
    record.span = span;
    record.work.kind = "kernel";
    record.work.times = "measured";
    record.work.plan_op = -1;
    record.work.step = -1;
    record.work.launch_track = thread;
    record.work.launch_start_ns = span.start_ns - 2 * kMs;
    record.work.launch_duration_ns = 10'000;
    record.work.grid_x = 132;
    record.work.block_x = 256;
    record.work.grid_y = record.work.grid_z = record.work.block_y = record.work.block_z = 1;
    record.work.registers = 64;
    record.work.channel = 9;
    record.work.channel_kind = "compute";
    recorder->Record(record);
  }
  static void AddGather(record::Recorder* recorder, int64_t thread, int64_t stream,
                        int64_t communicator, int64_t start_ns, int64_t end_ns, int64_t sequence) {
    AddKernel(recorder, thread, stream,
              Span(recorder, stream, "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)",
                   "communication", start_ns, end_ns));
    record::NcclRecord record;
    record.span = Span(recorder, communicator, "AllGather", "communication", start_ns - 3 * kMs,
                       start_ns - 2 * kMs + 50'000);
    record.operation.communicator = "abc";
    record.operation.group_size = 2;
    record.operation.function = "AllGather";
    record.operation.sequence = sequence;
    record.operation.launch_track = thread;
    record.operation.launch_start_ns = start_ns - 3 * kMs;
    record.operation.launch_duration_ns = kMs + 50'000;
    recorder->Record(record);
  }
  static void AddMemory(record::Recorder* recorder, int64_t rank, int64_t thread) {
    schema::MemoryEventRow event;
    event.rank = rank;
    event.device = "GPU 0";
    event.category = "other";
    event.plan_op = event.step = -1;
    event.bytes = 300'000'000;
    event.issued_ns = event.executed_ns = 1000 * kMs;
    recorder->Record(event);
    event.bytes = -100'000'000;  // asked for 20 ms before the last kernel has used it
    event.issued_ns = 1100 * kMs;
    event.executed_ns = 1120 * kMs;
    recorder->Record(event);
    schema::CounterRow counter;
    counter.track = thread;
    counter.time_ns = 1000 * kMs;
    counter.name_string = recorder->AddString("reserved_bytes");
    counter.value = 400e6;
    recorder->Record(counter);
    schema::MemorySegmentRow segment;
    segment.rank = rank;
    segment.time_ns = 1000 * kMs;
    segment.address = 1 << 20;
    segment.bytes = 500'000'000;
    segment.kind = "device";
    recorder->Record(segment);
    // NCCL's own, taken while a thread was in a range of NCCL's.
    const int64_t other_thread = Track(recorder, rank, "thread 4712", "host", 4);
    recorder->Record(
        Span(recorder, other_thread, "NCCL: ncclCommInitRank", "host", 1002 * kMs, 1006 * kMs));
    segment.time_ns = 1004 * kMs;
    segment.address = 2 << 20;
    segment.bytes = 100'000'000;
    recorder->Record(segment);
    counter.name_string = recorder->AddString("device_used_bytes");
    counter.value = 900e6;
    recorder->Record(counter);
  }

  query::TestFolder folder_;
  std::vector<int64_t> threads_;
  std::vector<int64_t> nccl_streams_;
  query::SnapshotPtr snapshot_;
};

TEST(RecordedGpu, ShowsThreadsStreamsWaitsAndSharedQueuesWithoutOpLanes) {
  const RecordedProgram program;
  const auto shot = shell::TakeShot(program.snapshot(), {});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "gpu-recorded");
  EXPECT_TRUE(Items(shot->log, "timeline", "op_run:").empty());
  const ui::DrawnItem* thread =
      shot->log.Find("timeline", fmt::format("thread:0:{}", program.thread(0)));
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
