// CommitCounter: tells outside SQLite what the writer has committed, for tests that kill it.
//
// Off unless the environment variable SHARDSCOPE_COMMIT_COUNTER names an existing file of at least
// kBytes, which is mapped and outlives the process. It holds 64-bit integers of the machine's byte
// order: [0] batches committed, [1] batches of which the COMMIT was about to be called, and from
// [2] on hot records in all by kind (N = schema::kNumHotRecords): [2..] with the last batch of an
// even number, [2 + N..] of an odd number. So after a kill the trace has the rows of batch [0], or
// those of batch [1] (one more, or the same). Owner: the writer thread.
#pragma once

#include <atomic>
#include <cstddef>

#include "trace/record/thread_rings.h"

namespace shardscope::record {

class CommitCounter {
 public:
  static constexpr size_t kBytes = 4096;

  CommitCounter();
  ~CommitCounter();
  CommitCounter(const CommitCounter&) = delete;
  CommitCounter& operator=(const CommitCounter&) = delete;

  // `rows`: hot rows committed so far, with those of the batch.
  void BeforeCommit(const HotCounts& rows);
  void AfterCommit();

 private:
  using Word = std::atomic<int64_t>;
  static_assert(Word::is_always_lock_free);  // as memory shared with other processes needs it

  Word* words_ = nullptr;
};

}  // namespace shardscope::record
