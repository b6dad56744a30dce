// MemoryChoicesWorker: finds out what one change of its configuration would make of a run's peak,
// so that no frame waits for it.
#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "trace/query/snapshot.h"
#include "ui/memory_choices.h"
#include "ui/shell/run/newest_worker.h"

namespace shardscope::shell {

// The same question until a knob is turned.
struct MemoryChoicesRequest {
  std::map<std::string, std::string> values;  // of the run's keys
  query::SnapshotPtr snapshot;                // none: its keys are all that it takes

  bool operator==(const MemoryChoicesRequest&) const = default;
  bool Asks(const MemoryChoicesRequest& other) const { return values == other.values; }
};
using MemoryChoicesWorker = NewestWorker<MemoryChoicesRequest, ui::MemoryChoices>;

inline std::shared_ptr<const ui::MemoryChoices> MakeMemoryChoices(
    const MemoryChoicesRequest& request, const std::stop_token& stop) {
  auto made = std::make_shared<const ui::MemoryChoices>(ui::MemoryChoicesOf(request.values));
  return stop.stop_requested() ? nullptr : std::move(made);
}

}  // namespace shardscope::shell
