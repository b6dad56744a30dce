#include "trace/query/kept_stalls.h"

#include <algorithm>
#include <functional>

namespace shardscope::query {

uint32_t KeptStalls::IndexOfWords(const schema::StallRow& row) {
  const std::hash<std::string> hash;
  const size_t key = hash(row.sentence) + 31 * (hash(row.cause_object) + 31 * hash(row.cause));
  const auto [first, last] = index_.equal_range(key);
  for (auto at = first; at != last; ++at) {
    const StallWords& words = words_[at->second];
    if (words.sentence == row.sentence && words.cause_object == row.cause_object &&
        words.cause == row.cause) {
      return at->second;
    }
  }
  const auto index = static_cast<uint32_t>(words_.size());
  index_.emplace(key, index);
  words_.push_back({row.cause, row.cause_object, row.sentence});
  return index;
}

void KeptStalls::Add(const schema::StallRow& row) {
  all_.push_back({.rank = static_cast<int32_t>(row.rank),
                  .step = static_cast<int32_t>(row.step),
                  .op_run = row.op_run,
                  .plan_op = row.plan_op,
                  .start_ns = row.start_ns,
                  .end_ns = row.end_ns,
                  .waiting_op_run = row.waiting_op_run,
                  .blocking_op_run = row.blocking_op_run,
                  .blocking_plan_op = row.blocking_plan_op,
                  .words = IndexOfWords(row)});
}

void KeptStalls::Finish() {
  const auto earlier = [](const KeptStall& a, const KeptStall& b) { return a.step < b.step; };
  if (!std::is_sorted(all_.begin(), all_.end(), earlier)) {
    std::stable_sort(all_.begin(), all_.end(), earlier);
  }
  all_.shrink_to_fit();
  index_ = {};
}

schema::StallRow KeptStalls::Row(const KeptStall& stall) const {
  const StallWords& words = WordsOf(stall);
  return {schema::StallId(),      stall.rank,           stall.step,
          stall.op_run,           stall.plan_op,        stall.start_ns,
          stall.end_ns,           stall.waiting_op_run, stall.blocking_op_run,
          stall.blocking_plan_op, words.cause,          words.cause_object,
          words.sentence};
}

}  // namespace shardscope::query
