// MemoryChoicesWorker: finds out what one change of its configuration would make of a run's peak,
// so that no frame waits for it.
#pragma once

#include <memory>
#include <stop_token>

#include "trace/query/snapshot.h"
#include "ui/memory_choices.h"
#include "ui/shell/run/newest_worker.h"

namespace shardscope::shell {

// The same question until a knob is turned.
struct MemoryChoicesRequest {
  query::SnapshotPtr snapshot;

  bool operator==(const MemoryChoicesRequest& other) const {
    if (snapshot == nullptr || other.snapshot == nullptr) return snapshot == other.snapshot;
    return snapshot->run_folder == other.snapshot->run_folder &&
           snapshot->markers.size() == other.snapshot->markers.size() &&
           snapshot->config.size() == other.snapshot->config.size();
  }
  bool Asks(const MemoryChoicesRequest& other) const { return *this == other; }
};
using MemoryChoicesWorker = NewestWorker<MemoryChoicesRequest, ui::MemoryChoices>;

inline std::shared_ptr<const ui::MemoryChoices> MakeMemoryChoices(
    const MemoryChoicesRequest& request, const std::stop_token& stop) {
  auto made = std::make_shared<const ui::MemoryChoices>(ui::MemoryChoicesOf(*request.snapshot));
  return stop.stop_requested() ? nullptr : std::move(made);
}

}  // namespace shardscope::shell
