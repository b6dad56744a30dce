#include "trace/import/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "trace/import/steps.h"

namespace shardscope::imports {
namespace {

// Puts rows of one recording into another, whose names and tracks have other numbers.
class Joining {
 public:
  Joining(Recording* from, Recording* to)
      : from_(*from),
        to_(*to),
        first_track_(static_cast<uint32_t>(to->tracks.size())),
        num_names_(static_cast<Names::Index>(to->names.size())) {
    index_of_name_.reserve(from_.names.size());
    for (Names::Index name = 0; name < from_.names.size(); ++name) {
      index_of_name_.push_back(to_.names.Add(from_.names[name]));
    }
  }

  void Join() {
    Move(&from_.tracks, &to_.tracks);
    for (RecordedSpan& span : from_.spans) Renumber(&span.track, {&span.name});
    // Both files tell of the program's own ranges, one of them in more detail.
    std::erase_if(from_.spans, [this](const RecordedSpan& span) {
      return span.category == words::SpanCategory::kHost && span.name < num_names_;
    });
    Move(&from_.spans, &to_.spans);
    for (RecordedCounter& counter : from_.counters) Renumber(&counter.track, {&counter.name});
    Move(&from_.counters, &to_.counters);
    if (!from_.memory.empty()) to_.memory.clear();
    for (RecordedMemory& memory : from_.memory) Renumber(nullptr, {&memory.unit});
    Move(&from_.memory, &to_.memory);
    for (RecordedAllocation& block : from_.allocator.blocks) {
      Renumber(&block.track, {&block.stack, &block.context, &block.range, &block.unit});
    }
    Move(&from_.allocator.blocks, &to_.allocator.blocks);
    Move(&from_.allocator.segments, &to_.allocator.segments);
    for (RecordedFlight& entry : from_.flight.entries) {
      Renumber(nullptr, {&entry.name, &entry.input, &entry.output, &entry.stack});
    }
    Move(&from_.flight.entries, &to_.flight.entries);
    Move(&from_.flight.groups, &to_.flight.groups);
    Move(&from_.markers, &to_.markers);
    Move(&from_.steps, &to_.steps);
  }

 private:
  void Renumber(uint32_t* track, std::initializer_list<Names::Index*> names) const {
    if (track != nullptr) *track += first_track_;
    for (Names::Index* const name : names) *name = index_of_name_[*name];
  }

  template <typename Row>
  static void Move(std::vector<Row>* from, std::vector<Row>* to) {
    to->insert(to->end(), std::make_move_iterator(from->begin()),
               std::make_move_iterator(from->end()));
    from->clear();
  }

  Recording& from_;
  Recording& to_;
  const uint32_t first_track_;
  const Names::Index num_names_;  // that it had
  std::vector<Names::Index> index_of_name_;
};

}  // namespace

Names::Index Names::Add(std::string_view text) {
  const auto known = index_of_.find(text);
  if (known != index_of_.end()) return known->second;
  const auto index = static_cast<Index>(texts_.size());
  index_of_.emplace(texts_.emplace_back(text), index);
  return index;
}

RecordedTimes TimesOf(const Recording& recording) {
  RecordedTimes times{INT64_MAX, INT64_MIN};
  const auto extend = [&times](int64_t start_ns, int64_t duration_ns) {
    times.first_ns = std::min(times.first_ns, start_ns);
    times.last_ns = std::max(times.last_ns, start_ns + duration_ns);
  };
  for (const RecordedSpan& span : recording.spans) extend(span.start_ns, span.duration_ns);
  for (const RecordedWork& work : recording.works) extend(work.start_ns, work.duration_ns);
  for (const RecordedFlight& flight : recording.flight.entries) extend(flight.created_ns, 0);
  return times;
}

void AddRecording(Recording addition, std::string_view format, Recording* to) {
  // The steps of a file without marks are those of that file.
  if (to->steps.empty() && addition.steps.empty()) to->steps = HostSteps(*to).steps();
  Joining(&addition, to).Join();
  to->title += ", " + addition.title;
  to->has_unmarked_step |= addition.has_unmarked_step;
  to->meta.merge(addition.meta);
  if (to->device.empty()) to->device = addition.device;
  if (to->host.empty()) to->host = addition.host;
  for (const auto& [what, count] : addition.not_understood) {
    to->not_understood[fmt::format("{}: {}", format, what)] += count;
  }
  if (addition.cut.empty()) return;
  to->cut += fmt::format("{}{}: {}", to->cut.empty() ? "" : "; ", format, addition.cut);
}

}  // namespace shardscope::imports
