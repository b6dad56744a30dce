#include "app/commands.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/folder_of_now.h"
#include "app/record/child_process.h"
#include "app/record/launch.h"
#include "app/record/recorded_run.h"
#include "app/say.h"
#include "trace/base/process.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"
#include "trace/base/words.h"
#include "trace/record/recorder.h"
#include "trace/schema/capability_row.h"
#include "trace/store/run_files.h"

namespace shardscope::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommand = "record";

struct RecordArguments {
  std::optional<std::string> output;
  std::optional<std::string> duration;
  std::vector<std::string> command;
};

struct MadeFolder {
  std::string path;  // absolute, as processes may change theirs
  bool is_new = false;
};

// The folder of the user, or one of now, numbered until it is a new one.
Result<MadeFolder> MakeRunFolder(const std::optional<std::string>& output) {
  const std::string base = output ? *output : FolderOfNow("record-");
  std::string folder = base;
  std::error_code error;
  bool is_new = fs::create_directories(folder, error);
  for (int number = 2; !output && !is_new && !error; ++number) {
    folder = fmt::format("{}-{}", base, number);
    is_new = fs::create_directories(folder, error);
  }
  if (error) return Status::Error(fmt::format("cannot create {}: {}", folder, error.message()));
  if (!store::ListTraces(folder).empty()) {
    return Status::Error(fmt::format("{} holds a run already: name another with -o", folder));
  }
  std::string absolute = fs::canonical(folder, error).string();
  if (error) return Status::Error(fmt::format("cannot open {}: {}", folder, error.message()));
  return MadeFolder{std::move(absolute), is_new};
}

// The launcher's own trace: what it started, when, and how that ended.
class LauncherTrace {
 public:
  static Result<LauncherTrace> Open(const std::string& folder, const RecordArguments& arguments) {
    record::RecorderOptions options;
    options.run_folder = folder;
    options.source = "record";
    options.meta = {{"name", fs::path(folder).filename().string()},
                    {"host", HostName()},
                    {"truth", std::string(words::Name(words::Truth::kMeasured))},
                    {"recorded", "command"},
                    {"command", Join(arguments.command, " ")}};
    if (arguments.duration) options.config["record.duration"] = *arguments.duration;
    Result<std::unique_ptr<record::Recorder>> recorder = record::Recorder::Open(options);
    if (!recorder.ok()) return recorder.status();
    return LauncherTrace(std::move(recorder).value());
  }

  void Note(const std::string& text) {
    recorder_->Add(schema::MarkerRow{
        {}, MonotonicNs(), 0, std::string(words::Name(words::MarkerKind::kNote)), "", "", text});
  }
  void Capability(const schema::CapabilityRow& row) { recorder_->Add(row); }

  void AddCommand(const std::string& command, int64_t start_ns) {
    schema::SpanRow span;
    span.track =
        recorder_->Add(schema::TrackRow{{},
                                        0,
                                        fmt::format("shardscope record {}", getpid()),
                                        std::string(words::Name(words::TrackRole::kHost))});
    span.start_ns = start_ns;
    span.duration_ns = MonotonicNs() - start_ns;
    span.name_string = recorder_->AddString(command);
    span.category = words::Name(words::SpanCategory::kHost);
    span.op_run = schema::OpRunId::None();
    recorder_->Record(span);
  }

  Status Finish() { return recorder_->Finish(); }

  // Of a command that was never run nothing stays.
  void Discard() {
    (void)recorder_->Finish();
    store::RemoveDatabase(recorder_->path());
  }

 private:
  explicit LauncherTrace(std::unique_ptr<record::Recorder> recorder)
      : recorder_(std::move(recorder)) {}

  std::unique_ptr<record::Recorder> recorder_;
};

bool HasDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

// What no process said anything about was not used; what the user has set himself (`taken`) is
// said.
void AddUnusedSources(const RecordedRun& run, const std::vector<schema::CapabilityRow>& taken,
                      LauncherTrace* trace) {
  std::set<std::string> spoken;
  for (const RecordedProcess& process : run.processes) {
    spoken.insert(process.sources_spoken.begin(), process.sources_spoken.end());
  }
  for (const schema::CapabilityRow& row : taken) spoken.insert(row.source);
  const auto add = [&](std::string_view source, std::string_view reason) {
    if (!spoken.contains(std::string(source)))
      trace->Capability(schema::CapabilityRowOf(source, words::CapabilityStatus::kOff, reason));
  };
  add("nvtx", "no process used NVTX");
  add("nccl", "no process made an NCCL communicator");
  add(trace_keys::kCuptiSource,
      HasDriver() ? "no process started CUDA"
                  : "no NVIDIA driver on this machine (libcuda.so.1 is not there)");
}

// The run of the `shardscope record` that this one runs in says where its records went. If it
// cannot, that is no reason not to record.
void TellOuterRun(const RecordArguments& arguments, const Launch& launch,
                  const std::string& folder) {
  if (launch.outer_run.empty()) return;
  Result<LauncherTrace> outer = LauncherTrace::Open(launch.outer_run, arguments);
  if (!outer.ok()) return;
  for (const std::string& source : launch.sources) {
    outer->Capability(schema::CapabilityRowOf(
        source, words::CapabilityStatus::kOff,
        fmt::format("another `shardscope record` inside took the records; its run is {}", folder)));
  }
  (void)outer->Finish();
}

int64_t NumPrograms(const RecordedRun& run) {
  return std::count_if(run.processes.begin(), run.processes.end(),
                       [](const RecordedProcess& process) { return !process.launcher; });
}

// The program's output does not pass through here, and its exit code counts even where nothing can
// be said.
void SayOfRecord(const std::string& text) { Say("shardscope record: " + text); }

// While the program runs, and after its end: its exit code counts, whatever is left unsaid.
template <typename Body>
void AtBest(const Body& body) noexcept {
  try {
    body();
  } catch (const std::exception& error) {
    for (const char* const part : {"shardscope record: ", error.what(), "\n"}) {
      std::fputs(part, stderr);
    }
  }
}

// As a word of a shell.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char character : text) {
    if (character == '\'') {
      quoted += "'\\''";
    } else {
      quoted += character;
    }
  }
  return quoted + "'";
}

// Where the trace is, and what of it cannot be read.
void SayEnd(const std::string& folder, const Launch& launch, LauncherTrace* trace) {
  const Result<RecordedRun> read = ReadRecordedProcesses(folder);
  const RecordedRun run = read.ok() ? read.value() : RecordedRun();
  AddUnusedSources(run, launch.taken, trace);
  const Status finished = trace->Finish();
  if (!finished.ok()) SayOfRecord(finished.message());
  if (!read.ok()) SayOfRecord(read.message());
  for (const std::string& reason : run.unreadable) SayOfRecord(reason);
  std::error_code error;
  const std::string relative = fs::proximate(folder, error).string();
  const std::string& shown = error || relative.starts_with("..") ? folder : relative;
  const int64_t programs = NumPrograms(run);
  SayOfRecord(fmt::format(
      "{} in {}; see it with: shardscope report {}",
      programs == 0 ? std::string("no process used CUDA, NVTX or NCCL; its start and end are")
                    : fmt::format("{} process{}", programs, programs == 1 ? "" : "es"),
      shown, Quoted(shown)));
}

Result<int64_t> DeadlineNs(const std::optional<std::string>& duration) {
  if (!duration) return 0;
  const std::optional<int64_t> duration_ns = ParseDuration(*duration);
  constexpr int64_t kLongest = 365 * 24 * 3600 * kNsPerSecond;
  if (!duration_ns || *duration_ns <= 0 || *duration_ns > kLongest) {
    return Status::Error(
        fmt::format("--duration {}: give a time such as 30s or 500ms", Quoted(*duration)));
  }
  return MonotonicNs() + *duration_ns;
}

Status Record(const RecordArguments& arguments, int* exit_code) {
  const std::string command = Join(arguments.command, " ");
  if (!ProgramExists(arguments.command.front())) {
    *exit_code = kNotFound;
    return Status::Error(
        fmt::format("there is no program '{}': nothing was run", arguments.command.front()));
  }
  if (arguments.output && arguments.output->empty()) {
    return Status::Error("-o '': name a folder, or leave -o out");
  }
  if (arguments.output && !IsPlainUtf8(*arguments.output)) {
    return Status::Error(
        "-o: the path has a newline or another character that is no text in it; name another "
        "folder");
  }
  const Result<std::string> library = FindInjectedLibrary();
  if (!library.ok()) return library.status();
  const Result<int64_t> until_ns = DeadlineNs(arguments.duration);
  if (!until_ns.ok()) return until_ns.status();
  const Result<MadeFolder> made = MakeRunFolder(arguments.output);
  if (!made.ok()) return made.status();
  const std::string& folder = made->path;

  ChildProcess child;  // before the recorder's thread
  Result<LauncherTrace> trace = LauncherTrace::Open(folder, arguments);
  if (!trace.ok()) return trace.status();
  Launch launch = MakeLaunch(library.value(), folder, until_ns.value());
  for (const schema::CapabilityRow& row : launch.taken) trace->Capability(row);
  const int64_t start_ns = MonotonicNs();
  const Status started = child.Start(arguments.command, std::move(launch.environment));
  if (!started.ok()) {
    *exit_code = child.start_error() == ENOENT ? kNotFound : kCannotStart;
    trace->Discard();
    std::error_code ignored;
    if (made->is_new) fs::remove(folder, ignored);
    return started;
  }
  AtBest([&] {
    trace->Note(fmt::format("process {} started: {}", child.pid(), command));
    TellOuterRun(arguments, launch, folder);
  });
  const int status = child.Wait();
  AtBest([&] {
    trace->AddCommand(command, start_ns);
    trace->Note(fmt::format("process {} ended after {}: {}", child.pid(),
                            FormatDuration(MonotonicNs() - start_ns), EndText(status)));
    SayEnd(folder, launch, &*trace);
  });
  EndLike(status);
}

}  // namespace

RecordedWords SplitRecordedCommand(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (argc < 2 || words[1] != kCommand) return {argc, {}};
  const CLI::App* const command = app.get_subcommand(kCommand);
  int end = 2;
  while (end < argc && words[end] != "--" && words[end].size() > 1 && words[end][0] == '-') {
    // Of a value that is written behind it (-oRUN, --output=RUN) the word is no option's name.
    const CLI::Option* const option = command->get_option_no_throw(words[end]);
    const bool takes_next = option != nullptr && option->get_items_expected_max() > 0;
    end = std::min(argc, end + (takes_next ? 2 : 1));
  }
  const bool is_marked = end < argc && words[end] == "--";
  return {end, {words.begin() + end + (is_marked ? 1 : 0), words.end()}};
}

void AddRecordCommand(CLI::App& app, const std::vector<std::string>* recorded, int* exit_code) {
  auto arguments = std::make_shared<RecordArguments>();
  CLI::App* command = app.add_subcommand(
      kCommand, "Run a program and record its CUDA, NVTX and NCCL work: record -- COMMAND...");
  command
      ->add_option_function<std::string>(
          "-o,--output", [arguments](const std::string& value) { arguments->output = value; },
          "Folder of the run; default runs/record-<time>")
      ->type_name("RUN");
  command
      ->add_option_function<std::string>(
          "--duration", [arguments](const std::string& value) { arguments->duration = value; },
          "Stop recording after this time (30s); the program goes on")
      ->type_name("TIME");
  command->footer(
      "COMMAND...  the program and its arguments, passed on as they are; best after --");
  command->callback([arguments, recorded, exit_code] {
    *exit_code = kRecordFailed;
    if (recorded->empty()) {
      throw CLI::ParseError("there is no program to record: shardscope record -- COMMAND...",
                            kRecordFailed);
    }
    arguments->command = *recorded;
    try {
      const Status status = Record(*arguments, exit_code);
      if (!status.ok()) SayOfRecord(status.message());
    } catch (const std::exception& error) {
      SayOfRecord(error.what());
    }
  });
}

}  // namespace shardscope::app
