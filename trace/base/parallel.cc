#include "trace/base/parallel.h"

#include <algorithm>
#include <atomic>
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
      const Status status = work_(index);
      if (status.ok()) continue;
      const MutexLock lock(mutex_);
      if (status_.ok()) status_ = status;
      stopped_ = true;
    }
  }

  Status status() {
    const MutexLock lock(mutex_);
    return status_;
  }

 private:
  const size_t count_;
  const std::function<Status(size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  Mutex mutex_;
  Status status_ GUARDED_BY(mutex_);
};

}  // namespace

Status ForEachIndex(size_t count, size_t num_threads, const std::function<Status(size_t)>& work) {
  Sharing sharing(count, work);
  std::vector<std::thread> others;
  for (size_t thread = 1; thread < std::min(count, num_threads); ++thread)
    others.emplace_back([&sharing] { sharing.Run(); });
  sharing.Run();
  for (std::thread& thread : others) thread.join();
  return sharing.status();
}

void ForEachIndex(size_t count, const std::function<void(size_t)>& work) {
  (void)ForEachIndex(count, NumCores(), [&work](size_t index) {
    work(index);
    return Status::Ok();
  });
}

size_t NumCores() { return std::max(std::thread::hardware_concurrency(), 1U); }

}  // namespace shardscope
