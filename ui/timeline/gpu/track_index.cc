#include "ui/timeline/gpu/track_index.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "trace/base/collective_names.h"
#include "trace/query/find_track.h"
#include "trace/query/has_ended.h"

namespace shardscope::timeline {
namespace {

using query::OpClass;
using query::SpanCategory;

// "GPU 0 context 1 stream 7" is "stream 7" beside its rank; where several GPUs or contexts have a
// stream of that number, the whole name tells them apart.
std::string NameOf(const query::Snapshot& snapshot, query::TrackId track) {
  if (const query::GpuStream* stream = query::FindStream(snapshot, track)) {
    const auto alike = std::count_if(
        snapshot.gpu_streams.begin(), snapshot.gpu_streams.end(), [&](const auto& other) {
          return other.rank == stream->rank && other.stream == stream->stream;
        });
    if (alike == 1) return "stream " + std::to_string(stream->stream);
    return "GPU " + std::to_string(stream->device) + " stream " + std::to_string(stream->stream);
  }
  const query::Track* row = query::FindTrack(snapshot, track);
  if (row == nullptr) return "?";
  return row->name.empty() ? "main thread" : row->name;
}

// The indices of `lanes` by that key of each.
template <typename Lanes, typename Key>
std::vector<uint16_t> Order(const Lanes& lanes, const Key& key) {
  std::vector<uint16_t> order(std::min<size_t>(lanes.size(), UINT16_MAX));
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::stable_sort(order, {}, [&](uint16_t at) { return key(lanes[at]); });
  return order;
}

// Where a range ends in its lane. One whose end was not seen goes on beyond the room that a view
// can have behind the run.
int64_t EndOf(const query::Snapshot& snapshot, const query::Span& span) {
  if (query::HasEnded(snapshot, span)) return span.end_ns;
  const int64_t room_ns = (snapshot.end_ns - snapshot.start_ns) / 8;
  return std::max(span.end_ns, snapshot.end_ns) + room_ns;
}

// One that is not known is drawn as an all-reduce.
OpClass CollectiveOf(std::string_view name) {
  const std::string_view kind = CollectiveKindOfKernel(name);
  if (kind == Name(OpClass::kSendReceive)) return OpClass::kSendReceive;
  return query::OpClassOf(kind, query::Category::kCommunication);
}

}  // namespace

OpClass ClassOf(SpanCategory category, std::string_view name) {
  switch (category) {
    case SpanCategory::kCompute:
      return OpClass::kForward;
    case SpanCategory::kOptimizer:
      return OpClass::kOptimizer;
    case SpanCategory::kCopy:
      return OpClass::kCopy;
    case SpanCategory::kCommunication:
      return CollectiveOf(name);
    case SpanCategory::kHost:
    case SpanCategory::kWait:
      break;
  }
  return OpClass::kHost;
}

std::string ShortKernelName(std::string_view name) {
  // The parameters begin at the first bracket outside template arguments; "(anonymous namespace)"
  // is none.
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string plain;
  int depth = 0;
  for (size_t at = 0; at < name.size(); ++at) {
    if (depth == 0 && name.substr(at).starts_with(kAnonymous)) {
      at += kAnonymous.size() - 1;
      continue;
    }
    if (depth == 0 && name[at] == '(' && !plain.empty()) break;
    if (name[at] == '<') ++depth;
    if (depth == 0) plain += name[at];
    if (name[at] == '>' && depth > 0) --depth;
  }
  // "void f"; but words that name no function stay as they are.
  const bool function = name.find('(') != std::string_view::npos;
  const size_t space = plain.rfind(' ');
  if (function && space != std::string::npos && space + 1 < plain.size()) {
    plain.erase(0, space + 1);
  }
  const size_t colons = plain.rfind("::");
  if (colons != std::string::npos && colons + 2 < plain.size()) plain.erase(0, colons + 2);
  return plain.empty() ? std::string(name) : plain;
}

size_t TrackIndex::Advance(const query::Snapshot& snapshot, const query::RankRows& rows,
                           const Looks& looks, size_t max_rows) {
  size_t taken = 0;
  for (; num_work_ < rows.gpu_work.size() && taken < max_rows; ++num_work_, ++taken) {
    TakeWork(snapshot, rows.gpu_work[num_work_], static_cast<uint32_t>(num_work_), looks);
  }
  while (taken < max_rows) {
    if (next_sorted_ == sorted_.size()) SortSpans(snapshot, rows);
    if (sorted_.empty()) break;
    const uint32_t row = sorted_[next_sorted_++];
    TakeSpan(snapshot, rows.spans[row], row);
    ++taken;
  }
  for (std::vector<TrackLane>* const lanes : {&streams_, &threads_}) {
    for (TrackLane& lane : *lanes) {
      for (SpanColumn& column : lane.levels) column.UpdateDensity();
    }
  }
  return taken;
}

void TrackIndex::SortSpans(const query::Snapshot& snapshot, const query::RankRows& rows) {
  constexpr size_t kAtATime = 65'536;  // some 6 ms
  const size_t count = std::min(rows.spans.size() - num_sorted_, kAtATime);
  std::vector<std::tuple<int64_t, int64_t, uint32_t>> keys;  // end, longest first, row
  keys.reserve(count);
  for (size_t row = num_sorted_; row < num_sorted_ + count; ++row) {
    const query::Span& span = rows.spans[row];
    keys.emplace_back(EndOf(snapshot, span), -span.start_ns, static_cast<uint32_t>(row));
  }
  std::sort(keys.begin(), keys.end());
  sorted_.clear();
  for (const auto& key : keys) sorted_.push_back(std::get<2>(key));
  num_sorted_ += count;
  next_sorted_ = 0;
}

TrackLane& TrackIndex::LaneOf(const query::Snapshot& snapshot, query::TrackId track,
                              std::vector<TrackLane>* lanes,
                              std::unordered_map<query::TrackId, size_t>* places) {
  const auto [place, is_new] = places->try_emplace(track, lanes->size());
  if (is_new) {
    TrackLane& lane = lanes->emplace_back();
    lane.track = track;
    lane.name = NameOf(snapshot, track);
    lane.levels.resize(1);
    if (const query::Track* known = query::FindTrack(snapshot, track)) {
      lane.position = known->position;
    }
    if (const query::GpuStream* stream = query::FindStream(snapshot, track)) {
      lane.device = stream->device;
      lane.stream = stream->stream;
    }
  }
  return (*lanes)[place->second];
}

std::vector<uint16_t> TrackIndex::StreamsInOrder() const {
  return Order(streams_, [](const auto& lane) { return std::pair(lane.device, lane.stream); });
}

std::vector<uint16_t> TrackIndex::ThreadsInOrder() const {
  return Order(threads_, [](const auto& lane) { return std::pair(lane.position, lane.track); });
}

void TrackIndex::Insert(const Span& span, size_t level, TrackLane* lane) {
  lane->levels[level].Insert(span);
  ++lane->num_spans;
  if (SlotOf(span.op_class) != 0) return;
  int64_t& busy_ns = lane->busy_ns_[static_cast<size_t>(span.op_class)];
  busy_ns += span.end_ns - span.start_ns;
  if (busy_ns >= lane->busy_ns_[static_cast<size_t>(lane->op_class)]) {
    lane->op_class = span.op_class;
  }
}

void TrackIndex::TakeWork(const query::Snapshot& snapshot, const query::GpuWork& work, uint32_t row,
                          const Looks& looks) {
  TrackLane& lane = LaneOf(snapshot, work.track, &streams_, &stream_of_track_);
  Span span{work.start_ns, work.end_ns, row, OpClass::kHost, 0, false};
  const auto look = looks.find(work.plan_op);
  if (look != looks.end()) {
    span.op_class = look->second.first;
    span.shade = look->second.second;
  } else {
    span.op_class = ClassOf(work.category, snapshot.names[static_cast<size_t>(work.name)]);
  }
  // A copy-in before a collective is a copy, whatever op launched it.
  if (work.kind != query::GpuWorkKind::kKernel) span.op_class = OpClass::kCopy;
  Insert(span, 0, &lane);
  if (work.kind != query::GpuWorkKind::kKernel ||
      work.channel_kind == query::ChannelKind::kUnknown) {
    return;
  }
  lane.several_channels |= lane.has_channel && lane.channel != work.channel;
  lane.has_channel = true;
  lane.channel = work.channel;
  lane.channel_kind = work.channel_kind;
}

// Ranges are taken in the order of their ends, so inner ones before outer ones: each goes to the
// level above all that it contains.
void TrackIndex::TakeSpan(const query::Snapshot& snapshot, const query::Span& row_span,
                          uint32_t row) {
  if (stream_of_track_.contains(row_span.track)) return;  // the kernel's own row has more
  TrackLane& lane = LaneOf(snapshot, row_span.track, &threads_, &thread_of_track_);
  const std::string& name = snapshot.names[static_cast<size_t>(row_span.name)];
  const Span span{row_span.start_ns,
                  EndOf(snapshot, row_span),
                  row,
                  ClassOf(row_span.category, name),
                  static_cast<uint8_t>(row_span.name % 3),
                  false};
  size_t level = lane.levels.size();
  for (; level > 0; --level) {
    const SpanColumn& column = lane.levels[level - 1];
    if (column.FirstTouching(span.start_ns) < column.FirstStartingAt(span.end_ns)) break;
  }
  level = std::min(level, kMaxLevels - 1);
  if (level == lane.levels.size()) lane.levels.emplace_back();
  Insert(span, level, &lane);
}

const TrackLane* TrackIndex::SharesChannel(const query::Snapshot& snapshot,
                                           const TrackLane& stream) const {
  const query::GpuStream* own = query::FindStream(snapshot, stream.track);
  if (own == nullptr || !stream.has_channel) return nullptr;
  for (const TrackLane& other : streams_) {
    if (other.track == stream.track || !other.has_channel) continue;
    if (other.channel != stream.channel || other.channel_kind != stream.channel_kind) continue;
    const query::GpuStream* theirs = query::FindStream(snapshot, other.track);
    const bool same = theirs != nullptr && theirs->process == own->process &&
                      theirs->device == own->device && theirs->context == own->context;
    if (same) return &other;
  }
  return nullptr;
}

}  // namespace shardscope::timeline
