// CriticalPaths: has the critical paths of steps found, so that no frame waits for them, and keeps
// them.
//
// Owner's thread only; the worker has its own thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/shell/run/lens_workers.h"

namespace shardscope::shell {

class CriticalPaths {
 public:
  // `wake` is called on any thread when there is something new.
  explicit CriticalPaths(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Once a frame: has the critical path of `step` found, or that of the newest step before it that
  // all ranks have finished, and puts it into `path`. `shown`: the rows; null: none are there.
  // `at_once`: on this thread, for pictures.
  void Update(bool at_once, const query::SnapshotPtr& shown, int32_t step,
              ui::CriticalPathState* path);

 private:
  const std::function<void()> wake_;
  std::unique_ptr<PathWorker> worker_;  // from the first critical path on
  std::map<int32_t, std::shared_ptr<const analysis::StepPath>> paths_;  // by step
};

}  // namespace shardscope::shell
