// Mutex, MutexLock and CondVar: those of the standard library, with clang's thread-safety
// attributes. `scripts/check_thread_safety` compiles with -Wthread-safety, for which a field that
// is GUARDED_BY a mutex may only be touched under it; other compilers see no attributes.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define SHARDSCOPE_ATTRIBUTE(name) __attribute__((name))
#else
#define SHARDSCOPE_ATTRIBUTE(name)
#endif

#define GUARDED_BY(mutex) SHARDSCOPE_ATTRIBUTE(guarded_by(mutex))
#define PT_GUARDED_BY(mutex) SHARDSCOPE_ATTRIBUTE(pt_guarded_by(mutex))
// The caller holds it. Of a lambda too: `[this]() REQUIRES(mutex_) { ... }`.
#define REQUIRES(...) SHARDSCOPE_ATTRIBUTE(requires_capability(__VA_ARGS__))
// The caller does not hold it.
#define EXCLUDES(...) SHARDSCOPE_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) SHARDSCOPE_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) SHARDSCOPE_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) SHARDSCOPE_ATTRIBUTE(release_capability(__VA_ARGS__))
// With the reason beside it.
#define NO_THREAD_SAFETY_ANALYSIS SHARDSCOPE_ATTRIBUTE(no_thread_safety_analysis)

namespace shardscope {

class SHARDSCOPE_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a Mutex while it lives, but between unlock() and lock().
class SHARDSCOPE_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  // Of one that the caller has locked.
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt) REQUIRES(mutex) : lock_(mutex.mutex_, adopt) {}
  ~MutexLock() RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ACQUIRE() { lock_.lock(); }
  void unlock() RELEASE() { lock_.unlock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// Predicates run under the lock: they are lambdas that REQUIRES the mutex.
class CondVar {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }
  void wait(MutexLock& lock) { changed_.wait(lock.lock_); }
  template <typename Predicate>
  void wait(MutexLock& lock, Predicate predicate) NO_THREAD_SAFETY_ANALYSIS {
    changed_.wait(lock.lock_, std::move(predicate));
  }
  template <typename Duration>
  void wait_for(MutexLock& lock, const Duration& limit) {
    changed_.wait_for(lock.lock_, limit);
  }
  template <typename Duration, typename Predicate>
  bool wait_for(MutexLock& lock, const Duration& limit,
                Predicate predicate) NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_for(lock.lock_, limit, std::move(predicate));
  }
  template <typename TimePoint, typename Predicate>
  bool wait_until(MutexLock& lock, const TimePoint& limit,
                  Predicate predicate) NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_until(lock.lock_, limit, std::move(predicate));
  }

 private:
  std::condition_variable changed_;
};

}  // namespace shardscope
