#include "trace/analysis/compare/step_path.h"

#include <algorithm>
#include <array>

#include "trace/analysis/op_share.h"

namespace shardscope::analysis {
namespace {

// Time that belongs to one op. Lists of these are sorted and disjoint.
struct Claim {
  Interval time;
  const IndexedRun* run = nullptr;
};
using Claims = std::vector<Claim>;

Claims ClaimsOf(const StepIndex& step, OpShare share, Interval span) {
  Claims claims;
  int64_t taken_ns = span.start_ns;
  for (const IndexedRun& run : step.runs) {
    if (ShareOf(*run.op) != share) continue;
    const Interval time{std::max(run.run.started_ns, taken_ns),
                        std::min(run.run.ended_ns, span.end_ns)};
    if (time.start_ns >= time.end_ns) continue;
    claims.push_back({time, &run});
    taken_ns = time.end_ns;
  }
  return claims;
}

std::vector<Interval> TimesOf(const Claims& claims) {
  std::vector<Interval> times;
  times.reserve(claims.size());
  for (const Claim& claim : claims) times.push_back(claim.time);
  return Union(std::move(times));
}

// What of each claim lies outside of `taken`, a union.
Claims Without(const Claims& claims, const std::vector<Interval>& taken) {
  Claims left;
  ForEachOutside(claims, taken, &Claim::time, [&left](const Claim& claim, Interval part) {
    left.push_back({part, claim.run});
  });
  return left;
}

}  // namespace

std::string_view Name(StepPart part) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"compute", "exposed communication", "exposed copy", "idle"});
  static_assert(kNames.size() == kNumStepParts);
  return kNames[static_cast<size_t>(part)];
}

std::vector<PathPiece> PathOf(const StepIndex& step, Interval span) {
  struct Busy {
    Claim claim;
    StepPart part;
  };
  std::vector<Busy> busy;
  const auto add = [&busy](const Claims& claims, StepPart part) {
    for (const Claim& claim : claims) busy.push_back({claim, part});
  };
  const Claims compute = ClaimsOf(step, OpShare::kCompute, span);
  const Claims communication = ClaimsOf(step, OpShare::kCommunication, span);
  const std::vector<Interval> computes = TimesOf(compute);
  std::vector<Interval> not_copy = TimesOf(communication);
  not_copy.insert(not_copy.end(), computes.begin(), computes.end());
  add(compute, StepPart::kCompute);
  add(Without(communication, computes), StepPart::kExposed);
  add(Without(ClaimsOf(step, OpShare::kCopy, span), Union(std::move(not_copy))),
      StepPart::kExposedCopy);
  std::sort(busy.begin(), busy.end(), [](const Busy& a, const Busy& b) {
    return a.claim.time.start_ns < b.claim.time.start_ns;
  });

  std::vector<PathPiece> path;
  int64_t end_ns = span.start_ns;
  for (const Busy& piece : busy) {
    const Interval& time = piece.claim.time;
    if (time.start_ns > end_ns) {
      path.push_back({StepPart::kIdle, time.start_ns - end_ns, piece.claim.run});
    }
    path.push_back({piece.part, time.end_ns - time.start_ns, piece.claim.run});
    end_ns = time.end_ns;
  }
  if (span.end_ns > end_ns) path.push_back({StepPart::kIdle, span.end_ns - end_ns, nullptr});
  return path;
}

}  // namespace shardscope::analysis
