#include "trace/analysis/memory/memory_timeline.h"

#include <algorithm>

namespace shardscope::analysis {

bool MemoryTimeline::Advance(const query::Snapshot& snapshot, size_t max_events) {
  const query::RankRows* rows = snapshot.FindRank(rank_);
  if (rows == nullptr || changes_.size() >= rows->memory.size()) return true;
  const size_t old_size = changes_.size();
  const size_t new_size = old_size + std::min(max_events, rows->memory.size() - old_size);
  // Once for a loaded trace; by the vector's own steps for a growing one.
  if (rows->memory.size() > 2 * changes_.capacity()) changes_.reserve(rows->memory.size());
  for (size_t at = old_size; at < new_size; ++at) {
    const query::MemoryEvent& event = rows->memory[at];
    Change change;
    change.time_ns = ledger_ == Ledger::kIssue ? event.issued_ns : event.executed_ns;
    change.bytes = event.bytes;
    change.category = static_cast<uint64_t>(event.category);
    changes_.push_back(change);
  }
  const auto middle = changes_.begin() + static_cast<std::ptrdiff_t>(old_size);
  std::stable_sort(middle, changes_.end(), Earlier);
  // Late events are younger in commit order, so they go behind old ones of the same time.
  const auto first_changed = std::upper_bound(changes_.begin(), middle, *middle, Earlier);
  const auto keep = static_cast<size_t>(first_changed - changes_.begin());
  std::inplace_merge(first_changed, middle, changes_.end(), Earlier);
  MakeBlocks(keep);
  return new_size == rows->memory.size();
}

void MemoryTimeline::MakeBlocks(size_t first_changed) {
  const size_t first_block = first_changed / kBlock;
  Point point;
  if (first_block > 0) point = At(first_block * kBlock - 1);
  blocks_.resize(first_block);
  block_start_ns_.resize(first_block);
  for (size_t at = first_block * kBlock; at < changes_.size(); ++at) {
    if (at % kBlock == 0) {
      Block block;
      block.before = point.bytes;
      block.total_before = point.total;
      blocks_.push_back(block);
      block_start_ns_.push_back(changes_[at].time_ns);
    }
    Step(at, &point);
    Block& block = blocks_.back();
    if (point.total <= block.largest_total) continue;
    block.largest_total = point.total;
    block.largest = at;
  }
}

void MemoryTimeline::Step(size_t at, Point* point) const {
  const Change& change = changes_[at];
  point->time_ns = change.time_ns;
  point->bytes[change.category] += change.bytes;
  point->total += change.bytes;
}

MemoryTimeline::Point MemoryTimeline::At(size_t at) const {
  const Block& block = blocks_[at / kBlock];
  Point point{0, block.before, block.total_before};
  for (size_t next = at / kBlock * kBlock; next <= at; ++next) Step(next, &point);
  return point;
}

size_t MemoryTimeline::FirstAt(int64_t time_ns, size_t first) const {
  const auto begin = block_start_ns_.begin() + static_cast<std::ptrdiff_t>(first / kBlock);
  const auto block = std::lower_bound(begin, block_start_ns_.end(), time_ns);
  // It is in the block before, or is the first point of this one.
  const auto before = block == begin ? begin : block - 1;
  size_t at = std::max(first, static_cast<size_t>(before - block_start_ns_.begin()) * kBlock);
  while (at < changes_.size() && changes_[at].time_ns < time_ns) ++at;
  return at;
}

size_t MemoryTimeline::Largest(size_t first, size_t last) const {
  size_t largest = first;
  int64_t largest_total = INT64_MIN;
  int64_t total = 0;  // live before `at`, where its block is not seen whole
  for (size_t at = first; at < last;) {
    const Block& block = blocks_[at / kBlock];
    const size_t block_end = std::min((at / kBlock + 1) * kBlock, changes_.size());
    if (at % kBlock == 0 && block_end <= last) {
      if (block.largest_total > largest_total) {
        largest_total = block.largest_total;
        largest = block.largest;
      }
      at = block_end;
      continue;
    }
    if (at % kBlock == 0) total = block.total_before;
    if (at == first) total = at == 0 ? 0 : At(at).total - changes_[at].bytes;
    total += changes_[at].bytes;
    if (total > largest_total) {
      largest_total = total;
      largest = at;
    }
    ++at;
  }
  return largest;
}

}  // namespace shardscope::analysis
