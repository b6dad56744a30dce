#include "app/say.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "trace/base/text.h"

namespace shardscope::app {
namespace {

constexpr std::string_view kKept = "\n\t";
constexpr int kExitWithoutReader = 128 + SIGPIPE;

int first_error = 0;  // of standard output

bool Note(bool is_written) {
  if (!is_written && first_error == 0) first_error = errno;
  return first_error == 0;
}

bool Put(std::string_view bytes) {
  return Note(std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size());
}

}  // namespace

// The other way round than they are used: what is closed stays an error.
void HoldStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", flags) < 0) return;  // takes the lowest number that is free
  }
}

void TakeFullFilesAsErrors() { std::signal(SIGXFSZ, SIG_IGN); }

void Say(std::string_view line) { std::fputs((Printable(line, kKept) + "\n").c_str(), stderr); }

bool Print(std::string_view text) { return Put(Printable(text, kKept)); }

bool PrintExact(std::string_view bytes) {
  return isatty(STDOUT_FILENO) == 1 ? Print(bytes) : Put(bytes);
}

bool PrintControl(std::string_view sequence) { return Put(sequence); }

bool FlushOutput() { return Note(std::fflush(stdout) == 0 && std::ferror(stdout) == 0); }

bool HasNoReader() { return first_error == EPIPE; }

int ExitCode(int exit_code, std::string_view program) {
  if (FlushOutput()) return exit_code;
  if (HasNoReader()) return exit_code == 0 ? kExitWithoutReader : exit_code;
  Say(fmt::format("{}: cannot write all to standard output: {}", program,
                  std::strerror(first_error)));
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace shardscope::app
