#include "trace/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "trace/base/mutex.h"

namespace shardscope {
namespace {

class Sharing {
 public:
  Sharing(size_t count, const std::function<Status(size_t)>& work) : count_(count), work_(work) {}

  void Run() {
    while (!stopped_) {
      const size_t index = next_.fetch_add(1);
      if (index >= count_) return;
      Status status;
      std::exception_ptr thrown;
      try {
        status = work_(index);
      } catch (...) {
        thrown = std::current_exception();
      }
      if (status.ok() && thrown == nullptr) continue;
      const MutexLock lock(mutex_);
      stopped_ = true;
      if (!status_.ok() || thrown_ != nullptr) return;
      status_ = status;
      thrown_ = thrown;
    }
  }

  // Once no thread runs any more.
  Status TakeResult() {
    const MutexLock lock(mutex_);
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
    return status_;
  }

 private:
  const size_t count_;
  const std::function<Status(size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  Mutex mutex_;
  // The first error.
  Status status_ GUARDED_BY(mutex_);
  std::exception_ptr thrown_ GUARDED_BY(mutex_);
};

}  // namespace

Status ForEachIndex(size_t count, size_t num_threads, const std::function<Status(size_t)>& work) {
  Sharing sharing(count, work);
  std::vector<std::thread> others;
  try {
    for (size_t thread = 1; thread < std::min(count, num_threads); ++thread)
      others.emplace_back([&sharing] { sharing.Run(); });
  } catch (const std::system_error&) {  // there are no more
  } catch (const std::bad_alloc&) {     // nor memory for one
  }
  sharing.Run();
  for (std::thread& thread : others) thread.join();
  return sharing.TakeResult();
}

void ForEachIndex(size_t count, const std::function<void(size_t)>& work) {
  (void)ForEachIndex(count, NumCores(), [&work](size_t index) {
    work(index);
    return Status::Ok();
  });
}

size_t NumCores() { return std::max(std::thread::hardware_concurrency(), 1U); }

}  // namespace shardscope
