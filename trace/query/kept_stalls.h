// KeptStalls: the stalls that a finished trace keeps, each in a third of the memory of its row:
// hundreds of thousands of stalls differ in a few hundred sentences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/schema/rows.h"

namespace shardscope::query {

// As schema::StallRow; columns that it does not name are in the words.
struct KeptStall {
  int32_t rank = 0;
  int32_t step = 0;
  schema::OpRunId op_run;
  schema::PlanOpId plan_op;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  schema::OpRunId waiting_op_run;
  schema::OpRunId blocking_op_run;
  schema::PlanOpId blocking_plan_op;
  uint32_t words = 0;
};

struct StallWords {
  std::string cause;
  std::string cause_object;
  std::string sentence;
};

class KeptStalls {
 public:
  // Its rank and step fit into 32 bits.
  void Add(const schema::StallRow& row);
  // When no more are expected: in the order of their steps, those of one as they came.
  void Finish();

  const std::vector<KeptStall>& all() const { return all_; }
  const StallWords& WordsOf(const KeptStall& stall) const { return words_[stall.words]; }

  // As it is written; without an id.
  schema::StallRow Row(const KeptStall& stall) const;

 private:
  uint32_t IndexOfWords(const schema::StallRow& row);

  std::vector<KeptStall> all_;
  std::vector<StallWords> words_;
  std::unordered_multimap<size_t, uint32_t> index_;  // of words_, by a hash of all three
};

}  // namespace shardscope::query
