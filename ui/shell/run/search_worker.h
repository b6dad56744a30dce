// SearchWorker: looks for what was typed, so that no frame waits for it.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "ui/context.h"
#include "ui/shell/run/newest_worker.h"

namespace shardscope::shell {

using FoundHitsPtr = std::shared_ptr<const ui::FoundHits>;

struct SearchRequest {
  std::string text;
  query::SnapshotPtr snapshot;

  bool Asks(const SearchRequest& other) const { return text == other.text; }
  bool operator==(const SearchRequest&) const = default;
};

// On the calling thread. Null: stopped.
FoundHitsPtr FindHits(const SearchRequest& request, const std::stop_token& stop = {});

class SearchWorker : public NewestWorker<SearchRequest, ui::FoundHits> {
 public:
  explicit SearchWorker(std::function<void()> wake) : NewestWorker(FindHits, std::move(wake)) {}
};

}  // namespace shardscope::shell
