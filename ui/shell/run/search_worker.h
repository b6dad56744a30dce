// SearchWorker: looks for what was typed in the newest Snapshot, on a thread of its own, so that no
// frame waits for it.
//
// Threads: all calls on the owner's thread; searches run on the worker's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "trace/base/mutex.h"
#include "ui/context.h"

namespace shardscope::shell {

using FoundHitsPtr = std::shared_ptr<const ui::FoundHits>;

struct SearchRequest {
  std::string text;
  query::SnapshotPtr snapshot;
  bool operator==(const SearchRequest&) const = default;
};

// On the calling thread. Null: stopped.
FoundHitsPtr FindHits(const SearchRequest& request, const std::stop_token& stop = {});

class SearchWorker {
 public:
  // `wake` is called on the worker's thread after a search; it may be empty.
  explicit SearchWorker(std::function<void()> wake);
  ~SearchWorker();  // stops the search in the making
  SearchWorker(const SearchWorker&) = delete;
  SearchWorker& operator=(const SearchWorker&) = delete;

  // What is asked for already is not asked again. Another text stops the search in the making;
  // newer rows let it end, and are searched at most three times a second, with half of a core left
  // alone.
  void Request(SearchRequest request);

  // Stops, and forgets what was found.
  void Forget();

  // Of the newest search that has ended; null before the first.
  FoundHitsPtr Latest() const;

 private:
  void Run();

  const std::function<void()> wake_;
  SearchRequest asked_;  // on the owner's thread
  mutable Mutex mutex_;
  CondVar requested_;
  std::optional<SearchRequest> next_ GUARDED_BY(mutex_);
  std::stop_source running_ GUARDED_BY(mutex_);
  FoundHitsPtr latest_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace shardscope::shell
