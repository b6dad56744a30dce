// Preloaded into `shardscope record`: once it has started its program, its main thread gets no
// memory at its next request.
#include <dlfcn.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {
std::atomic<bool> fails = false;
}  // namespace

extern "C" void* __libc_malloc(size_t size);
extern "C" void* malloc(size_t size) {
  const bool is_main = fails && syscall(SYS_gettid) == getpid();
  return is_main && fails.exchange(false) ? nullptr : __libc_malloc(size);
}

extern "C" int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                            const posix_spawnattr_t* attributes, char* const* arguments,
                            char* const* environment) {
  const auto real = reinterpret_cast<decltype(&posix_spawnp)>(dlsym(RTLD_NEXT, "posix_spawnp"));
  const int failed = real(pid, file, actions, attributes, arguments, environment);
  fails = failed == 0;
  return failed;
}
