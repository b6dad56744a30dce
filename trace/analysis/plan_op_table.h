// PlanOpTable: finds plan ops by id many times over, in a fraction of Snapshot::FindPlanOp()'s
// time. Borrows the Snapshot, which must outlive it. Internal to analysis.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

class PlanOpTable {
 public:
  explicit PlanOpTable(const query::Snapshot& snapshot) : snapshot_(snapshot) {
    const auto& ops = snapshot.plan_ops;
    if (ops.empty()) return;
    first_id_ = ops.begin()->first.value();
    // Ids follow one another, but in files that were put together or damaged.
    const auto reach =
        static_cast<uint64_t>(ops.rbegin()->first.value()) - static_cast<uint64_t>(first_id_) + 1;
    if (reach == 0 || reach > kMostGaps * ops.size()) return;  // 0: all of int64
    ops_.resize(reach);
    for (const auto& [id, op] : ops) ops_[PlaceOf(id)] = &op;
  }

  // nullptr if there is none.
  const query::PlanOp* Find(query::PlanOpId id) const {
    if (ops_.empty()) return snapshot_.FindPlanOp(id);
    const uint64_t place = PlaceOf(id);
    return place < ops_.size() ? ops_[place] : nullptr;
  }

 private:
  static constexpr uint64_t kMostGaps = 4;

  uint64_t PlaceOf(query::PlanOpId id) const {
    return static_cast<uint64_t>(id.value()) - static_cast<uint64_t>(first_id_);
  }

  const query::Snapshot& snapshot_;
  int64_t first_id_ = 0;
  std::vector<const query::PlanOp*> ops_;
};

}  // namespace shardscope::analysis
