#include "tests/oracle/witness.h"

#include <algorithm>
#include <array>

#include "tests/oracle/bytes.h"
#include "tests/oracle/interpreter.h"

namespace shardscope::oracle {
namespace {

using plan::OpIndex;
using plan::Refusal;
using plan::RefusalKind;

constexpr std::array<Collision, 3> kCollisions = {
    Collision::kOverlap, Collision::kFirstBeforeSecond, Collision::kSecondBeforeFirst};

int RankOfProgram(const plan::Schedule& schedule, int32_t program) {
  const auto found =
      std::find(schedule.program_of_rank.begin(), schedule.program_of_rank.end(), program);
  return static_cast<int>(found - schedule.program_of_rank.begin());
}

// Whether such a harm is what the refusal claims.
bool Fits(RefusalKind kind, Harm harm) {
  switch (kind) {
    case RefusalKind::kStructure:
      return harm == Harm::kNoSuchThing || harm == Harm::kBytes;
    case RefusalKind::kBytes:
      return harm == Harm::kBytes;
    case RefusalKind::kMismatch:
      return harm == Harm::kMismatch || harm == Harm::kNoPartner;
    case RefusalKind::kDeadlock:
      return harm == Harm::kDeadlock;
    case RefusalKind::kLifetime:
    case RefusalKind::kOrder:
      return harm == Harm::kDeadUse || harm == Harm::kPoisonRead ||
             harm == Harm::kChangedUnderUse || harm == Harm::kDoubleAllocation ||
             harm == Harm::kBadFree || harm == Harm::kLeak;
  }
  return false;
}

bool Confirms(const plan::Schedule& schedule, const Refusal& refusal, const Finding& finding) {
  if (!Fits(refusal.kind, finding.harm)) return false;
  const auto program_of = [&](int rank) {
    return schedule.program_of_rank[static_cast<size_t>(rank)];
  };
  // A mismatch belongs to both of its ops.
  if (finding.harm == Harm::kMismatch && program_of(0) == refusal.program &&
      finding.other == refusal.op) {
    return true;
  }
  if (program_of(finding.rank) != refusal.program) return false;
  if (refusal.buffer != plan::kNone) return finding.buffer == refusal.buffer;
  return finding.op == refusal.op;
}

// Calls `judge` with the findings of each collision of two ops of a rank, until it says true.
template <typename Judge>
void Collide(Interpreter& interpreter, int32_t first, int32_t second, Judge judge) {
  for (const Collision collision : kCollisions) {
    const Priorities order = CollidingOrder(interpreter.graph(), first, second, collision);
    if (judge(interpreter.Run(order))) return;
  }
}

// Each rank alone, as if its peers came whenever it wants: what a rank's own ops do not order
// counts as unordered, even if what other ranks run would order it.
plan::Schedule WithoutPeers(plan::Schedule schedule) {
  for (plan::Program& program : schedule.programs) {
    for (plan::Op& op : program.ops) {
      if (op.peer == plan::kNone) continue;
      const bool sends = op.kind == plan::OpKind::kSend;
      op.kind = sends ? plan::OpKind::kCopyIn : plan::OpKind::kLoadBatch;
      op.communicator = op.peer = plan::kNone;
      op.payload_bytes = op.wire_bytes = 0;
    }
  }
  return schedule;
}

}  // namespace

std::optional<Finding> Replay(const plan::Schedule& schedule, const Refusal& refusal) {
  std::optional<Finding> confirmed;
  const auto judge = [&](const std::vector<Finding>& findings) {
    const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return Confirms(schedule, refusal, finding);
    });
    if (found != findings.end()) confirmed = *found;
    return confirmed.has_value();
  };
  if (refusal.op == plan::kNone) return std::nullopt;
  if (refusal.kind == RefusalKind::kBytes) {
    judge(CheckBytes(schedule));
    return confirmed;
  }
  Interpreter interpreter(schedule);
  if (refusal.kind == RefusalKind::kStructure) judge(CheckBytes(schedule));
  if (refusal.kind == RefusalKind::kOrder) {
    const int rank = RankOfProgram(schedule, refusal.program);
    const auto collide = [&](Interpreter& all) {
      Collide(all, all.graph().InstanceOf(rank, refusal.op),
              all.graph().InstanceOf(rank, refusal.other),
              [&](const Outcome& outcome) { return judge(outcome.findings); });
    };
    collide(interpreter);
    if (confirmed) return confirmed;
    const plan::Schedule alone = WithoutPeers(schedule);
    Interpreter without_peers(alone);
    collide(without_peers);
    return confirmed;
  }
  if (confirmed) return confirmed;
  const Priorities even(static_cast<size_t>(interpreter.graph().num_actions()), 0);
  judge(interpreter.Run(even).findings);
  return confirmed;
}

std::optional<Finding> SearchHarm(const Mutant& mutant, Value expected, int num_interleavings) {
  const std::vector<Finding> sizes = CheckBytes(mutant.schedule);
  if (!sizes.empty()) return sizes.front();
  Interpreter interpreter(mutant.schedule);
  std::optional<Finding> harm;
  const auto judge = [&](const Outcome& outcome) {
    if (!outcome.findings.empty()) {
      harm = outcome.findings.front();
    } else if (outcome.result != expected) {
      harm = Finding{Harm::kWrongResult};
    }
    return harm.has_value();
  };
  for (int number = 0; number < num_interleavings && !harm; ++number) {
    judge(interpreter.Run(
        RandomOrder(mutant.schedule, interpreter.graph(), static_cast<uint64_t>(number))));
  }
  if (harm || mutant.other == plan::kNone) return harm;
  const int rank = RankOfProgram(mutant.schedule, mutant.program);
  Collide(interpreter, interpreter.graph().InstanceOf(rank, mutant.op),
          interpreter.graph().InstanceOf(rank, mutant.other), judge);
  return harm;
}

}  // namespace shardscope::oracle
