// Preloaded into a program: its thread "recorder" gets no memory, from its hundredth request on.
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include <atomic>

extern "C" void* __libc_malloc(size_t size);
extern "C" void* malloc(size_t size) {
  static std::atomic<int> num_requests = 0;
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  const bool is_recorder = strcmp(name, "recorder") == 0;
  return is_recorder && ++num_requests > 100 ? nullptr : __libc_malloc(size);
}
