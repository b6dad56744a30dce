// CompareWorker: reads the run that the open one is compared with, and compares them, so that no
// frame waits for it.
//
// Threads: all calls on the owner's thread; runs are read and compared on the worker's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "ui/beside_step.h"
#include "ui/comparison.h"
#include "ui/context.h"
#include "ui/shell/run/newest_worker.h"
#include "ui/shell/run/progress_wake.h"

namespace shardscope::shell {

struct CompareRequest {
  query::SnapshotPtr snapshot;  // of A, with all rows
  std::optional<ui::ComparedWith> with;
  bool operator==(const CompareRequest&) const = default;
  bool Asks(const CompareRequest& other) const { return with == other.with; }
};

// Compares on the calling thread: for headless pictures, and inside the worker. B is read once for
// each question; newer rows of A are compared with what was read.
class CompareMaker {
 public:
  // `progress` is called while B is imported, on any thread. `memory_bytes`: for B, as
  // query::ReadLimits.
  explicit CompareMaker(std::function<void(double share)> progress = {}, int64_t memory_bytes = 0)
      : progress_(std::move(progress)), memory_bytes_(memory_bytes) {}

  // Null: stopped.
  std::shared_ptr<const ui::Compared> Make(const CompareRequest& request,
                                           const std::stop_token& stop);

 private:
  // What is wrong with it is kept, too, until it is asked for again.
  Status ReadB(const query::Snapshot& a, const ui::ComparedWith& with, const std::stop_token& stop);
  Result<query::SnapshotPtr> Read(const query::Snapshot& a, const ui::ComparedWith& with,
                                  const std::stop_token& stop) const;

  const std::function<void(double share)> progress_;
  const int64_t memory_bytes_;
  std::optional<ui::ComparedWith> read_for_;
  Result<query::SnapshotPtr> b_ = query::SnapshotPtr();
};

// The step of B beside a finished one of A, which later rows do not change.
struct BesideRequest {
  query::SnapshotPtr snapshot;
  std::shared_ptr<const ui::Compared> compared;
  int32_t step = -1;
  std::optional<ui::SelectedOp> selected;
  bool operator==(const BesideRequest&) const = default;
  bool Asks(const BesideRequest& other) const {
    return compared == other.compared && step == other.step && selected == other.selected;
  }
};
using BesideWorker = NewestWorker<BesideRequest, ui::BesideStep>;
inline std::shared_ptr<const ui::BesideStep> MakeBeside(const BesideRequest& request,
                                                        const std::stop_token&) {
  return ui::StepBeside(*request.snapshot, *request.compared, request.step, request.selected);
}

class CompareWorker {
 public:
  // `memory_bytes`: for B, as query::ReadLimits.
  explicit CompareWorker(std::function<void()> wake, int64_t memory_bytes = 0);

  void Ask(CompareRequest request) { worker_.Ask(std::move(request)); }
  void Forget() { worker_.Forget(); }
  std::shared_ptr<const ui::Compared> Latest() const { return worker_.Latest(); }
  double share() const { return share_; }

 private:
  void Progress(double share);

  std::atomic<double> share_ = 0;
  ProgressWake progress_wake_;
  CompareMaker maker_;                                 // the worker's thread
  NewestWorker<CompareRequest, ui::Compared> worker_;  // last: its thread uses the rest
};

}  // namespace shardscope::shell
