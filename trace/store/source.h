// Source: where the rows of a run come from: its files (run_source.h) or lines of
// `shardscope tail` from another machine. Used by one thread at a time.
#pragma once

#include <cstdint>

#include "trace/base/status.h"
#include "trace/store/row_batch.h"

namespace shardscope::store {

enum class SourceState : uint8_t {
  kLive,      // more rows may come
  kFinished,  // complete
  kCut        // the run was killed: all there is, but not all there was to come
};

// The latest step of rows that readers take; -1: of none. What is beyond is damage, and the steps
// around one that is taken can be reckoned with.
inline constexpr int32_t kMaxStep = 1 << 30;
// Likewise of flight recorders: from their sequences others are taken away.
inline constexpr int64_t kMaxSequence = int64_t{1} << 61;

class Source {
 public:
  virtual ~Source() = default;

  // Appends to *batch the rows that came since the last call: every row with an id once, in the
  // order of ids; the tables without ids (meta, config, rank) whole whenever something in the file
  // changed. true: call again at once, there is more. Never waits for new rows.
  virtual Result<bool> Read(RowBatch* batch) = 0;

  // As of the last Read. kFinished and kCut promise no more rows once Read returned false.
  virtual SourceState state() const = 0;
};

}  // namespace shardscope::store
