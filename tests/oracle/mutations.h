// Schedules with one thing broken.
#pragma once

#include <optional>
#include <string_view>

#include "engine/plan/schedule.h"
#include "tests/oracle/values.h"

namespace shardscope::oracle {

enum class MutationKind : uint8_t {
  kDroppedDependency,
  kEarlyFree,
  kUseAfterFree,
  kMissingFree,
  kDoubleFree,
  kSwappedCollectives,  // on one rank
  kWrongCommunicator,
  kWrongBytes,
  kWrongPeer,
  kMissingExchange,  // a send or a receive that is not there
};
inline constexpr int kNumMutationKinds = 10;
std::string_view Name(MutationKind kind);

struct Mutant {
  plan::Schedule schedule;
  int32_t program = 0;                // the one that was changed
  plan::OpIndex op = plan::kNone;     // whose doing was changed
  plan::OpIndex other = plan::kNone;  // which it may now collide with, if one can be named
};

// Nothing if the schedule has nothing to break in this way. The change is made on all ranks or on
// one of them.
std::optional<Mutant> Mutate(const plan::Schedule& schedule, MutationKind kind, Random& random);

}  // namespace shardscope::oracle
