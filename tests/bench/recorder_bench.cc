// What recording costs (tests/bench/recorder.py turns it into a table). One line of JSON each:
//   recorder_bench writer ROWS FOLDER           spans into a file, on one core, then finished
//   recorder_bench record FOLDER                one Record() call of each kind
//   recorder_bench ranks RATE SECONDS FOLDER    8 threads that record op runs at RATE a second in
//                                               all, each with a memory event, 1 in 10 a
//                                               collective, 100 a step
//   recorder_bench bound BYTES SECONDS FOLDER   op runs and memory events as fast as the writer
//                                               takes them, with record.max_bytes=BYTES
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "trace/base/check.h"
#include "trace/base/folder_bytes_test_util.h"
#include "trace/base/time.h"
#include "trace/record/recorder.h"
#include "trace/store/writer.h"

namespace shardscope {
namespace {

constexpr int kRanks = 8;
constexpr int kBursts = 1000;        // a second
constexpr int64_t kOpsOfStep = 100;  // of a rank

int64_t CpuNs(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

void UseOneCore() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(0, &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

schema::SpanRow SpanAt(int64_t i) {
  schema::SpanRow span;
  span.track = schema::TrackId(1 + i % 8);
  span.start_ns = 1'000'000'000'000'000 + i * 1500;  // 11 days after boot, as on a server
  span.duration_ns = 900 + i % 1000;
  span.name_string = schema::StringId(1 + i % 40);
  span.category = i % 3 == 0 ? "communication" : "compute";
  span.op_run = schema::OpRunId(i);
  return span;
}

int Writer(int64_t rows, const std::string& folder) {
  UseOneCore();
  auto created = store::TraceWriter::Create(folder);
  SHARDSCOPE_CHECK(created.ok());
  const std::unique_ptr<store::TraceWriter> writer = std::move(created).value();
  const int64_t start_ns = MonotonicNs();
  const int64_t start_cpu_ns = CpuNs(CLOCK_PROCESS_CPUTIME_ID);
  constexpr int64_t kBatch = 10'000;
  for (int64_t first = 0; first < rows; first += kBatch) {
    SHARDSCOPE_CHECK(writer->Begin().ok());
    for (int64_t i = first; i < std::min(rows, first + kBatch); ++i) {
      schema::SpanRow span = SpanAt(i);
      span.id = schema::SpanId(i + 1);
      SHARDSCOPE_CHECK(writer->Insert(span).ok());
    }
    SHARDSCOPE_CHECK(writer->Commit().ok());
  }
  const int64_t written_ns = MonotonicNs();
  const int64_t cpu_ns = CpuNs(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;
  const int64_t live_bytes = writer->SizeBytes();
  SHARDSCOPE_CHECK(writer->Finish().ok());
  const auto bytes = std::filesystem::file_size(writer->file().FinishedPath());
  fmt::print(
      R"({{"rows": {}, "wall_ns": {}, "cpu_ns": {}, "live_bytes": {}, "finish_ns": {}, "finished_bytes": {}}})"
      "\n",
      rows, written_ns - start_ns, cpu_ns, live_bytes, MonotonicNs() - written_ns, bytes);
  return 0;
}

std::unique_ptr<record::Recorder> Open(const std::string& folder) {
  record::RecorderOptions options;
  options.run_folder = folder;
  auto recorder = record::Recorder::Open(options);
  SHARDSCOPE_CHECK(recorder.ok());
  return std::move(recorder).value();
}

record::OpRecord OpAt(schema::PlanOpId plan_op, int64_t rank, int64_t i, int64_t now_ns) {
  record::OpRecord op;
  op.run.plan_op = plan_op;
  op.run.rank = rank;
  op.run.step = i / kOpsOfStep;
  op.run.track = schema::TrackId(1 + rank);
  op.run.issued_ns = op.run.ready_ns = op.run.started_ns = now_ns;
  op.run.ended_ns = now_ns + 1000;
  op.run.blocking_plan_op = plan_op;
  op.run.blocking_kind = "event";
  if (i % 10 == 0) {
    op.collective.rank = rank;
    op.collective.step = op.run.step;
    op.collective.communicator = "default";
    op.collective.sequence = i / 10;
    op.collective.kind = "all_gather";
    op.collective.dtype = "fp32";
    op.collective.transport = "shared_memory";
    op.collective.truth = "measured";
  }
  return op;
}

schema::MemoryEventRow EventAt(int64_t rank, int64_t i, int64_t now_ns) {
  schema::MemoryEventRow event;
  event.rank = rank;
  event.device = "cpu";
  event.issued_ns = event.executed_ns = now_ns;
  event.bytes = i % 2 == 0 ? 4096 : -4096;
  event.category = "activation";
  event.unit = "block0";
  event.step = i / kOpsOfStep;
  return event;
}

schema::StepRow StepOf(int64_t rank, int64_t step, int64_t start_ns, int64_t now_ns) {
  return {{}, rank, step, schema::ScheduleId(1), start_ns, now_ns, 1, 1.0, 1.0};
}

// Median over bursts that fit the ring; the writer empties it between them.
template <typename MakeRow>
double NsPerRecord(record::Recorder* recorder, MakeRow make) {
  constexpr int kBurst = 2000;
  std::vector<double> times;
  for (int burst = 0; burst < 100; ++burst) {
    const auto row = make(burst);
    SHARDSCOPE_CHECK(recorder->Flush().ok());
    const int64_t start_ns = MonotonicNs();
    for (int i = 0; i < kBurst; ++i) recorder->Record(row);
    times.push_back(static_cast<double>(MonotonicNs() - start_ns) / kBurst);
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  return times[50];
}

int Record(const std::string& folder) {
  const auto recorder = Open(folder);
  const double span = NsPerRecord(recorder.get(), [](int64_t i) { return SpanAt(i); });
  const double op = NsPerRecord(recorder.get(),
                                [](int64_t i) { return OpAt(schema::PlanOpId(1), 0, i * 10, i); });
  const double memory = NsPerRecord(recorder.get(), [](int64_t i) { return EventAt(0, i, i); });
  SHARDSCOPE_CHECK(recorder->Finish().ok());
  fmt::print(R"({{"span_ns": {:.1f}, "op_run_ns": {:.1f}, "memory_event_ns": {:.1f}}})"
             "\n",
             span, op, memory);
  return 0;
}

// How long the calls of one thread took.
struct Calls {
  std::array<int64_t, 6> histogram = {};  // < 100 ns, 1 us, 10 us, 100 us, 1 ms, and longer
  int64_t longest_ns = 0;
  // Times that the thread gave up the CPU inside a burst of calls; the first two seconds, in which
  // it makes its rings and touches their memory, apart.
  int64_t waits = 0;
  int64_t first_waits = 0;
  int64_t slow_bursts = 0;  // with a call of 1 ms or more
  int64_t busy_bursts = 0;  // of these, in which the rank itself computed for 1 ms or more
};

template <typename Row>
void TimedRecord(record::Recorder* recorder, const Row& row, Calls* calls, int64_t* burst_longest) {
  const int64_t start_ns = MonotonicNs();
  recorder->Record(row);
  const int64_t ns = MonotonicNs() - start_ns;
  size_t bucket = 0;
  for (int64_t limit = 100; bucket < 5 && ns >= limit; limit *= 10) ++bucket;
  ++calls->histogram[bucket];
  *burst_longest = std::max(*burst_longest, ns);
}

void RunRank(record::Recorder* recorder, int rank, int64_t rate, int64_t seconds, Calls* calls) {
  const int64_t begin_ns = MonotonicNs();
  int64_t recorded = 0;
  int64_t step_start_ns = begin_ns;
  for (int64_t burst = 1; burst <= seconds * kBursts; ++burst) {
    SleepUntilNs(begin_ns + burst * (kNsPerSecond / kBursts));
    const int64_t due = burst * rate / kBursts / kRanks;
    rusage before = {};
    getrusage(RUSAGE_THREAD, &before);
    const int64_t cpu_before_ns = ThreadCpuNs();
    int64_t longest_ns = 0;
    for (; recorded < due; ++recorded) {
      const int64_t now_ns = MonotonicNs();
      TimedRecord(recorder, OpAt(schema::PlanOpId(1), rank, recorded, now_ns), calls, &longest_ns);
      TimedRecord(recorder, EventAt(rank, recorded, now_ns), calls, &longest_ns);
      if (recorded % kOpsOfStep < kOpsOfStep - 1) continue;
      recorder->Record(StepOf(rank, recorded / kOpsOfStep, step_start_ns, now_ns));
      step_start_ns = now_ns;
    }
    rusage after = {};
    getrusage(RUSAGE_THREAD, &after);
    (burst <= 2 * kBursts ? calls->first_waits : calls->waits) += after.ru_nvcsw - before.ru_nvcsw;
    calls->longest_ns = std::max(calls->longest_ns, longest_ns);
    if (longest_ns < kNsPerMs) continue;
    ++calls->slow_bursts;
    // Else the thread stood still: another one, or the host of this machine, had its core.
    calls->busy_bursts += ThreadCpuNs() - cpu_before_ns >= kNsPerMs ? 1 : 0;
  }
}

// CPU time of the recorder's writer thread, by its name.
int64_t WriterCpuNs() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "recorder") continue;
    int64_t cpu_ns = 0;
    std::ifstream(task.path() / "schedstat") >> cpu_ns;
    return cpu_ns;
  }
  return 0;
}

int Ranks(int64_t rate, int64_t seconds, const std::string& folder) {
  const auto recorder = Open(folder);
  schema::PlanOpRow plan_op;
  plan_op.kind = "forward";
  plan_op.category = "compute";
  recorder->Add(plan_op);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    recorder->Add(schema::RankRow{rank, "bench", 1, "cpu"});
    recorder->Add(schema::TrackRow{{}, rank, "compute", "compute", 1});
  }
  std::array<Calls, kRanks> calls = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    Calls* mine = &calls[static_cast<size_t>(rank)];
    threads.emplace_back([&recorder, rank, rate, seconds, mine] {
      RunRank(recorder.get(), rank, rate, seconds, mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  SHARDSCOPE_CHECK(recorder->Flush().ok());
  const int64_t writer_ns = WriterCpuNs();
  Calls all;
  for (const Calls& one : calls) {
    for (size_t i = 0; i < all.histogram.size(); ++i) all.histogram[i] += one.histogram[i];
    all.longest_ns = std::max(all.longest_ns, one.longest_ns);
    all.waits += one.waits;
    all.first_waits += one.first_waits;
    all.slow_bursts += one.slow_bursts;
    all.busy_bursts += one.busy_bursts;
  }
  int64_t dropped = 0;
  for (const auto& [source, count] : recorder->Dropped()) dropped += count;
  const auto live_bytes = store::DatabaseBytes(recorder->path());
  const int64_t finish_from_ns = MonotonicNs();
  SHARDSCOPE_CHECK(recorder->Finish().ok());
  fmt::print(
      R"({{"seconds": {}, "rate": {}, "dropped": {}, "histogram": [{}], "longest_ns": {}, "waits": {}, "first_waits": {}, )"
      R"("slow_bursts": {}, "busy_bursts": {}, "writer_ns": {}, "live_bytes": {}, "finish_ns": {}, )"
      R"("finished_bytes": {}}})"
      "\n",
      seconds, rate, dropped, fmt::join(all.histogram, ", "), all.longest_ns, all.waits,
      all.first_waits, all.slow_bursts, all.busy_bursts, writer_ns, live_bytes,
      MonotonicNs() - finish_from_ns, std::filesystem::file_size(recorder->path()));
  return 0;
}

int Bound(int64_t max_bytes, int64_t seconds, const std::string& folder) {
  record::RecorderOptions options;
  options.run_folder = folder;
  options.max_bytes = max_bytes;
  auto opened = record::Recorder::Open(options);
  SHARDSCOPE_CHECK(opened.ok());
  const std::unique_ptr<record::Recorder> recorder = std::move(opened).value();
  std::atomic<bool> stopping = false;
  int64_t largest = 0;
  int64_t samples = 0;
  std::thread watch([&] {
    for (; !stopping; ++samples) {
      largest = std::max(largest, FolderBytes(folder));
      SleepUntilNs(MonotonicNs() + kNsPerMs / 2);
    }
  });
  const int64_t begin_ns = MonotonicNs();
  int64_t recorded = 0;
  int64_t rows = 0;
  for (; MonotonicNs() < begin_ns + seconds * kNsPerSecond;
       SHARDSCOPE_CHECK(recorder->Flush().ok())) {
    for (int i = 0; i < 2000; ++i, ++recorded) {
      const record::OpRecord op = OpAt(schema::PlanOpId(1), 0, recorded, MonotonicNs());
      recorder->Record(op);
      recorder->Record(EventAt(0, recorded, op.run.ended_ns));
      rows += op.collective.kind.empty() ? 2 : 3;
    }
  }
  const int64_t wall_ns = MonotonicNs() - begin_ns;
  SHARDSCOPE_CHECK(recorder->Finish().ok());
  stopping = true;
  watch.join();
  int64_t dropped = 0;
  for (const auto& [source, count] : recorder->Dropped()) dropped += count;
  fmt::print(
      R"({{"max_bytes": {}, "wall_ns": {}, "rows": {}, "records": {}, "dropped": {}, "largest": {}, )"
      R"("samples": {}, "finished_bytes": {}}})"
      "\n",
      max_bytes, wall_ns, rows, 2 * recorded, dropped, largest, samples,
      std::filesystem::file_size(recorder->path()));
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  const std::string mode = arguments.empty() ? "" : arguments[0];
  if (mode == "writer" && arguments.size() == 3) {
    return Writer(std::stoll(arguments[1]), arguments[2]);
  }
  if (mode == "record" && arguments.size() == 2) return Record(arguments[1]);
  if (mode == "ranks" && arguments.size() == 4) {
    return Ranks(std::stoll(arguments[1]), std::stoll(arguments[2]), arguments[3]);
  }
  if (mode == "bound" && arguments.size() == 4) {
    return Bound(std::stoll(arguments[1]), std::stoll(arguments[2]), arguments[3]);
  }
  fmt::print(stderr, "recorder_bench: see the first lines of recorder_bench.cc\n");
  return 2;
}

}  // namespace
}  // namespace shardscope

int main(int argc, char** argv) {
  return shardscope::Main(std::vector<std::string>(argv + 1, argv + argc));
}
