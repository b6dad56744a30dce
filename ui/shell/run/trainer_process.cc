#include "ui/shell/run/trainer_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "trace/base/input_file.h"
#include "trace/base/output_folder.h"
#include "trace/base/text.h"
#include "ui/run_folder.h"

namespace shardscope::shell {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOutputFile = "output.txt";
constexpr std::string_view kErrorPrefix = "error: ";
constexpr size_t kMaxErrorLines = 6;
constexpr size_t kMaxErrorBytes = 64 * 1024;

bool HasTrace(const std::string& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("trace-", 0) == 0 && entry.path().extension() == ".db") return true;
  }
  return false;
}

// A training that was refused has said why, and made nothing: nor does its output stay. A folder
// that was there before does.
void RemoveRefused(const std::string& folder, bool made_folder) {
  std::error_code error;
  size_t num_files = 0;
  // Not a range: its step would throw.
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() != kOutputFile) return;
    ++num_files;
  }
  if (error || num_files == 0) return;
  fs::remove(fs::path(folder) / kOutputFile, error);
  if (made_folder) fs::remove(folder, error);
}

struct OutputEnd {
  std::string text;  // what the line that names the error says, else the last lines
  bool names_an_error = false;
};
OutputEnd EndOfOutput(const fs::path& path) {
  const Result<FileEnd> end = ReadFileEnd(path, 0, kMaxErrorBytes);
  std::vector<std::string> lines;
  for (const std::string_view line :
       Split(end.ok() ? std::string_view(end->bytes) : std::string_view(), '\n')) {
    if (line.empty()) continue;
    if (line.starts_with(kErrorPrefix)) {
      return {std::string(line.substr(kErrorPrefix.size())), true};
    }
    lines.emplace_back(line);
    if (lines.size() > kMaxErrorLines) lines.erase(lines.begin());
  }
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return {text, false};
}

Status PrepareFolder(const std::string& folder) {
  const std::string taken = ui::WhyFolderIsTaken(ui::Language::kEnglish, folder);
  if (!taken.empty()) return Status::Error(taken);
  const Status made = MakeFolder(folder);
  return made.ok() ? made : Status::Error(made.message() + "; choose another folder");
}

// In the child, between fork and exec: only async-signal-safe calls. Reports errno of a failed exec
// into `report`.
[[noreturn]] void BecomeTrainer(char* const* arguments, int output, int report) {
  setsid();
  const pid_t grandchild = fork();  // not our child any more: init reaps it
  if (grandchild != 0) _exit(grandchild < 0 ? 1 : 0);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv(arguments[0], arguments);
  const int error = errno;
  const ssize_t ignored = write(report, &error, sizeof(error));
  (void)ignored;
  _exit(1);
}

}  // namespace

std::vector<std::string> TrainerArguments(const std::string& trainer, const ui::StartRun& start) {
  std::vector<std::string> arguments = {trainer, "--out", start.folder};
  if (!start.preset_file.empty()) {
    arguments.push_back("--config");
    arguments.push_back(start.preset_file);
  }
  if (!start.values.empty()) arguments.push_back("--set");
  for (const auto& [key, value] : start.values) arguments.push_back(key + "=" + value);
  return arguments;
}

Result<TrainerProcess> TrainerProcess::Launch(const std::string& trainer,
                                              const ui::StartRun& start) {
  std::error_code unknown;
  const bool made_folder = !fs::exists(start.folder, unknown) && !unknown;
  const Status prepared = PrepareFolder(start.folder);
  if (!prepared.ok()) return prepared;
  const std::string output_path = (fs::path(start.folder) / kOutputFile).string();
  // Not blocking: a pipe of this name without a reader is an error.
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK;
  const int output = open(output_path.c_str(), flags, 0644);
  if (output < 0) {
    return Status::Error(fmt::format("cannot write {}: {}; choose another folder", output_path,
                                     std::strerror(errno)));
  }
  int exec_report[2];
  int alive[2];
  if (pipe2(exec_report, O_CLOEXEC) != 0 || pipe2(alive, O_CLOEXEC) != 0) {
    close(output);
    return Status::Error(fmt::format("cannot start {}: {}", trainer, std::strerror(errno)));
  }
  fcntl(alive[1], F_SETFD, 0);  // the trainer keeps this one until it ends

  const std::vector<std::string> words = TrainerArguments(trainer, start);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) BecomeTrainer(arguments.data(), output, exec_report[1]);
  close(output);
  close(exec_report[1]);
  close(alive[1]);
  if (child > 0) waitpid(child, nullptr, 0);

  TrainerProcess started;
  started.folder_ = start.folder;
  started.made_folder_ = made_folder;
  started.alive_ = alive[0];
  int error = child < 0 ? errno : 0;
  const ssize_t bytes = read(exec_report[0], &error, sizeof(error));  // end of file: exec succeeded
  close(exec_report[0]);
  if (child < 0 || bytes == static_cast<ssize_t>(sizeof(error))) {
    std::error_code ignored;
    fs::remove(output_path, ignored);
    if (made_folder) fs::remove(start.folder, ignored);  // only if it is empty
    return Status::Error(
        fmt::format("cannot start {}: {}; is it built?", trainer, std::strerror(error)));
  }
  return started;
}

TrainerProcess::TrainerProcess(TrainerProcess&& other) noexcept
    : folder_(std::move(other.folder_)),
      error_(std::move(other.error_)),
      made_folder_(other.made_folder_),
      alive_(std::exchange(other.alive_, -1)) {}

TrainerProcess& TrainerProcess::operator=(TrainerProcess&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(error_, other.error_);
  std::swap(made_folder_, other.made_folder_);
  std::swap(alive_, other.alive_);
  return *this;
}

TrainerProcess::~TrainerProcess() {
  if (alive_ >= 0) close(alive_);
}

bool TrainerProcess::Ended() {
  if (!error_.empty()) return true;  // its output may be gone since
  pollfd ended{alive_, POLLIN, 0};
  if (poll(&ended, 1, 0) != 1) return false;
  const fs::path output = fs::path(folder_) / kOutputFile;
  OutputEnd end = EndOfOutput(output);
  if (end.names_an_error) RemoveRefused(folder_, made_folder_);
  error_ = std::move(end.text);
  if (error_.empty()) {
    error_ = fmt::format("the training ended before its first step; see {}", output.string());
  }
  return true;
}

TrainerProcess::State TrainerProcess::Poll() {
  if (HasTrace(folder_)) return State::kReady;
  if (Ended() && !HasTrace(folder_)) return State::kFailed;
  return State::kStarting;
}

}  // namespace shardscope::shell
