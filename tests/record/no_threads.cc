// Preloaded into a program: starts as many threads as NO_THREADS_AFTER says, then no more, as where
// the limit of a user or of a container is reached.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static std::atomic<int> num_started = 0;
  const char* allowed = getenv("NO_THREADS_AFTER");
  if (++num_started > (allowed == nullptr ? 0 : atoi(allowed))) return EAGAIN;
  const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, body, argument);
}
