// What opening and drawing a trace costs, with the real shell and panels but without OpenGL.
//
// usage: app_bench open RUN [START_NS]   times of the first frames, from START_NS (CLOCK_MONOTONIC)
//                                       APP_BENCH_MEMORY=3GB as `open --memory`,
//                                       APP_BENCH_STEP=N as `open 'RUN#step=N'`
//        app_bench frames RUN            CPU time of building a frame, over zooms and pans
//        app_bench ranks RUN             what ranks and collectives cost, made and drawn
//        app_bench live FOLDER           from a commit in another process to the frame that shows
//        it
//        app_bench follow RUN SECONDS    frames, lag and memory while another process records
// Prints one JSON object. Memory in MB (10^6 bytes) is the process's own.
#include <fmt/format.h>
#include <imgui.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trace/analysis/collectives/collective_table.h"
#include "trace/analysis/ranks/rank_findings.h"
#include "trace/base/mutex.h"
#include "trace/base/process.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/record/recorder.h"
#include "ui/panels/timeline/timeline_panel.h"
#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/headless.h"
#include "ui/shell/pace.h"
#include "ui/shell/run/area_worker.h"
#include "ui/shell/run/search_worker.h"
#include "ui/shell/shell.h"

namespace shardscope {
namespace {

constexpr int kWidth = 1920;
constexpr int kHeight = 1080;
constexpr int kFramesAView = 60;
constexpr double kMs = 1e6;

int64_t ResidentMb(const char* key) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    return std::atoll(line.c_str() + std::string(key).size() + 1) * 1024 / 1'000'000;
  }
  return 0;
}

// CPU times of frames, in ms.
struct Costs {
  std::vector<double> ms;
  std::string Json() {
    std::sort(ms.begin(), ms.end());
    const auto at = [this](double share) {
      return ms[static_cast<size_t>(share * static_cast<double>(ms.size() - 1))];
    };
    return fmt::format(R"({{"median":{:.3f},"p95":{:.3f},"p99":{:.3f},"max":{:.3f}}})", at(0.5),
                       at(0.95), at(0.99), ms.back());
  }
};

// What the window's loop waits for, without a window: no input comes.
class NoWindow final : public shell::PaceHost {
 public:
  explicit NoWindow(shell::Shell* shell) : shell_(*shell) {}

  // From now on waiting ends after so many seconds.
  void CloseIn(double seconds) { closes_at_ = Now() + seconds; }

  double Now() override { return static_cast<double>(MonotonicNs()) / kNsPerSecond; }
  void TakeInput(double seconds) override {
    const auto most =
        std::chrono::duration<double>(std::clamp(closes_at_ - Now(), 0.0, std::max(seconds, 0.0)));
    MutexLock lock(mutex_);
    waker_.wait_for(lock, most, [this]() REQUIRES(mutex_) { return woken_; });
    woken_ = false;
  }
  bool HasInput() override { return false; }
  bool IsClosing() override { return Now() >= closes_at_; }
  void Wake() override {
    const MutexLock lock(mutex_);
    woken_ = true;
    waker_.notify_one();
  }
  double SecondsUntilPoll() override { return shell_.SecondsUntilPoll(); }
  bool Poll() override { return shell_.Poll(); }

 private:
  shell::Shell& shell_;
  double closes_at_ = 0;
  Mutex mutex_;
  CondVar waker_;
  bool woken_ GUARDED_BY(mutex_) = false;
};

// The app without a window.
class Bench {
 public:
  Bench() : surface_(kWidth, kHeight), shell_(Options(), gui_.fonts().fonts) {}

  Status Open(const std::string& run) {
    const char* const step = std::getenv("APP_BENCH_STEP");  // around which, if it does not fit
    return shell_.Open(run, step == nullptr ? std::nullopt : std::optional(std::atoi(step)));
  }
  shell::Shell& shell() { return shell_; }
  const ui::Context& context() const { return shell_.context(); }

  // CPU time of one frame. `alone`: only this timeline, over the whole window.
  double Frame(panels::TimelinePanel* alone = nullptr) {
    pace_.BeginFrame();
    surface_.BeginFrame();
    const int64_t before_ns = ThreadCpuNs();
    ImGui::NewFrame();
    if (alone == nullptr) {
      shell_.Frame();
    } else {
      DrawAlone(alone);
    }
    ImGui::Render();
    const int64_t cost_ns = ThreadCpuNs() - before_ns;
    surface_.EndFrame();
    pace_.EndFrame();
    return static_cast<double>(cost_ns) / kMs;
  }

  // Until the next frame is due, as the window's loop has it. False: none was in so long.
  bool Wait(double seconds) {
    host_.CloseIn(seconds);
    pace_.Wait();
    return !host_.IsClosing();
  }

  // Frames until all is loaded and none was due for kQuietSeconds. The dearest one's CPU time.
  double UntilLoaded() {
    double worst_ms = Frame();
    while (true) {
      if (Wait(kQuietSeconds)) {
        worst_ms = std::max(worst_ms, Frame());
      } else if (IsLoaded()) {
        return worst_ms;
      }
    }
  }
  static constexpr double kQuietSeconds = 0.5;

 private:
  bool IsLoaded() {
    const query::Snapshot& snapshot = *context().snapshot;
    return context().report != nullptr && !snapshot.loading && !query::MayGrow(snapshot.state) &&
           shell_.SecondsUntilPoll() > 1;
  }
  shell::ShellOptions Options() {
    shell::ShellOptions options;
    options.wake = [this] { pace_.WakeForData(); };
    if (const char* const memory = std::getenv("APP_BENCH_MEMORY")) {
      options.memory_bytes = ParseBytes(memory).value_or(0);  // as `open --memory`
    }
    return options;
  }
  void DrawAlone(panels::TimelinePanel* timeline) {
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize({kWidth, kHeight});
    ImGui::Begin("alone", nullptr, ImGuiWindowFlags_NoDecoration);
    ui::Commands commands;
    timeline->Draw(context(), &log_, &commands);
    ImGui::End();
  }

  static constexpr double kDataSeconds = 0.032;

  shell::Gui gui_;
  shell::NullSurface surface_;
  NoWindow host_{&shell_};
  shell::Pace pace_{&host_, kDataSeconds};  // before the shell, whose threads wake it
  shell::Shell shell_;
  ui::DrawLog log_{false};
};

struct View {
  const char* name;
  double share;  // of the run
};
constexpr std::array kViews = {View{"whole run", 1},   View{"1/4", 0.25},
                               View{"1/20", 0.05},     View{"1/200", 0.005},
                               View{"1/2000", 0.0005}, View{"1/20000", 0.00005}};

int64_t SpansIn(const query::Snapshot& snapshot, int64_t start_ns, int64_t end_ns) {
  int64_t count = 0;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::OpRun& run : rows.op_runs) {
      if (run.ended_ns > start_ns && run.started_ns < end_ns) ++count;
    }
  }
  return count;
}

// Pans over the run in a view of this length; every frame shows another range.
std::string MeasureView(Bench* bench, panels::TimelinePanel* alone, const View& view) {
  const query::Snapshot& snapshot = *bench->context().snapshot;
  const int64_t run_ns = snapshot.end_ns - snapshot.start_ns;
  const auto length_ns = static_cast<int64_t>(static_cast<double>(run_ns) * view.share);
  Costs all;
  Costs timeline;
  int64_t spans = 0;
  for (int frame = 0; frame < kFramesAView; ++frame) {
    // Across the run; where the whole run is seen, by 1/1000 of it.
    const int64_t room_ns = std::max(run_ns - length_ns, run_ns / 1000 * kFramesAView);
    const int64_t start_ns = snapshot.start_ns + room_ns / kFramesAView * frame;
    bench->shell().Post(ui::SetView{start_ns, start_ns + length_ns, false, false});
    bench->Frame();
    all.ms.push_back(bench->Frame());
    timeline.ms.push_back(bench->Frame(alone));
    if (frame == kFramesAView / 2) spans = SpansIn(snapshot, start_ns, start_ns + length_ns);
  }
  return fmt::format(R"({{"view":"{}","spans":{},"all":{},"timeline":{}}})", view.name, spans,
                     all.Json(), timeline.Json());
}

// Zooms from the whole run to a single step and back: every frame another scale.
std::string MeasureZoom(Bench* bench, panels::TimelinePanel* alone) {
  const query::Snapshot& snapshot = *bench->context().snapshot;
  const auto run_ns = static_cast<double>(snapshot.end_ns - snapshot.start_ns);
  const int64_t middle_ns = snapshot.start_ns + (snapshot.end_ns - snapshot.start_ns) / 2;
  Costs all;
  Costs timeline;
  double share = 1;
  for (int frame = 0; frame < kFramesAView; ++frame) {
    const auto half_ns = static_cast<int64_t>(run_ns * share / 2);
    bench->shell().Post(ui::SetView{middle_ns - half_ns, middle_ns + half_ns, false, false});
    bench->Frame();
    all.ms.push_back(bench->Frame());
    timeline.ms.push_back(bench->Frame(alone));
    share /= 1.25;
  }
  return fmt::format(R"({{"view":"zoom","spans":0,"all":{},"timeline":{}}})", all.Json(),
                     timeline.Json());
}

// What a search takes on its thread, and frames of the whole run with its hits in it.
std::string MeasureSearch(Bench* bench, const std::string& query) {
  const query::SnapshotPtr snapshot = bench->context().snapshot;
  Costs search;
  for (int run = 0; run < 3; ++run) {
    const int64_t before_ns = MonotonicNs();
    (void)shell::FindHits({query, snapshot});
    search.ms.push_back(static_cast<double>(MonotonicNs() - before_ns) / kMs);
  }
  bench->shell().Post(ui::SetView{snapshot->start_ns, snapshot->end_ns, false, false});
  bench->shell().Post(ui::ShowSearch{true});
  bench->shell().Post(ui::SearchFor{query});
  const auto is_found = [&] {
    const auto& found = bench->context().search.found;
    return found != nullptr && found->text == query;
  };
  while (!is_found()) bench->Frame();
  const int64_t hits = bench->context().search.found->result.count;
  Costs frames;
  for (int frame = 0; frame < kFramesAView; ++frame) frames.ms.push_back(bench->Frame());
  bench->shell().Post(ui::ShowSearch{false});
  bench->Frame();
  return fmt::format(R"({{"query":"{}","hits":{},"search":{},"frame":{}}})", query, hits,
                     search.Json(), frames.Json());
}

// What measuring the middle of the run takes, of at most a million ops, and frames with it marked.
std::string MeasureMarked(Bench* bench) {
  constexpr double kOps = 1e6;
  const query::SnapshotPtr snapshot = bench->context().snapshot;
  double all_ops = 1;
  for (const query::RankRows& rows : snapshot->ranks) {
    all_ops += static_cast<double>(rows.op_runs.size());
  }
  const int64_t run_ns = snapshot->end_ns - snapshot->start_ns;
  const auto part_ns =
      static_cast<int64_t>(static_cast<double>(run_ns) * std::min(1.0, kOps / all_ops));
  const int64_t start_ns = snapshot->start_ns + (run_ns - part_ns) / 2;
  const analysis::AreaQuery query{{start_ns, start_ns + part_ns}, {}};
  Costs measuring;
  Costs with_causes;
  int64_t ops = 0;
  for (int run = 0; run < 3; ++run) {
    const int64_t before_ns = MonotonicNs();
    const auto area = shell::Measure({query, snapshot});
    const int64_t between_ns = MonotonicNs();
    (void)shell::Measure({query, snapshot, true});
    measuring.ms.push_back(static_cast<double>(between_ns - before_ns) / kMs);
    with_causes.ms.push_back(static_cast<double>(MonotonicNs() - between_ns) / kMs);
    ops = 0;
    for (const analysis::AreaRank& rank : area->ranks) ops += rank.count;
  }
  bench->shell().Post(ui::SetView{snapshot->start_ns, snapshot->end_ns, false, false});
  bench->shell().Post(ui::SelectArea{query});
  while (bench->context().area.measured == nullptr) bench->Frame();
  Costs frames;
  for (int frame = 0; frame < kFramesAView; ++frame) frames.ms.push_back(bench->Frame());
  bench->shell().Post(ui::SelectArea{});
  bench->Frame();
  return fmt::format(R"({{"ops":{},"measuring":{},"with_causes":{},"frame":{}}})", ops,
                     measuring.Json(), with_causes.Json(), frames.Json());
}

// ShowFirst() folds what the default window does not hold; here every rank is looked at.
void UnfoldAll(Bench* bench) {
  const auto folded = bench->context().lanes.folded_ranks;
  for (const int32_t rank : folded) bench->shell().Post(ui::ToggleRank{rank});
  bench->Frame();
}

Status Frames(const std::string& run) {
  Bench bench;
  SHARDSCOPE_RETURN_IF_ERROR(bench.Open(run));
  const double loading_ms = bench.UntilLoaded();
  panels::TimelinePanel alone;
  UnfoldAll(&bench);
  for (int frame = 0; frame < 2000; ++frame) bench.Frame(&alone);
  std::string rows;
  for (const View& view : kViews) rows += MeasureView(&bench, &alone, view) + ",";
  rows += MeasureZoom(&bench, &alone);
  std::string searches = MeasureSearch(&bench, "kind:reduce_scatter slower:1us");
  for (const char* query : {"block1", "exposed", "kind:op"}) {
    searches += "," + MeasureSearch(&bench, query);
  }
  fmt::print(
      R"({{"ranks":{},"loading_max_ms":{:.1f},"rss_mb":{},"peak_mb":{},"views":[{}],"searches":[{}],"area":{}}})"
      "\n",
      bench.context().snapshot->ranks.size(), loading_ms, ResidentMb("VmRSS"), ResidentMb("VmHWM"),
      rows, searches, MeasureMarked(&bench));
  return Status::Ok();
}

double MsOf(const std::function<void()>& work) {
  const int64_t before_ns = ThreadCpuNs();
  work();
  return static_cast<double>(ThreadCpuNs() - before_ns) / kMs;
}

// Frames with this panel in front, the mouse nowhere.
Costs FramesOf(Bench* bench, const char* panel) {
  bench->shell().Post(ui::FocusPanel{panel});
  bench->UntilLoaded();
  Costs costs;
  for (int frame = 0; frame < kFramesAView; ++frame) costs.ms.push_back(bench->Frame());
  return costs;
}

// The timeline is measured as a run opens: its first ranks unfolded, all others in one strip each.
Status MeasureRanks(const std::string& run) {
  Bench bench;
  SHARDSCOPE_RETURN_IF_ERROR(bench.Open(run));
  const double loading_ms = bench.UntilLoaded();
  const query::Snapshot& snapshot = *bench.context().snapshot;
  const analysis::Figures& figures = *bench.context().figures;
  const std::vector<analysis::StepBreakdown>& steps = bench.context().report->steps;
  auto grid = std::make_shared<analysis::RankGrid>();
  const double grid_ms = MsOf([&] { *grid = analysis::MakeRankGrid(snapshot, steps); });
  const double findings_ms = MsOf(
      [&] { (void)MakeRankOverview(snapshot, grid, figures.scope, figures.explanation.front); });
  const double table_ms = MsOf([&] { (void)MakeCollectiveTable(snapshot, figures.scope); });
  std::string frames;
  for (const char* panel : {"timeline", "ranks", "collectives"}) {
    Costs costs = FramesOf(&bench, panel);
    frames += fmt::format(R"({}"{}":{})", frames.empty() ? "" : ",", panel, costs.Json());
  }
  fmt::print(
      R"({{"ranks":{},"steps":{},"loading_max_ms":{:.1f},"grid_ms":{:.1f},"findings_ms":{:.1f},)"
      R"("collectives_ms":{:.1f},"frames":{{{}}}}})"
      "\n",
      grid->ranks.size(), grid->steps.size(), loading_ms, grid_ms, findings_ms, table_ms, frames);
  return Status::Ok();
}

// Whether the frame drawn last showed rows of the run.
bool ShowsRows(const ui::Context& context) {
  return context.snapshot != nullptr && context.view.end_ns > context.view.start_ns &&
         !context.snapshot->ranks.empty();
}

Status MeasureOpen(const std::string& run, int64_t process_start_ns) {
  const auto ms_since = [](int64_t from_ns) {
    return static_cast<double>(MonotonicNs() - from_ns) / kMs;
  };
  Bench bench;
  const double ready_ms = ms_since(process_start_ns);
  SHARDSCOPE_RETURN_IF_ERROR(bench.Open(run));
  const double opened_ms = ms_since(process_start_ns);
  while (!ShowsRows(bench.context())) bench.Frame();
  const double first_ms = ms_since(process_start_ns);
  const double first_frame_mb = static_cast<double>(ResidentMb("VmRSS"));
  const double loading_ms = bench.UntilLoaded();
  const double loaded_ms = ms_since(process_start_ns) - 1000 * Bench::kQuietSeconds;
  int64_t op_runs = 0;
  for (const query::RankRows& rows : bench.context().snapshot->ranks) {
    op_runs += static_cast<int64_t>(rows.op_runs.size());
  }
  fmt::print(R"({{"ready_ms":{:.0f},"opened_ms":{:.0f},"first_frame_ms":{:.0f},)"
             R"("loaded_ms":{:.0f},"loading_frame_max_ms":{:.1f},"op_runs":{},)"
             R"("first_frame_mb":{:.0f},"rss_mb":{},"peak_mb":{}}})"
             "\n",
             ready_ms, opened_ms, first_ms, loaded_ms, loading_ms, op_runs, first_frame_mb,
             ResidentMb("VmRSS"), ResidentMb("VmHWM"));
  return Status::Ok();
}

// What the recording process tells, in memory that both share.
struct Commits {
  static constexpr int kMost = 400;
  std::atomic<int> count{0};
  std::array<int64_t, kMost> before_ns{};  // the last op was recorded, its commit asked for
  std::array<int64_t, kMost> after_ns{};   // the commit is done
};

// Another process: one op at a time, committed at once, at odd times.
int RecordCommits(const std::string& folder, Commits* commits) {
  record::RecorderOptions options;
  options.run_folder = folder;
  auto recorder = record::Recorder::Open(options);
  if (!recorder.ok()) return 1;
  recorder.value()->Add(schema::RankRow{0, "bench", 1, "cpu"});
  const schema::TrackId track =
      recorder.value()->Add(schema::TrackRow{{}, 0, "compute", "compute", 1});
  schema::PlanOpRow op;
  op.kind = "forward";
  op.category = "compute";
  const schema::PlanOpId plan_op = recorder.value()->Add(op);
  for (int at = 0; at < Commits::kMost; ++at) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + at * 7 % 31));
    record::OpRecord row;
    row.run = {{},
               plan_op,
               0,
               at,
               track,
               MonotonicNs(),
               MonotonicNs(),
               MonotonicNs(),
               MonotonicNs() + 1'000,
               0,
               0,
               schema::PlanOpId::None(),
               "none"};
    commits->before_ns[static_cast<size_t>(at)] = MonotonicNs();
    recorder.value()->Record(row);
    if (!recorder.value()->Flush().ok()) return 1;
    commits->after_ns[static_cast<size_t>(at)] = MonotonicNs();
    commits->count = at + 1;
  }
  return recorder.value()->Finish().ok() ? 0 : 1;
}

Status MeasureLive(const std::string& folder) {
  std::filesystem::create_directories(folder);
  void* shared =
      mmap(nullptr, sizeof(Commits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Status::Error("no shared memory");
  auto* commits = new (shared) Commits();
  const pid_t child = fork();
  if (child == 0) _exit(RecordCommits(folder, commits));
  while (commits->count == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Bench bench;
  SHARDSCOPE_RETURN_IF_ERROR(bench.Open(folder));
  Costs from_record;
  Costs from_commit;
  size_t shown = static_cast<size_t>(commits->count.load());
  while (shown < Commits::kMost) {
    bench.Wait(0.25);
    bench.Frame();
    const int64_t now_ns = MonotonicNs();
    const query::Snapshot& snapshot = *bench.context().snapshot;
    const size_t rows = snapshot.ranks.empty() ? 0 : snapshot.ranks.front().op_runs.size();
    for (; shown < rows; ++shown) {
      while (commits->count <= static_cast<int>(shown)) std::this_thread::yield();
      from_record.ms.push_back(static_cast<double>(now_ns - commits->before_ns[shown]) / kMs);
      from_commit.ms.push_back(static_cast<double>(now_ns - commits->after_ns[shown]) / kMs);
    }
  }
  int code = 0;
  waitpid(child, &code, 0);
  fmt::print(R"({{"commits":{},"from_record":{},"from_commit":{}}})"
             "\n",
             from_commit.ms.size(), from_record.Json(), from_commit.Json());
  return Status::Ok();
}

// The age of the newest row that each frame shows, of a run in which rows come all the time.
Status MeasureFollowing(const std::string& run, int64_t seconds) {
  Bench bench;
  SHARDSCOPE_RETURN_IF_ERROR(bench.Open(run));
  Costs frames;
  Costs lags;
  int num_replaced = 0;
  int64_t stood_ns = 0;  // at most, without newer rows
  int64_t newest_ns = 0;
  int64_t newest_since_ns = MonotonicNs();
  uint64_t generation = 0;
  const int64_t begin_ns = MonotonicNs();
  while (MonotonicNs() - begin_ns < seconds * kNsPerSecond) {
    bench.Wait(0.25);
    frames.ms.push_back(bench.Frame());
    const query::Snapshot& snapshot = *bench.context().snapshot;
    const int64_t now_ns = MonotonicNs();
    lags.ms.push_back(static_cast<double>(now_ns - snapshot.end_ns) / kMs);
    if (generation != 0 && !query::HaveSameRows(generation, snapshot.generation)) ++num_replaced;
    generation = snapshot.generation;
    if (std::exchange(newest_ns, snapshot.end_ns) != snapshot.end_ns) newest_since_ns = now_ns;
    stood_ns = std::max(stood_ns, now_ns - newest_since_ns);
  }
  const query::Snapshot& last = *bench.context().snapshot;
  fmt::print(R"({{"frames":{},"seconds":{},"frame":{},"lag":{},"replaced":{},"stood_ms":{:.0f},)"
             R"("first_step":{},"rss_mb":{},"peak_mb":{}}})"
             "\n",
             frames.ms.size(), seconds, frames.Json(), lags.Json(), num_replaced,
             static_cast<double>(stood_ns) / kMs, last.part ? last.part->first_step : 0,
             ResidentMb("VmRSS"), ResidentMb("VmHWM"));
  return Status::Ok();
}

Status Run(const std::string& what, const std::string& run, int64_t start_ns) {
  if (what == "follow") return MeasureFollowing(run, start_ns);
  if (what == "open") return MeasureOpen(run, start_ns);
  if (what == "frames") return Frames(run);
  if (what == "ranks") return MeasureRanks(run);
  if (what == "live") return MeasureLive(run);
  return Status::Error("app_bench: what to do: open, frames, ranks, live or follow");
}

}  // namespace
}  // namespace shardscope

int main(int argc, char** argv) {
  shardscope::ReturnLargeBlocks();  // as the app does
  if (argc < 3) {
    fmt::print(stderr, "usage: app_bench open|frames|ranks|live|follow RUN [START_NS|SECONDS]\n");
    return 2;
  }
  const int64_t start_ns = argc > 3 ? std::atoll(argv[3]) : shardscope::MonotonicNs();
  const shardscope::Status status = shardscope::Run(argv[1], argv[2], start_ns);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.message());
  return 1;
}
