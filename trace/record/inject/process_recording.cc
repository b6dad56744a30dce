#include "trace/record/inject/process_recording.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "trace/base/cuda_environment.h"
#include "trace/base/mutex.h"
#include "trace/base/not_ended.h"
#include "trace/base/parse_number.h"
#include "trace/base/process.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/record/gpu/row_writer.h"
#include "trace/record/inject/guarded.h"
#include "trace/record/memory_account.h"
#include "trace/store/trace_file.h"

namespace shardscope::inject {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Name of the program, as the kernel has it.
std::string ProgramName() { return std::string(Trim(ReadFile("/proc/self/comm"))); }

// The arguments, separated by spaces.
std::string CommandLine() {
  std::string text = ReadFile("/proc/self/cmdline");
  std::replace(text.begin(), text.end(), '\0', ' ');
  return std::string(Trim(text)).substr(0, 1000);
}

// A variable of the environment; `otherwise` if it holds no number.
int64_t NumberFrom(const char* variable, int64_t otherwise) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return otherwise;
  return ParseInteger<int64_t>(value).value_or(otherwise);
}

// Settings that decide how GPU work overlaps, as rows of table config.
std::map<std::string, std::string> Settings() {
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : CudaEnvironment()) settings.emplace("env." + name, value);
  return settings;
}

// Records of one thread and kind that wait for a batch: 300,000 ranges a second fit.
constexpr size_t kRingRecords = 1 << 14;

// The descriptor by which the writer holds the trace's lock; -1: none.
struct HeldLock {
  int descriptor = -1;
  std::string link;  // /proc/self/fd/<descriptor>
  std::string path;  // what that leads to
};

HeldLock FindLock(const std::string& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    if (std::filesystem::read_symlink(entry.path(), error) != path) continue;
    return {std::atoi(entry.path().filename().c_str()), entry.path().string(), path};
  }
  return {};
}

// A lock is held as long as any process has its descriptor: a child that outlives its killed parent
// would make the trace look alive. Only async-signal-safe calls, as in every child of many threads.
void LetGoInChild(const HeldLock& lock) {
  if (lock.descriptor < 0) return;
  std::array<char, 4096> path = {};
  const ssize_t length = readlink(lock.link.c_str(), path.data(), path.size());
  // The program may have closed all descriptors and use this number for something else.
  if (length == static_cast<ssize_t>(lock.path.size()) &&
      std::memcmp(path.data(), lock.path.data(), lock.path.size()) == 0) {
    close(lock.descriptor);
  }
}

// Trivial, so that it can be used until the very end of a thread.
struct ThreadsTrack {
  const ProcessRecording* recording = nullptr;
  schema::TrackId track;
};
thread_local ThreadsTrack threads_track;

// Of a process that was being recorded.
std::atomic<bool> is_forked_child = false;

// States of sources that wait for a recording.
struct WaitingStates {
  Mutex mutex;
  bool has_opened GUARDED_BY(mutex) = false;
  std::vector<schema::CapabilityRow> rows GUARDED_BY(mutex);
};
WaitingStates& Waiting() {
  static auto* const waiting = new WaitingStates;  // never destroyed, as the recording
  return *waiting;
}

}  // namespace

std::atomic<ProcessRecording*> ProcessRecording::active_ = nullptr;
std::atomic<ProcessRecording*> ProcessRecording::taking_ = nullptr;
std::atomic<ProcessRecording*> ProcessRecording::opened_ = nullptr;
std::atomic<ProcessRecording*> ProcessRecording::ended_ = nullptr;

// Never opened twice: after the end of the process's recording, or in a forked child, Active() is
// null. No lock and no static that is initialised once: a child that is forked meanwhile would wait
// for a thread that it does not have.
ProcessRecording* ProcessRecording::Open() {
  constexpr pid_t kFresh = 0;
  constexpr pid_t kDone = -1;
  static std::atomic<pid_t> state = kFresh;  // between: the process whose thread opens it
  pid_t seen = kFresh;
  if (state.compare_exchange_strong(seen, getpid())) {
    OpenOnce();
    state.store(kDone);
  }
  while ((seen = state.load()) > 0) {
    if (seen != getpid()) return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Active();
}

void ProcessRecording::OpenOnce() {
  const Undisturbed undisturbed;
  try {
    const Status opened = Create();
    if (!opened.ok()) {
      Say(fmt::format("process {} is not recorded: {}", getpid(), opened.message()));
    }
  } catch (const std::exception& error) {
    Say("a process is not recorded:");
    Say(error.what());
  }
}

// Ok without a recording: none was asked for.
Status ProcessRecording::Create() {
  const char* folder = std::getenv(kRunVariable);
  const int64_t until_ns = NumberFrom(kUntilVariable, INT64_MAX);
  if (folder == nullptr || *folder == '\0' || MonotonicNs() >= until_ns) return Status::Ok();
  store::KeepDescriptorsHigh();
  record::RecorderOptions options;
  options.run_folder = folder;
  options.source = "inject";
  options.ring_records = kRingRecords;
  options.config = Settings();
  options.meta = {{"host", HostName()},
                  {"truth", std::string(words::Name(words::Truth::kMeasured))},
                  {"recorded", "process"},
                  {"command", CommandLine()},
                  {"world_size", std::to_string(NumberFrom("WORLD_SIZE", 1))}};
  Result<std::unique_ptr<record::Recorder>> recorder = record::Recorder::Open(options);
  if (!recorder.ok()) return recorder.status();
  std::unique_ptr<ProcessRecording> recording(
      new ProcessRecording(std::move(recorder).value(), until_ns));
  recording->recorder_->Add(schema::RankRow{recording->rank_, HostName(), getpid(), "unknown"});
  static const auto* const lock =
      new HeldLock(FindLock(store::TraceFileOf(recording->recorder_->path()).LockPath()));
  const auto in_child = [] {
    taking_.store(nullptr);
    active_.store(nullptr);
    opened_.store(nullptr);
    is_forked_child.store(true);
    LetGoInChild(*lock);
  };
  if (pthread_atfork(nullptr, nullptr, in_child) != 0) {
    return Status::Error("there is no memory for a handler of forks");
  }
  std::atexit(&ProcessRecording::Finish);  // if it fails the file is finished when it is opened
  {
    WaitingStates& waiting = Waiting();
    const MutexLock guard(waiting.mutex);
    waiting.has_opened = true;
    for (const schema::CapabilityRow& row : waiting.rows) recording->recorder_->Add(row);
  }
  opened_.store(recording.get(), std::memory_order_release);
  taking_.store(recording.get(), std::memory_order_release);
  // Never destroyed: threads may come until the process is gone.
  active_.store(recording.release(), std::memory_order_release);
  return Status::Ok();
}

void ProcessRecording::Fail(std::string_view reason) noexcept {
  taking_.store(nullptr);
  ProcessRecording* const recording = active_.exchange(nullptr);
  if (recording != nullptr)
    recording->SayFailed("an error of the recorder, nothing more is recorded of this process",
                         reason);
}

void ProcessRecording::SayFailed(std::string_view what, std::string_view reason) noexcept {
  try {
    recorder_->Add(schema::CapabilityRowOf("inject", words::CapabilityStatus::kPartial,
                                           fmt::format("{}: {}", what, reason)));
  } catch (const std::exception&) {
    // What cannot be written is not reported either.
  }
}

void ProcessRecording::StateIfRecorded(std::string_view source, std::string_view status,
                                       std::string_view reason) {
  if (is_forked_child) return;  // the lock may be held for ever
  WaitingStates& waiting = Waiting();
  {
    const MutexLock lock(waiting.mutex);
    if (!waiting.has_opened) {
      waiting.rows.push_back(
          {{}, std::string(source), std::string(status), std::string(reason), 0});
      return;
    }
  }
  if (ProcessRecording* recording = Active()) recording->State(source, status, reason);
}

void ProcessRecording::AddAtEnd(AtEnd at_end) {
  const MutexLock lock(mutex_);
  at_end_.push_back(at_end);
}

ProcessRecording::ProcessRecording(std::unique_ptr<record::Recorder> recorder, int64_t until_ns)
    : recorder_(std::move(recorder)),
      until_ns_(until_ns),
      opened_ns_(MonotonicNs()),
      owner_(getpid()),
      rank_(std::max<int64_t>(0, NumberFrom("RANK", 0))),
      process_(fmt::format("{} {}", ProgramName(), getpid())) {}

int64_t ProcessRecording::EndNs() const { return std::min(MonotonicNs(), until_ns_); }

void ProcessRecording::SourceOn(std::string_view source) {
  {
    const MutexLock lock(mutex_);
    if (!sources_on_.emplace(source).second) return;
  }
  State(source, words::CapabilityStatus::kOn, "");
}

void ProcessRecording::State(std::string_view source, words::CapabilityStatus status,
                             std::string_view reason) {
  State(source, words::Name(status), reason);
}

void ProcessRecording::State(std::string_view source, std::string_view status,
                             std::string_view reason) {
  const Undisturbed undisturbed;
  recorder_->Add(
      schema::CapabilityRow{{}, std::string(source), std::string(status), std::string(reason), 0});
  (void)recorder_->Flush();  // however short the program is
}

void ProcessRecording::CountLost(std::string_view source, std::string_view reason,
                                 int64_t records) {
  if (records == 0) return;
  const MutexLock lock(mutex_);
  lost_[{std::string(source), std::string(reason)}] += records;
}

schema::TrackId ProcessRecording::AddTrack(std::string_view name, words::TrackRole role) {
  schema::TrackRow row;
  row.rank = rank_;
  row.name = name.empty() ? process_ : fmt::format("{} {}", process_, name);
  row.role = words::Name(role);
  {
    const MutexLock lock(mutex_);
    row.position = next_position_++;
  }
  return recorder_->Add(row);
}

schema::TrackId ProcessRecording::ThreadTrack() {
  if (threads_track.recording != this) {
    threads_track = {this, TrackOf(static_cast<uint32_t>(syscall(SYS_gettid)))};
  }
  return threads_track.track;
}

schema::TrackId ProcessRecording::TrackOf(uint32_t thread) {
  {
    const MutexLock lock(mutex_);
    const auto known = thread_tracks_.find(thread);
    if (known != thread_tracks_.end()) return known->second;
  }
  const schema::TrackId added =
      AddTrack(thread == owner_ ? "" : fmt::format("thread {}", thread), words::TrackRole::kHost);
  const MutexLock lock(mutex_);
  // Another thread may have asked meanwhile: its track is used, and the other stays empty.
  return thread_tracks_.try_emplace(thread, added).first->second;
}

void ProcessRecording::Switch(bool on, int64_t time_ns) {
  const MutexLock lock(mutex_);
  const size_t count = num_switches_.load();
  const bool is_on = count % 2 == 0;
  if (on == is_on) return;  // the program repeats itself
  if (count == kMaxSwitches) {
    ++lost_[{"inject", "starts and stops of the profiler: more than are followed"}];
    return;
  }
  switches_[count].store(time_ns);
  num_switches_.store(count + 1, std::memory_order_release);
  schema::MarkerRow row;
  row.time_ns = time_ns;
  row.step = -1;
  row.kind = words::Name(words::MarkerKind::kNote);
  row.new_value = on ? "the program started its profiler: recording goes on"
                     : "the program stopped its profiler: recording pauses";
  recorder_->Add(row);
}

bool ProcessRecording::IsRecorded(int64_t start_ns) const {
  if (start_ns >= until_ns_) return false;
  size_t passed = num_switches_.load(std::memory_order_acquire);
  while (passed > 0 && switches_[passed - 1].load(std::memory_order_relaxed) > start_ns) --passed;
  return passed % 2 == 0;
}

schema::StringId ProcessRecording::Name(std::string_view text) {
  const MutexLock lock(mutex_);
  const auto known = names_.find(text);
  if (known != names_.end()) return known->second;
  if (names_.size() >= kMaxNames) {
    ++lost_[{"inject", "names of spans: more than a trace keeps"}];
    return recorder_->AddString(kOtherNames);
  }
  const schema::StringId id = recorder_->AddString(text);
  texts_.emplace(id, names_.emplace(text, id).first->first);
  return id;
}

void ProcessRecording::Span(schema::TrackId track, int64_t start_ns, int64_t end_ns,
                            schema::StringId name, words::SpanCategory category) {
  if (!IsRecorded(start_ns)) return;
  recorder_->Record(gpu::SpanOf(track, start_ns, end_ns, name, category));
}

void ProcessRecording::SpanNotEnded(schema::TrackId track, int64_t start_ns, int64_t until_ns,
                                    schema::StringId name, words::SpanCategory category) {
  std::string text(kOtherNames);
  {
    const MutexLock lock(mutex_);
    const auto known = texts_.find(name);
    if (known != texts_.end()) text = known->second;
  }
  Span(track, start_ns, until_ns, Name(text.append(kNotEnded)), category);
}

void ProcessRecording::Counter(schema::TrackId track, int64_t time_ns, schema::StringId name,
                               double value) {
  if (!IsRecorded(time_ns)) return;
  schema::CounterRow row;
  row.track = track;
  row.time_ns = time_ns;
  row.name_string = name;
  row.value = value;
  recorder_->Record(row);
}

void ProcessRecording::Nccl(record::NcclRecord record, int64_t end_ns) {
  if (!IsRecorded(record.span.start_ns)) return;
  record.span.duration_ns = std::max<int64_t>(0, end_ns - record.span.start_ns);
  record.span.category = words::Name(words::SpanCategory::kHost);
  record.span.op_run = schema::OpRunId::None();
  recorder_->Record(record);
}

void ProcessRecording::Memory(std::string_view device, int64_t time_ns, int64_t bytes) {
  if (time_ns >= until_ns_) return;
  const record::MemoryAccount account{rank_, device, words::Name(words::MemoryCategory::kOther),
                                      ""};
  recorder_->Record(account.Event(time_ns, time_ns, bytes));
}

void ProcessRecording::Finish() {
  taking_.store(nullptr);
  active_.store(nullptr);
  ProcessRecording* const recording = opened_.exchange(nullptr);
  if (recording == nullptr || recording->owner_ != getpid()) return;
  ended_.store(recording);
  const QuietWrites quiet;  // a large trace takes seconds, in which signals are the program's
  try {
    recording->WriteEnd();
  } catch (const std::exception& error) {
    recording->SayFailed("the end of the recording is incomplete", error.what());
  }
  try {
    const Status finished = recording->recorder_->Finish();
    if (!finished.ok()) {
      Say(fmt::format("process {}: {}", recording->owner_, finished.message()));
    }
  } catch (const std::exception& error) {
    Say("the trace of a process is not finished:");
    Say(error.what());
  }
}

void ProcessRecording::WriteEnd() {
  std::vector<AtEnd> at_end;
  {
    const MutexLock lock(mutex_);
    at_end.swap(at_end_);
  }
  for (const AtEnd call : at_end) call(*this);
  Span(AddTrack("process", words::TrackRole::kHost), opened_ns_, EndNs(),
       recorder_->AddString("process"), words::SpanCategory::kHost);
  const MutexLock lock(mutex_);
  for (const auto& [what, records] : lost_) {
    recorder_->Add(schema::CapabilityRowOf(what.first, words::CapabilityStatus::kPartial,
                                           what.second, records));
  }
}

}  // namespace shardscope::inject
