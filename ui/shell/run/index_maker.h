// IndexMaker: arranges the spans of a large trace for drawing on a thread of its own.
//
// Threads: all calls on the owner's thread; the index is made on the maker's.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include "trace/base/mutex.h"
#include "trace/query/snapshot.h"
#include "ui/timeline/run_index.h"

namespace shardscope::shell {

class IndexMaker {
 public:
  // `wake` is called on the maker's thread once the index is made.
  IndexMaker(query::SnapshotPtr snapshot, std::function<void()> wake);
  // Asks the maker to stop, which it does after less than a millisecond's rows.
  ~IndexMaker() = default;
  IndexMaker(const IndexMaker&) = delete;
  IndexMaker& operator=(const IndexMaker&) = delete;

  bool ready() const;
  // The index, once: null before it is made and after it was taken.
  std::shared_ptr<timeline::RunIndex> Take();

 private:
  void Make(const std::stop_token& stop, const query::Snapshot& snapshot,
            const std::function<void()>& wake);

  mutable Mutex mutex_;
  std::shared_ptr<timeline::RunIndex> index_ GUARDED_BY(mutex_);  // null until it is complete
  std::jthread thread_;  // last: starts when all else is there
};

}  // namespace shardscope::shell
