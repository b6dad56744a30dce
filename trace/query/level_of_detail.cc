#include "trace/query/level_of_detail.h"

#include <algorithm>
#include <cmath>

namespace shardscope::query {
namespace {

int64_t FloorDivide(int64_t value, int64_t divisor) {
  return value / divisor - (value % divisor < 0 ? 1 : 0);
}

// `pixels` in nanoseconds; bounded, so that sums with times do not overflow.
int64_t PixelsToNs(double pixels, double ns_per_pixel) {
  constexpr double kMost = 4e18;
  return std::max<int64_t>(1, std::llround(std::min(pixels * ns_per_pixel, kMost)));
}

}  // namespace

void TrackDetail::AddSpan(const DetailSpan& span, uint32_t index, Node* node) {
  const int64_t duration = span.end_ns - span.start_ns;
  node->busy_ns[static_cast<size_t>(span.op_class)] += duration;
  node->latest_end_ns = std::max(node->latest_end_ns, span.end_ns);
  if (duration > node->longest_ns) {
    node->longest_ns = duration;
    node->longest = index;
  }
}

void TrackDetail::AddNode(const Node& from, Node* node) {
  for (size_t i = 0; i < from.busy_ns.size(); ++i) node->busy_ns[i] += from.busy_ns[i];
  node->latest_end_ns = std::max(node->latest_end_ns, from.latest_end_ns);
  if (from.longest_ns > node->longest_ns) {
    node->longest_ns = from.longest_ns;
    node->longest = from.longest;
  }
}

// Spans are added in the order of their index. The top level has one node; as soon as it gets a
// second one, a new top sums both.
void TrackDetail::AddToTree(size_t index) {
  if (levels_.empty()) levels_.emplace_back();
  size_t slot = index / kBlockSpans;
  for (size_t level = 0; level < levels_.size(); ++level, slot /= kFanOut) {
    std::vector<Node>& nodes = levels_[level];
    if (slot == nodes.size()) nodes.emplace_back();
    AddSpan(spans_[index], static_cast<uint32_t>(index), &nodes[slot]);
  }
  if (levels_.back().size() > 1) {
    Node top;
    for (const Node& node : levels_.back()) AddNode(node, &top);
    levels_.push_back({top});
  }
}

void TrackDetail::Append(const DetailSpan& span) {
  if (spans_.empty() || spans_.back().start_ns <= span.start_ns) {
    spans_.push_back(span);
    AddToTree(spans_.size() - 1);
    return;
  }
  const auto place = std::upper_bound(
      spans_.begin(), spans_.end(), span.start_ns,
      [](int64_t start, const DetailSpan& other) { return start < other.start_ns; });
  spans_.insert(place, span);
  levels_.clear();
  for (size_t i = 0; i < spans_.size(); ++i) AddToTree(i);
}

size_t TrackDetail::FirstStartingAt(int64_t time_ns, size_t begin) const {
  const auto first =
      std::lower_bound(spans_.begin() + static_cast<std::ptrdiff_t>(begin), spans_.end(), time_ns,
                       [](const DetailSpan& span, int64_t time) { return span.start_ns < time; });
  return static_cast<size_t>(first - spans_.begin());
}

template <typename SpanTest, typename NodeTest>
size_t TrackDetail::FindFirst(size_t begin, size_t end, SpanTest&& span, NodeTest&& node) const {
  size_t i = begin;
  while (i < end) {
    // The widest node that starts at i, lies within the range and cannot hold a match is skipped.
    size_t skip = 0;
    size_t width = kBlockSpans;
    for (const std::vector<Node>& nodes : levels_) {
      if (i % width != 0 || i + width > end || node(nodes[i / width])) break;
      skip = width;
      width *= kFanOut;
    }
    if (skip > 0) {
      i += skip;
      continue;
    }
    if (span(spans_[i])) return i;
    ++i;
  }
  return end;
}

size_t TrackDetail::FirstEndingAfter(int64_t time_ns) const {
  return FindFirst(
      0, spans_.size(), [=](const DetailSpan& span) { return span.end_ns > time_ns; },
      [=](const Node& node) { return node.latest_end_ns > time_ns; });
}

size_t TrackDetail::FirstAsLongAs(int64_t duration_ns, size_t begin, size_t end) const {
  return FindFirst(
      begin, end,
      [=](const DetailSpan& span) { return span.end_ns - span.start_ns >= duration_ns; },
      [=](const Node& node) { return node.longest_ns >= duration_ns; });
}

TrackDetail::Node TrackDetail::Sum(size_t begin, size_t end) const {
  Node sum;
  size_t i = begin;
  while (i < end) {
    // The widest node that starts at i and lies within the range, else one span.
    const Node* widest = nullptr;
    size_t step = 1;
    size_t width = kBlockSpans;
    for (const std::vector<Node>& nodes : levels_) {
      if (i % width != 0 || i + width > end) break;
      widest = &nodes[i / width];
      step = width;
      width *= kFanOut;
    }
    if (widest != nullptr) {
      AddNode(*widest, &sum);
    } else {
      AddSpan(spans_[i], static_cast<uint32_t>(i), &sum);
    }
    i += step;
  }
  return sum;
}

DrawItem TrackDetail::Fold(size_t begin, size_t end) const {
  const Node sum = Sum(begin, end);
  DrawItem item;
  item.start_ns = spans_[begin].start_ns;
  item.end_ns = sum.latest_end_ns;
  const auto most = std::max_element(sum.busy_ns.begin(), sum.busy_ns.end());
  item.op_class = static_cast<OpClass>(most - sum.busy_ns.begin());
  // Only spans without a duration: nothing was busy, the first one names the run.
  if (*most == 0) item.op_class = spans_[begin].op_class;
  for (const int64_t busy : sum.busy_ns) item.busy_ns += busy;
  item.num_spans = static_cast<uint32_t>(end - begin);
  item.row = spans_[sum.longest].row;
  return item;
}

std::vector<DrawItem> TrackDetail::Visible(int64_t from_ns, int64_t to_ns,
                                           double ns_per_pixel) const {
  const int64_t min_ns = PixelsToNs(kMinSpanPixels, ns_per_pixel);
  const int64_t cell_ns = PixelsToNs(kFoldPixels, ns_per_pixel);
  std::vector<DrawItem> items;
  size_t i = FirstEndingAfter(from_ns);
  while (i < spans_.size() && spans_[i].start_ns < to_ns) {
    const DetailSpan& span = spans_[i];
    if (span.end_ns - span.start_ns >= min_ns) {
      if (span.end_ns > from_ns) items.push_back(Fold(i, i + 1));
      ++i;
      continue;
    }
    const int64_t cell_end = (FloorDivide(span.start_ns, cell_ns) + 1) * cell_ns;
    const size_t next = FirstAsLongAs(min_ns, i, FirstStartingAt(cell_end, i));
    items.push_back(Fold(i, next));
    i = next;
  }
  return items;
}

int64_t TrackDetail::At(int64_t time_ns) const {
  const size_t after = FirstStartingAt(time_ns + 1, 0);
  const size_t first = FirstEndingAfter(time_ns);
  for (size_t i = after; i-- > first;) {
    if (spans_[i].end_ns > time_ns) return static_cast<int64_t>(i);
  }
  return -1;
}

void RunDetail::Update(const Snapshot& snapshot) {
  for (const RankRows& rank : snapshot.ranks) {
    size_t& taken = rows_taken_[rank.rank];
    for (; taken < rank.op_runs.size(); ++taken) {
      const OpRun& run = rank.op_runs[taken];
      const PlanOp* op = snapshot.FindPlanOp(run.plan_op);
      tracks_[run.track].Append({run.started_ns, run.ended_ns,
                                 op == nullptr ? OpClass::kHost : op->op_class,
                                 static_cast<uint32_t>(taken)});
    }
  }
}

const TrackDetail* RunDetail::Track(int64_t track) const {
  const auto found = tracks_.find(track);
  return found == tracks_.end() ? nullptr : &found->second;
}

}  // namespace shardscope::query
