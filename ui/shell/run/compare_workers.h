// CompareWorkers: has the run compared with another one, and its steps found beside those of this
// one, so that no frame waits for them.
//
// Owner's thread only; workers have their own threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/shell/run/compare_worker.h"

namespace shardscope::shell {

class CompareWorkers {
 public:
  // `wake` is called on any thread when there is something new. `memory_bytes`: for the other run,
  // as query::ReadLimits.
  CompareWorkers(std::function<void()> wake, int64_t memory_bytes)
      : wake_(std::move(wake)), memory_bytes_(memory_bytes) {}

  // Once a frame: has the run compared with what is asked for, of a run that goes on again and
  // again where `in_front`, and puts the answer into `compare`. `shown`: the rows; null: none are
  // there. `at_once`: on this thread, for pictures.
  void UpdateCompare(bool at_once, const query::SnapshotPtr& shown, bool in_front,
                     ui::CompareState* compare);
  // Once a frame, after it: has the step of B beside `step` found, if it is to be shown.
  void UpdateBeside(bool at_once, const query::SnapshotPtr& shown, int32_t step,
                    const ui::Selection& selection, ui::CompareState* compare);
  // Others have taken the place of all rows. What is answered stays.
  void ForgetRows();

 private:
  const std::function<void()> wake_;
  const int64_t memory_bytes_;
  std::unique_ptr<CompareWorker> compare_;  // from the first comparison on
  std::unique_ptr<BesideWorker> beside_;    // from the first step beside one on
  BesideRequest asked_;                     // of it
};

}  // namespace shardscope::shell
