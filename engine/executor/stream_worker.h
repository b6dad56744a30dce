// StreamWorker: one stream of one rank on the CPU device: a thread that runs what the host issued,
// in order.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "engine/plan/op.h"
#include "trace/base/mutex.h"

namespace shardscope::executor {

// Owner: CpuRunner. Threads: Push on the host thread; `run` is called on the worker's own.
class StreamWorker {
 public:
  StreamWorker(const std::string& thread_name, std::function<void(plan::OpIndex)> run);
  // Runs what is still queued, then ends the thread.
  ~StreamWorker();
  StreamWorker(const StreamWorker&) = delete;
  StreamWorker& operator=(const StreamWorker&) = delete;

  void Push(plan::OpIndex index);

 private:
  void Loop();

  const std::function<void(plan::OpIndex)> run_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<plan::OpIndex> queue_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all of the above exists
};

}  // namespace shardscope::executor
