#include "ui/timeline/span_column.h"

#include <algorithm>
#include <cmath>

namespace shardscope::timeline {
namespace {

// What an issue counts for in a coarse view, where a moment without length would vanish.
constexpr int64_t kInstantNs = 20'000;

// The next coarser level: pairs of bins added up.
std::vector<SlotBusy> Coarser(const std::vector<SlotBusy>& bins) {
  std::vector<SlotBusy> coarser((bins.size() + 1) / 2, SlotBusy{});
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    for (size_t slot = 0; slot < kNumSlots; ++slot) coarser[bin / 2][slot] += bins[bin][slot];
  }
  return coarser;
}

}  // namespace

size_t SlotOf(query::OpClass op_class) {
  switch (op_class) {
    case query::OpClass::kBackward:
      return 1;
    case query::OpClass::kOptimizer:
      return 2;
    case query::OpClass::kCopy:
      return 3;
    default:
      return 0;
  }
}

void DensityPyramid::Add(int64_t start_ns, int64_t end_ns, size_t slot) {
  if (!has_origin_) {
    // A margin in front, because rows come in the order of their ends.
    origin_ns_ = start_ns - (int64_t{64} << kFirstShift);
    has_origin_ = true;
    levels_.resize(1);
  }
  start_ns = std::max(start_ns, origin_ns_);
  end_ns = std::max(end_ns, start_ns);
  while (static_cast<size_t>((end_ns - origin_ns_) >> finest_shift_) >= kMaxBins) {
    if (levels_.size() == 1) levels_.push_back(Coarser(levels_.front()));
    levels_.erase(levels_.begin());
    ++finest_shift_;
  }
  for (size_t level = 0; level < levels_.size(); ++level) {
    const int shift = finest_shift_ + static_cast<int>(level);
    std::vector<SlotBusy>& bins = levels_[level];
    const auto last = static_cast<size_t>((end_ns - origin_ns_) >> shift);
    if (bins.size() <= last) bins.resize(last + 1, SlotBusy{});
    for (auto bin = static_cast<size_t>((start_ns - origin_ns_) >> shift); bin <= last; ++bin) {
      const int64_t bin_start = origin_ns_ + (static_cast<int64_t>(bin) << shift);
      const int64_t bin_end = bin_start + (int64_t{1} << shift);
      const int64_t busy = std::min(end_ns, bin_end) - std::max(start_ns, bin_start);
      bins[bin][slot] += static_cast<float>(std::max<int64_t>(busy, 0));
    }
    // The next coarser level exists once this one has more than a handful of bins.
    if (level + 1 == levels_.size() && bins.size() > 64) {
      levels_.push_back(Coarser(bins));
      break;  // it already contains this span
    }
  }
}

std::vector<SlotBusy> DensityPyramid::Columns(Range range, int num_columns) const {
  std::vector<SlotBusy> columns(static_cast<size_t>(std::max(num_columns, 0)), SlotBusy{});
  if (!has_origin_ || range.length_ns() <= 0 || num_columns <= 0) return columns;
  const double column_ns = static_cast<double>(range.length_ns()) / num_columns;
  size_t level = 0;
  while (level + 1 < levels_.size() &&
         std::ldexp(2.0, finest_shift_ + static_cast<int>(level) + 1) <= column_ns) {
    ++level;
  }
  const int shift = finest_shift_ + static_cast<int>(level);
  const std::vector<SlotBusy>& bins = levels_[level];
  const int64_t from_ns = std::max(range.start_ns, origin_ns_);
  for (auto bin = static_cast<size_t>((from_ns - origin_ns_) >> shift); bin < bins.size(); ++bin) {
    const int64_t bin_start = origin_ns_ + (static_cast<int64_t>(bin) << shift);
    if (bin_start >= range.end_ns) break;
    // The bin as an interval of columns; its busy time is spread evenly over it.
    const double first = static_cast<double>(bin_start - range.start_ns) / column_ns;
    const double last = first + std::ldexp(1.0, shift) / column_ns;
    const int to = std::min(static_cast<int>(std::ceil(last)), num_columns);
    for (int column = std::max(static_cast<int>(first), 0); column < to; ++column) {
      const double part = std::min(last, column + 1.0) - std::max<double>(first, column);
      const auto share = static_cast<float>(part / (last - first));
      SlotBusy& busy = columns[static_cast<size_t>(column)];
      for (size_t slot = 0; slot < kNumSlots; ++slot) busy[slot] += share * bins[bin][slot];
    }
  }
  return columns;
}

void SpanColumn::Insert(const Span& span) {
  size_t at = spans_.size();
  while (at > 0 && spans_[at - 1].start_ns > span.start_ns) --at;
  spans_.insert(spans_.begin() + static_cast<std::ptrdiff_t>(at), span);
  max_end_.insert(max_end_.begin() + static_cast<std::ptrdiff_t>(at), 0);
  for (size_t index = at; index < spans_.size(); ++index) {
    const int64_t before = index == 0 ? INT64_MIN : max_end_[index - 1];
    max_end_[index] = std::max(before, spans_[index].end_ns);
  }
  density_.Add(span.start_ns, span.instant ? span.start_ns + kInstantNs : span.end_ns,
               SlotOf(span.op_class));
}

size_t SpanColumn::FirstTouching(int64_t time_ns) const {
  return static_cast<size_t>(std::upper_bound(max_end_.begin(), max_end_.end(), time_ns) -
                             max_end_.begin());
}

size_t SpanColumn::FirstStartingAt(int64_t time_ns) const {
  const auto found =
      std::lower_bound(spans_.begin(), spans_.end(), time_ns,
                       [](const Span& span, int64_t time) { return span.start_ns < time; });
  return static_cast<size_t>(found - spans_.begin());
}

size_t SpanColumn::Nearest(int64_t time_ns, int64_t tolerance_ns) const {
  size_t best = size();
  int64_t best_distance = tolerance_ns;
  for (size_t index = FirstTouching(time_ns - tolerance_ns - 1);
       index < size() && spans_[index].start_ns <= time_ns + tolerance_ns; ++index) {
    const Span& span = spans_[index];
    if (span.start_ns <= time_ns && time_ns < span.end_ns) return index;
    const int64_t distance =
        time_ns < span.start_ns ? span.start_ns - time_ns : time_ns - span.end_ns;
    if (distance <= best_distance) {
      best = index;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace shardscope::timeline
