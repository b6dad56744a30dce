// BlocksWorker: reads what is live at a moment, block by block, so that no frame waits for it.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "trace/base/status.h"
#include "trace/query/live_blocks.h"
#include "trace/query/snapshot.h"
#include "ui/shell/run/folder_watch.h"
#include "ui/shell/run/newest_worker.h"

namespace shardscope::shell {

struct BlocksRequest {
  std::string path;
  query::BlocksQuery query;
  // Of a run that goes on near that moment: newer rows may tell who frees what. Else null.
  query::SnapshotPtr snapshot;
  std::shared_ptr<FolderWatch> watch;  // null: of a fixed snapshot
  bool plays = false;  // of a lens that plays: its next moment lets the answer to this one end

  bool operator==(const BlocksRequest&) const = default;
  bool Asks(const BlocksRequest& other) const {
    const bool follows = plays && other.plays && query.rank == other.query.rank;
    return path == other.path && (follows || query == other.query);
  }
};
using BlocksWorker = NewestWorker<BlocksRequest, Result<query::LiveBlocks>>;

inline BlocksRequest RequestBlocks(const std::string& path, const query::BlocksQuery& query,
                                   const query::SnapshotPtr& snapshot,
                                   std::shared_ptr<FolderWatch> watch) {
  constexpr int64_t kSettledNs = 2'000'000'000;
  const bool grows = query::MayGrow(snapshot->state) && snapshot->end_ns - query.at_ns < kSettledNs;
  return {path, query, grows ? snapshot : nullptr, std::move(watch)};
}

// Null: stopped.
inline std::shared_ptr<const Result<query::LiveBlocks>> ReadBlocks(const BlocksRequest& request,
                                                                   const std::stop_token& stop) {
  auto answer = std::make_shared<Result<query::LiveBlocks>>(
      query::ReadLiveBlocks(request.path, request.query, stop));
  // Afterwards: what was read is that run's then.
  if (const Status there = request.watch == nullptr ? Status::Ok() : request.watch->Check();
      !there.ok()) {
    *answer = there;
  }
  return stop.stop_requested() ? nullptr : std::move(answer);
}

}  // namespace shardscope::shell
