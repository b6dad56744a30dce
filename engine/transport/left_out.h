// What is said where ranks do not meet because one of them left out an op of the Schedule.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/op.h"
#include "engine/transport/transport.h"
#include "trace/base/words.h"

namespace shardscope::transport {

// The call that a rank is in.
struct CallPlace {
  int rank = 0;
  std::string kind;  // "all_gather"
  std::string op_name;
  plan::OpIndex op = plan::kNone;  // kNone: of no Schedule
  int64_t step = 0;
};
// `kind`: of the call's collective.
CallPlace PlaceOf(const Call& call, words::OpKind kind);

// "rank 1 left out all_gather 'F m0 block0 all_gather' (op 12, step 3), in which ranks 0, 2 wait
// for it; rank 1 called ...". `waiting`: ranks that are at the op that is left out, of which `at`
// is one; `ahead`: where those are that left it out. Neither is empty.
std::string DescribeLeftOut(const CallPlace& at, const std::vector<int>& waiting,
                            std::span<const CallPlace> ahead);

}  // namespace shardscope::transport
