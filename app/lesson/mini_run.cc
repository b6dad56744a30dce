#include "app/lesson/mini_run.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "app/spawn.h"
#include "engine/config/config.h"
#include "trace/base/assets.h"
#include "trace/base/input_file.h"
#include "trace/base/output_file.h"
#include "trace/base/text.h"
#include "trace/query/live_trace.h"

namespace shardscope::app {
namespace {

constexpr size_t kSaidBytes = 4096;

constexpr auto kLookForRun = std::chrono::milliseconds(20);

// Returns its wait status. `has_begun`, if there is one, is asked until it says so.
int WaitFor(pid_t pid, const std::function<bool()>& has_begun) {
  bool looks = has_begun != nullptr;
  for (int status = 0;;) {
    const pid_t ended = waitpid(pid, &status, looks ? WNOHANG : 0);
    if (ended == pid || (ended < 0 && errno != EINTR)) return status;
    looks = looks && !has_begun();
    if (looks) std::this_thread::sleep_for(kLookForRun);
  }
}

// Returns its wait status. `output`: a file for what it prints; empty: this terminal.
Result<int> RunTrainer(const std::vector<std::string>& arguments, const std::string& output,
                       const std::function<bool()>& has_begun = {}) {
  const std::string trainer = ProgramFolder() + "/shardscope-train";
  std::vector<std::string> words = {trainer};
  words.insert(words.end(), arguments.begin(), arguments.end());
  pid_t pid = -1;
  const int error = Spawn(trainer, std::move(words), {.output = output}, &pid);
  if (error != 0) {
    return Status::Error(
        fmt::format("cannot start {}: {}; is it built?", trainer, std::strerror(error)));
  }
  return WaitFor(pid, has_begun);
}

bool IsGood(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

}  // namespace

std::vector<std::string> MiniRunArguments(const lesson::Lesson& lesson, const std::string& folder) {
  std::vector<std::string> arguments = {"--out", folder};
  if (!lesson.run.empty()) arguments.emplace_back("--set");
  for (const auto& [key, value] : lesson.run) arguments.push_back(key + "=" + value);
  return arguments;
}

Result<bool> TrainMiniRun(const lesson::Lesson& lesson, const std::string& folder,
                          const std::function<void()>& on_start) {
  bool has_begun = false;
  const bool is_others = query::LookAtRun(folder).live;  // then the trainer refuses to go there
  SHARDSCOPE_ASSIGN_OR_RETURN(const int status,
                              RunTrainer(MiniRunArguments(lesson, folder), "", [&] {
                                has_begun = !is_others && query::LookAtRun(folder).live;
                                if (has_begun) on_start();
                                return has_begun;
                              }));
  if (WIFSIGNALED(status)) {
    return Status::Error(fmt::format("the mini-run was ended by signal {}", WTERMSIG(status)));
  }
  if (IsGood(status) && !has_begun) on_start();  // shorter than a look
  return IsGood(status);
}

Status TrainForCheck(const lesson::Lesson& lesson, const std::string& folder, Knob knob) {
  SHARDSCOPE_ASSIGN_OR_RETURN(config::Config config, lesson::ConfigOf(lesson.run));
  if (const auto& turn = lesson.task.turn) {
    SHARDSCOPE_RETURN_IF_ERROR(config.Set("train.steps", std::to_string(turn->steps)));
    if (knob == Knob::kTurned) config.AddChange(turn->change);
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Status::Error(fmt::format("cannot make {}: {}", folder, error.message()));
  const std::string file = folder + "/lesson.toml";
  SHARDSCOPE_RETURN_IF_ERROR(WriteFile(file, config::PrintToml(config)));
  const std::string output = folder + "/output.txt";
  SHARDSCOPE_ASSIGN_OR_RETURN(const int status,
                              RunTrainer({"--config", file, "--out", folder + "/run"}, output));
  if (IsGood(status)) return Status::Ok();
  const Result<FileEnd> end = ReadFileEnd(output, 0, kSaidBytes);
  return Status::Error("the mini-run failed: " +
                       (end.ok() ? std::string(Trim(end->bytes)) : end.message()));
}

}  // namespace shardscope::app
