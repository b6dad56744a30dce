// An op run of a rank by its id.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "trace/query/snapshot.h"

namespace shardscope::query {

// Its row in `rows.op_runs`, whose ids ascend in commit order; nullopt if there is none.
inline std::optional<size_t> FindOpRun(const RankRows& rows, OpRunId id) {
  const auto found =
      std::lower_bound(rows.op_runs.begin(), rows.op_runs.end(), id,
                       [](const OpRun& run, OpRunId wanted) { return run.id < wanted; });
  if (found == rows.op_runs.end() || found->id != id) return std::nullopt;
  return static_cast<size_t>(found - rows.op_runs.begin());
}

// The op run `id` of a rank; nullopt if there is none.
inline std::optional<OpRun> FindOpRun(const Snapshot& snapshot, int32_t rank, OpRunId id) {
  const RankRows* rows = snapshot.FindRank(rank);
  const std::optional<size_t> row = rows == nullptr ? std::nullopt : FindOpRun(*rows, id);
  if (!row) return std::nullopt;
  return rows->op_runs[*row];
}

}  // namespace shardscope::query
