#include "ui/timeline/span_column.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace shardscope::timeline {
namespace {

// What an issue counts for in a coarse view, where a moment without length would vanish.
constexpr int64_t kInstantNs = 20'000;

}  // namespace

size_t SlotOf(query::OpClass op_class) {
  switch (op_class) {
    case query::OpClass::kBackward:
      return 1;
    case query::OpClass::kOptimizer:
      return 2;
    case query::OpClass::kCopy:
      return 3;
    case query::OpClass::kRecompute:
      return 4;
    default:
      return 0;
  }
}

size_t DensityPyramid::MaxBins() const {
  return std::clamp(std::bit_ceil(num_spans_ * kBinsOfASpan), kLeastBins, kMostBins);
}

void DensityPyramid::Widen(size_t num_slots) {
  for (Level& level : levels_) {
    Level wider(level.size() / num_slots_ * num_slots);
    for (size_t at = 0; at < level.size(); ++at) {
      wider[at / num_slots_ * num_slots + at % num_slots_] = level[at];
    }
    level = std::move(wider);
  }
  num_slots_ = num_slots;
}

void DensityPyramid::AddPairs(const Level& level, size_t first, Level* coarser) const {
  const size_t num_bins = level.size() / num_slots_;
  coarser->resize((num_bins + 1) / 2 * num_slots_);
  std::fill(coarser->begin() + static_cast<std::ptrdiff_t>(first * num_slots_), coarser->end(),
            0.0F);
  for (size_t bin = 2 * first; bin < num_bins; ++bin) {
    for (size_t slot = 0; slot < num_slots_; ++slot) {
      (*coarser)[bin / 2 * num_slots_ + slot] += level[bin * num_slots_ + slot];
    }
  }
}

void DensityPyramid::DropFinest() {
  Update();
  if (levels_.size() == 1) {
    Level coarser;
    AddPairs(levels_.front(), 0, &coarser);
    levels_.push_back(std::move(coarser));
  }
  levels_.erase(levels_.begin());
  ++finest_shift_;
}

void DensityPyramid::Add(int64_t start_ns, int64_t end_ns, size_t slot) {
  if (!has_origin_) {
    // A margin in front, because rows come in the order of their ends.
    origin_ns_ = start_ns - (int64_t{64} << kFirstShift);
    has_origin_ = true;
    levels_.resize(1);
  }
  ++num_spans_;
  if (slot >= num_slots_) Widen(slot + 1);
  start_ns = std::max(start_ns, origin_ns_);
  end_ns = std::max(end_ns, start_ns);
  while (static_cast<size_t>((end_ns - origin_ns_) >> finest_shift_) >= MaxBins()) DropFinest();
  Level& bins = levels_.front();
  const auto first = static_cast<size_t>((start_ns - origin_ns_) >> finest_shift_);
  const auto last = static_cast<size_t>((end_ns - origin_ns_) >> finest_shift_);
  if (bins.size() <= last * num_slots_) bins.resize((last + 1) * num_slots_);
  first_changed_ = std::min(first_changed_, first);
  if (first == last) {  // as mostly
    bins[last * num_slots_ + slot] += static_cast<float>(end_ns - start_ns);
    return;
  }
  for (size_t bin = first; bin <= last; ++bin) {
    const int64_t bin_start = origin_ns_ + (static_cast<int64_t>(bin) << finest_shift_);
    const int64_t bin_end = bin_start + (int64_t{1} << finest_shift_);
    const int64_t busy = std::min(end_ns, bin_end) - std::max(start_ns, bin_start);
    bins[bin * num_slots_ + slot] += static_cast<float>(std::max<int64_t>(busy, 0));
  }
}

void DensityPyramid::Update() {
  if (first_changed_ == SIZE_MAX) return;
  // The next coarser level exists once one has more than a handful of bins.
  for (size_t level = 0; levels_[level].size() > 64 * num_slots_; ++level) {
    if (level + 1 == levels_.size()) levels_.emplace_back();
    const bool is_new = levels_[level + 1].empty();
    AddPairs(levels_[level], is_new ? 0 : first_changed_ >> (level + 1), &levels_[level + 1]);
  }
  first_changed_ = SIZE_MAX;
}

void DensityPyramid::ShrinkToFit() {
  for (Level& level : levels_) level.shrink_to_fit();
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
  const Level& bins = levels_[level];
  const int64_t from_ns = std::max(range.start_ns, origin_ns_);
  const auto first_bin = static_cast<size_t>((from_ns - origin_ns_) >> shift);
  const int64_t until_ns = range.end_ns - origin_ns_ + (int64_t{1} << shift) - 1;
  const size_t last_bin = std::min(bins.size() / num_slots_,
                                   static_cast<size_t>(std::max<int64_t>(until_ns, 0) >> shift));
  // Bins as intervals of columns; the busy time of each is spread evenly over its own.
  const double bin_columns = std::ldexp(1.0, shift) / column_ns;
  const double bins_a_column = 1 / bin_columns;
  const double origin = static_cast<double>(origin_ns_ - range.start_ns) / column_ns;
  const auto add = [&bins, &columns, num_slots = num_slots_](size_t bin, float share, int column) {
    SlotBusy& busy = columns[static_cast<size_t>(column)];
    const size_t at = bin * num_slots;
    busy[0] += share * bins[at];  // mostly the only one
    for (size_t slot = 1; slot < num_slots; ++slot) busy[slot] += share * bins[at + slot];
  };
  for (size_t bin = first_bin; bin < last_bin; ++bin) {
    const double first = origin + static_cast<double>(bin) * bin_columns;
    const double last = first + bin_columns;
    int column = std::max(static_cast<int>(first), 0);
    if (last <= column + 1 && first >= 0 && column < num_columns) {  // as mostly: in one column
      add(bin, 1, column);
      continue;
    }
    for (; column < num_columns && column < last; ++column) {
      const double part = std::min(last, column + 1.0) - std::max<double>(first, column);
      add(bin, static_cast<float>(part * bins_a_column), column);
    }
  }
  return columns;
}

SpanColumn::Times SpanColumn::TimesOf(size_t index) const {
  if (op_runs_ == nullptr) return times_[index];
  const query::OpRun& run = (*op_runs_)[entries_[index].row];
  if (entries_[index].instant) return {run.issued_ns, run.issued_ns};
  return {run.started_ns, std::max(run.started_ns, run.ended_ns)};
}

Span SpanColumn::operator[](size_t index) const {
  const Entry& entry = entries_[index];
  const Times times = TimesOf(index);
  return {times.start_ns, times.end_ns, entry.row, entry.op_class, entry.shade, entry.instant};
}

void SpanColumn::Insert(const Span& span) {
  size_t at = entries_.size();
  // Mostly it is the last: nothing has to be looked at.
  const bool is_last = span.start_ns >= last_start_ns_;
  while (!is_last && at > 0 && TimesOf(at - 1).start_ns > span.start_ns) --at;
  const auto place = static_cast<std::ptrdiff_t>(at);
  entries_.insert(entries_.begin() + place, {span.row, span.op_class, span.shade, span.instant});
  if (op_runs_ == nullptr) {
    times_.insert(times_.begin() + place, {span.start_ns, span.end_ns});
  }
  if (!is_last) {
    UpdateBlocks(at);
  } else if (at % kBlock == 0) {
    block_start_ns_.push_back(span.start_ns);
    block_end_before_ns_.push_back(largest_end_ns_);
  }
  last_start_ns_ = std::max(last_start_ns_, span.start_ns);
  largest_end_ns_ = std::max(largest_end_ns_, span.end_ns);
  density_.Add(span.start_ns, span.instant ? span.start_ns + kInstantNs : span.end_ns,
               SlotOf(span.op_class));
}

void SpanColumn::ShrinkToFit() {
  entries_.shrink_to_fit();
  times_.shrink_to_fit();
  density_.ShrinkToFit();
}

// A span put in order moves the last one of each block behind it into the next.
void SpanColumn::UpdateBlocks(size_t inserted) {
  const size_t first = inserted / kBlock + (inserted % kBlock == 0 ? 0 : 1);
  for (size_t block = first; block * kBlock < entries_.size(); ++block) {
    if (block == block_start_ns_.size()) {
      block_start_ns_.push_back(0);
      block_end_before_ns_.push_back(INT64_MIN);
    }
    block_start_ns_[block] = TimesOf(block * kBlock).start_ns;
    if (block == 0) continue;
    int64_t end_ns = block_end_before_ns_[block - 1];
    for (size_t at = (block - 1) * kBlock; at < block * kBlock; ++at) {
      end_ns = std::max(end_ns, TimesOf(at).end_ns);
    }
    block_end_before_ns_[block] = end_ns;
  }
}

size_t SpanColumn::FirstTouching(int64_t time_ns) const {
  // It is in the last block before which nothing touches.
  const auto after =
      std::upper_bound(block_end_before_ns_.begin(), block_end_before_ns_.end(), time_ns);
  if (after == block_end_before_ns_.begin()) return 0;  // empty
  size_t at = static_cast<size_t>(after - block_end_before_ns_.begin() - 1) * kBlock;
  while (at < size() && TimesOf(at).end_ns <= time_ns) ++at;
  return at;
}

size_t SpanColumn::FirstStartingAt(int64_t time_ns) const {
  const auto after = std::lower_bound(block_start_ns_.begin(), block_start_ns_.end(), time_ns);
  if (after == block_start_ns_.begin()) return 0;
  size_t at = static_cast<size_t>(after - block_start_ns_.begin() - 1) * kBlock;
  while (at < size() && TimesOf(at).start_ns < time_ns) ++at;
  return at;
}

size_t SpanColumn::Nearest(int64_t time_ns, int64_t tolerance_ns) const {
  size_t best = size();
  int64_t best_distance = tolerance_ns;
  for (size_t index = FirstTouching(time_ns - tolerance_ns - 1); index < size(); ++index) {
    const Times span = TimesOf(index);
    if (span.start_ns > time_ns + tolerance_ns) break;
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
