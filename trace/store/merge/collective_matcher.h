// CollectiveMatcher: finds what several clocks say about one collective, by (communicator,
// sequence). Memory is bounded: collectives that stay incomplete are forgotten, the oldest first.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/store/row_io.h"

namespace shardscope::store {

// One collective on one clock, in that clock's time, over all ranks that have it.
struct CollectiveTimes {
  size_t clock = 0;
  int64_t last_start_ns = 0;
  int64_t first_end_ns = 0;
  int64_t last_end_ns = 0;
};

// One collective that all its ranks ended; two clocks at least, ascending.
using SharedCollective = std::vector<CollectiveTimes>;

class CollectiveMatcher {
 public:
  // Collectives and op runs of a file, from these positions on; ids are distinct over all files.
  void Add(size_t clock, const RowBatch& rows, size_t first_collective, size_t first_op_run);

  // What became complete since the last call.
  std::vector<SharedCollective> Take() { return std::exchange(complete_, {}); }

 private:
  using Key = std::pair<int32_t, int64_t>;  // communicator, sequence
  struct Row {
    Key key;
    int64_t group_size = 0;
  };
  struct Partial {
    int64_t num_ranks = 0;
    SharedCollective times;
  };
  void AddCollective(const schema::CollectiveRow& row);
  void AddOpRun(size_t clock, const schema::OpRunRow& run);
  void Forget();

  std::map<std::string, int32_t, std::less<>> communicators_;
  std::unordered_map<int64_t, Row> rows_;  // by op run that did not come yet
  std::map<Key, Partial> partial_;
  std::deque<Key> order_;  // of partial_, the oldest first; may name complete ones
  std::vector<SharedCollective> complete_;
};

}  // namespace shardscope::store
