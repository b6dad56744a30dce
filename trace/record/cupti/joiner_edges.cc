// The Joiner's edges: which work of one stream waited for which of another.
#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "trace/record/cupti/joiner.h"

namespace shardscope::cupti {

// A wait stays until the work after it is here, or it has waited long enough for that.
void Joiner::TakeEdges(int64_t old_ns, Joined& joined) {
  const auto precedes = [](const StreamEvent& event, uint32_t correlation) {
    return Precedes(event.correlation, correlation);
  };
  std::vector<Wait> later;
  for (const Wait& wait : waits_) {
    const bool is_old = wait.start_ns < old_ns;
    const auto recording = recordings_.find(wait.recording);
    if (recording == recordings_.end()) {
      if (is_old) ++counts_.without_event;
      if (!is_old) later.push_back(wait);
      continue;
    }
    const EventRecord& record = recording->second.record;
    if (record.stream == wait.stream) continue;
    Edge edge;
    edge.recording = wait.recording;
    edge.from = record.stream;
    edge.to = wait.stream;
    edge.recorded_ns = record.time_ns;
    edge.waited_ns = wait.start_ns;
    // Streams are in the order of their calls (see Take).
    const std::vector<StreamEvent>& to = streams_[wait.stream];
    const auto first = std::lower_bound(to.begin(), to.end(), wait.correlation, precedes);
    if (first == to.end() && !is_old) {
      later.push_back(wait);
      continue;
    }
    if (first != to.end()) {
      edge.to_op = first->op;
      edge.to_correlation = first->correlation;
    }
    const std::vector<StreamEvent>& from = streams_[record.stream];
    const auto after = std::lower_bound(from.begin(), from.end(), record.correlation, precedes);
    if (after != from.begin()) {
      edge.from_op = std::prev(after)->op;
      edge.from_correlation = std::prev(after)->correlation;
    }
    joined.edges.push_back(edge);
  }
  waits_ = std::move(later);
  std::sort(joined.edges.begin(), joined.edges.end(), [](const Edge& a, const Edge& b) {
    return std::tuple(a.waited_ns, a.recording, a.to) < std::tuple(b.waited_ns, b.recording, b.to);
  });
}

}  // namespace shardscope::cupti
