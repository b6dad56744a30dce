// MemoryWorkers: has blocks of memory read and choices of memory found, so that no frame waits for
// them.
//
// Owner's thread only; workers have their own threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "trace/query/live_blocks.h"
#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/shell/run/blocks_worker.h"
#include "ui/shell/run/folder_watch.h"
#include "ui/shell/run/memory_choices_worker.h"

namespace shardscope::shell {

class MemoryWorkers {
 public:
  // `wake` is called on any thread when there is something new. `watch`: of the run; null for a
  // fixed snapshot.
  MemoryWorkers(std::function<void()> wake, std::shared_ptr<FolderWatch> watch)
      : wake_(std::move(wake)), watch_(std::move(watch)) {}

  // Once a frame in which they are shown: has the blocks read that are asked for, and puts the
  // newest answer into `blocks`. `wanted` nullopt: what was answered stays. `shown`: the rows;
  // null: none are there. `at_once`: on this thread, for pictures. `plays`: they are moments of a
  // lens that plays, one after the other, of which some are answered.
  void UpdateBlocks(bool at_once, const query::SnapshotPtr& shown,
                    const std::optional<query::BlocksQuery>& wanted, bool plays,
                    ui::BlocksState* blocks);
  // Likewise finds the choices, again when a knob was turned.
  void UpdateChoices(bool at_once, const query::SnapshotPtr& shown, ui::BlocksState* blocks);

 private:
  const std::function<void()> wake_;
  const std::shared_ptr<FolderWatch> watch_;
  std::unique_ptr<BlocksWorker> blocks_;          // from the first question on
  std::unique_ptr<MemoryChoicesWorker> choices_;  // likewise
};

}  // namespace shardscope::shell
