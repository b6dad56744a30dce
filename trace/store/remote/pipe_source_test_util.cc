#include "trace/store/remote/pipe_source_test_util.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "trace/store/trace_file.h"

namespace shardscope::store {
namespace {

// A line of the protocol has at most a thousand rows; more than this is not ours.
constexpr size_t kMaxLineBytes = 64 << 20;
// Bounds the work of one Read.
constexpr size_t kMaxReadBytes = 16 << 20;

}  // namespace

Result<std::unique_ptr<PipeSource>> PipeSource::Start(const std::vector<std::string>& command) {
  SHARDSCOPE_CHECK(!command.empty());
  std::array<int, 2> ends = {};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return Status::Error("no pipe: " + SystemError());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = -1;
  const int error =
      posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return Status::Error(fmt::format("cannot start {}: {}", command[0], std::strerror(error)));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return std::unique_ptr<PipeSource>(
      new PipeSource(fmt::format("{}", fmt::join(command, " ")), process, ends[0]));
}

PipeSource::~PipeSource() {
  close(descriptor_);
  if (process_ < 0) return;
  kill(process_, SIGTERM);
  waitpid(process_, nullptr, 0);
}

Status PipeSource::DecodeLines() {
  size_t begin = 0;
  while (true) {
    const size_t end = unread_.find('\n', std::max(begin, searched_));
    if (end == std::string::npos) break;
    SHARDSCOPE_RETURN_IF_ERROR(decoder_.Take(std::string_view(unread_).substr(begin, end - begin)));
    begin = end + 1;
  }
  unread_.erase(0, begin);
  searched_ = unread_.size();
  if (unread_.size() > kMaxLineBytes) {
    return Status::Error(fmt::format("{}: a line is longer than {} bytes", name_, kMaxLineBytes));
  }
  return Status::Ok();
}

Status PipeSource::EndOfPipe() {
  ended_ = true;
  int code = 0;
  waitpid(process_, &code, 0);
  process_ = -1;
  if (decoder_.state() != SourceState::kLive) return Status::Ok();
  return Status::Error(fmt::format("{}: the connection ended while the run was live (exit {})",
                                   name_,
                                   WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code)));
}

Result<bool> PipeSource::Read(RowBatch* batch) {
  std::array<char, 1 << 16> buffer;
  size_t taken = 0;
  while (!ended_ && taken < kMaxReadBytes) {
    const ssize_t count = read(descriptor_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) return Status::Error(fmt::format("{}: {}", name_, SystemError()));
    if (count == 0) {
      SHARDSCOPE_RETURN_IF_ERROR(EndOfPipe());
      break;
    }
    unread_.append(buffer.data(), static_cast<size_t>(count));
    taken += static_cast<size_t>(count);
    SHARDSCOPE_RETURN_IF_ERROR(DecodeLines());
  }
  decoder_.TakeRows(batch);
  return taken >= kMaxReadBytes;
}

}  // namespace shardscope::store
