#include "engine/executor/stream_worker.h"

#include <pthread.h>

#include <utility>

#include "trace/base/mutex.h"

namespace shardscope::executor {

StreamWorker::StreamWorker(const std::string& thread_name, std::function<void(plan::OpIndex)> run)
    : run_(std::move(run)), thread_([this] { Loop(); }) {
  constexpr size_t kLongestName = 15;  // the kernel's limit
  pthread_setname_np(thread_.native_handle(), thread_name.substr(0, kLongestName).c_str());
}

StreamWorker::~StreamWorker() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StreamWorker::Push(plan::OpIndex index) {
  {
    const MutexLock lock(mutex_);
    queue_.push_back(index);
  }
  changed_.notify_one();
}

void StreamWorker::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&]() REQUIRES(mutex_) { return !queue_.empty() || closed_; });
    if (queue_.empty()) return;
    const plan::OpIndex index = queue_.front();
    queue_.pop_front();
    lock.unlock();
    run_(index);
    lock.lock();
  }
}

}  // namespace shardscope::executor
