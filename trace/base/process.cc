#include "trace/base/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardscope {
namespace {

constexpr const char* kNoThread =
    "no more threads can be started: use fewer ranks (run.ranks), or raise the limits of threads "
    "and memory (ulimit -u, ulimit -v)";
constexpr const char* kNoMemory =
    "there is no more memory: use fewer ranks (run.ranks) or a smaller model, or raise the limit "
    "of memory (ulimit -v)";

// null: `error` is about something else.
const char* Shortage(const std::exception& error) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return kNoMemory;
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    if (system->code() == std::errc::resource_unavailable_try_again) return kNoThread;
    if (system->code() == std::errc::not_enough_memory) return kNoMemory;
  }
  // LibTorch's allocator, whose exceptions have no type of their own.
  return std::strstr(error.what(), "DefaultCPUAllocator") != nullptr ? kNoMemory : nullptr;
}

// Takes no memory.
void Write(std::string_view text) {
  const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(ignored);
}

[[noreturn]] void OnTerminate() {
  try {
    if (const std::exception_ptr current = std::current_exception()) {
      std::rethrow_exception(current);
    }
  } catch (const std::exception& error) {
    if (const char* shortage = Shortage(error)) {
      Write("error: ");
      Write(shortage);
      Write("\n");
      std::_Exit(1);
    }
    Write(error.what());
    Write("\n");
  } catch (...) {
  }
  std::abort();
}

// While one lives, its thread takes no signals, nor do those that it starts.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_ = {};
};

int OpenFolder(const std::string& folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

std::string ErrorText(const std::exception& error) {
  const char* shortage = Shortage(error);
  return shortage != nullptr ? shortage : error.what();
}

void EndOnShortage() { std::set_terminate(OnTerminate); }

std::string HostName() {
  std::array<char, 256> host = {};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "host";
}

std::thread ThreadWithoutSignals(std::function<void()> body) {
  const BlockedSignals blocked;
  return std::thread(std::move(body));
}

FolderLock::FolderLock(const std::string& folder) : descriptor_(OpenFolder(folder)) {
  static_cast<void>(flock(descriptor_, LOCK_EX | LOCK_NB));
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool FolderLock::IsHeld(const std::string& folder) {
  FolderLock probe;
  probe.descriptor_ = OpenFolder(folder);
  return probe.descriptor_ >= 0 && flock(probe.descriptor_, LOCK_SH | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK;
}

}  // namespace shardscope
