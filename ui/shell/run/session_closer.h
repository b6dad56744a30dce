// SessionCloser: ends sessions that were left on a thread of its own. A session waits for its
// reader, for the report in the making and frees millions of rows; no frame may wait for that.
//
// Close() on the UI thread; sessions end on the closer's thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "trace/base/mutex.h"
#include "ui/shell/run/run_session.h"

namespace shardscope::shell {

class SessionCloser {
 public:
  SessionCloser() = default;
  ~SessionCloser() = default;  // waits until all have ended: what they call still exists then
  SessionCloser(const SessionCloser&) = delete;
  SessionCloser& operator=(const SessionCloser&) = delete;

  // Returns at once. Null is allowed.
  void Close(std::unique_ptr<RunSession> session);

 private:
  void Run(const std::stop_token& stop);

  Mutex mutex_;
  std::condition_variable_any left_;
  std::vector<std::unique_ptr<RunSession>> sessions_ GUARDED_BY(mutex_);
  std::jthread thread_;  // from the first session on; last, so that it ends before the rest
};

}  // namespace shardscope::shell
