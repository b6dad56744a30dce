#include "trace/query/kept_stalls.h"

#include <fmt/format.h>

namespace shardscope::query {

void KeptStalls::Add(const schema::StallRow& row) {
  // With its lengths: parts of other texts may run together into the same.
  std::string key = fmt::format("{} {} ", row.cause.size(), row.cause_object.size());
  key.append(row.cause).append(row.cause_object).append(row.sentence);
  const auto [known, is_new] = index_.emplace(std::move(key), static_cast<uint32_t>(words_.size()));
  if (is_new) words_.push_back({row.cause, row.cause_object, row.sentence});
  all_.push_back({.rank = static_cast<int32_t>(row.rank),
                  .step = static_cast<int32_t>(row.step),
                  .op_run = row.op_run,
                  .plan_op = row.plan_op,
                  .start_ns = row.start_ns,
                  .end_ns = row.end_ns,
                  .waiting_op_run = row.waiting_op_run,
                  .blocking_op_run = row.blocking_op_run,
                  .blocking_plan_op = row.blocking_plan_op,
                  .words = known->second});
}

void KeptStalls::ShrinkToFit() {
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
