// DerivedMaker: rows of derived tables into what a Snapshot keeps of them. Used by one thread at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trace/query/summary.h"
#include "trace/store/row_batch.h"

namespace shardscope::query {

// And how many rows were left out.
struct Derived {
  std::shared_ptr<const DerivedRows> rows;
  int64_t num_refused = 0;
};

class DerivedMaker {
 public:
  // Left out is what cannot be, and what is of none of these ranks, which ascend.
  explicit DerivedMaker(std::vector<int32_t> ranks);

  // Takes the rows of derived tables out of *batch, where room for the next ones stays.
  void Add(store::RowBatch* batch);

  // In the order that DerivedRows has; once. Without rows if no part of a step is kept.
  Derived Make();

 private:
  template <typename Row>
  void Take(store::RowBatch* batch, std::vector<Row>* rows);
  template <typename Row>
  bool IsToKeep(const Row& row) const;

  const std::vector<int32_t> ranks_;
  std::shared_ptr<DerivedRows> rows_ = std::make_shared<DerivedRows>();
  int64_t num_refused_ = 0;
};

}  // namespace shardscope::query
