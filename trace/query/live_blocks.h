// Live blocks: what a rank's memory was made of at one moment, block by block: who allocated each
// and who frees it. Read from the trace, as Snapshots keep no op of a change of memory.
//
// Threads: each call opens the trace anew; any number of threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "trace/base/status.h"
#include "trace/query/rows.h"

namespace shardscope::query {

struct LiveBlock {
  int64_t bytes = 0;
  MemoryCategory category = MemoryCategory::kOther;
  std::string unit;  // or segment; empty: of none
  int64_t allocated_ns = 0;
  int64_t freed_ns = -1;     // -1: not within what was read
  std::string allocated_by;  // op; empty: none, as of what is there from the start on
  std::string freed_by;      // likewise
  PlanOpId allocated_by_op = PlanOpId::None();
  int32_t step = -1;  // in which it was allocated; -1: in none
  bool came = false;  // was not there at since_ns yet
  std::string stack;  // where the program asked for it; of imported memory snapshots
};

// Nothing says what allocated it, and no step is known in which it was: what imported rows of
// memory have without an op came in a step.
inline bool IsThereFromTheStart(const LiveBlock& block) {
  return block.stack.empty() && block.allocated_by.empty() && block.step < 0;
}

struct BlocksQuery {
  int32_t rank = 0;
  int64_t at_ns = 0;                // execution ledger
  std::optional<int64_t> since_ns;  // before at_ns: what came and went from then to at_ns as well

  bool operator==(const BlocksQuery&) const = default;
};

struct LiveBlocks {
  BlocksQuery asked;
  // Largest first, then by category, unit and time. Of an offloaded run with the host's.
  std::vector<LiveBlock> live;
  std::vector<LiveBlock> gone;  // live at since_ns, and no longer
  int64_t live_bytes = 0;       // the host's left out
  int64_t gone_bytes = 0;       // likewise
  int64_t came_bytes = 0;       // of `live`, what was not there at since_ns
};

// Rows of memory have no address: blocks of one category, unit and size are taken to be freed in
// the order in which they came, and where none has the size that is freed, the oldest of the
// category and unit become smaller. Sums are exact. Blocks of PyTorch's allocator are told apart.
// `path`: a run folder or a trace file. Errors: no trace, no rows of memory of that rank, SQLite's
// own; "interrupted" once `stop` is asked for.
Result<LiveBlocks> ReadLiveBlocks(const std::string& path, const BlocksQuery& query,
                                  const std::stop_token& stop = {});

}  // namespace shardscope::query
