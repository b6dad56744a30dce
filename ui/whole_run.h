// The view of a whole run.
#pragma once

#include <algorithm>

#include "trace/query/snapshot.h"
#include "ui/context.h"

namespace shardscope::ui {

// From its first row to its last, and some room behind it where collectives had not ended: those
// that hang began last.
inline View WholeRun(const query::Snapshot& snapshot) {
  View view{snapshot.start_ns, snapshot.end_ns, false};
  const bool hangs = std::any_of(snapshot.flight_entries.begin(), snapshot.flight_entries.end(),
                                 [](const query::FlightEntry& entry) {
                                   return entry.state != query::FlightState::kCompleted;
                                 });
  if (hangs) view.end_ns += (view.end_ns - view.start_ns) / 16;
  return view;
}

}  // namespace shardscope::ui
