// StreamWorker: one stream of one rank on the CPU device: a thread that runs what the host issued,
// in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "engine/plan/op.h"

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
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<plan::OpIndex> queue_;  // guarded by mutex_
  bool closed_ = false;              // guarded by mutex_
  std::thread thread_;               // last: starts when all of the above exists
};

}  // namespace shardscope::executor
