// What went wrong in a run of the interpreter.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/schedule.h"

namespace shardscope::oracle {

enum class Harm : uint8_t {
  kNothing,
  kNoSuchThing,       // an index that names nothing, or a wait for what is issued later
  kBytes,             // sizes that disagree with the unit's shapes, the formula or the buffer
  kMismatch,          // ranks meet with different collectives
  kNoPartner,         // a collective that the other ranks never issue
  kDeadlock,          // an op that never ends
  kDeadUse,           // reads or writes what is not allocated (yet, or any more)
  kPoisonRead,        // reads what nobody has written
  kChangedUnderUse,   // a buffer was written or freed while an op used it
  kDoubleAllocation,  // allocates what is there
  kBadFree,           // frees what is not there, or what outlives the step
  kLeak,
  kWrongResult,  // the step ended, with other values than the model's arithmetic gives
};
std::string_view Name(Harm harm);

struct Finding {
  Harm harm = Harm::kNothing;
  int rank = 0;
  plan::OpIndex op = plan::kNone;     // on `rank`
  plan::OpIndex other = plan::kNone;  // kMismatch: what the first rank issues instead
  plan::BufferId buffer = plan::kNone;
};

// "rank 1 op 17 'B m0 block3 all_gather': reads poison, buffer 'block3 m0 unsharded'".
std::string Describe(const plan::Schedule& schedule, const Finding& finding);

}  // namespace shardscope::oracle
