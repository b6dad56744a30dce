// Explanation: what bounds the steps of a scope, why, and what helps.
#pragma once

#include <string>
#include <vector>

#include "trace/analysis/explain/critical_path.h"
#include "trace/analysis/explain/front.h"
#include "trace/analysis/explain/losses.h"
#include "trace/analysis/explain/verdict.h"
#include "trace/analysis/recognised.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Explanation {
  std::vector<Recognised> recognised;  // of an imported run
  Verdict verdict;
  std::vector<Advice> advice;  // dearest first, at most kMostAdvice
  Losses losses;
  Front front;                  // num_steps 0: not known (a finished trace of before version 6)
  std::vector<PathGroup> path;  // dearest first; empty likewise
};

// What an explanation of some steps is made from.
struct Grounds {
  std::vector<StallGroup> stalls;
  std::vector<FrontPart> front;
  std::vector<PathShare> path;
};

// Of the steps of [first_step, last_step]. `steps`: all of the snapshot; `grounds`: of these.
Explanation Explain(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                    Grounds grounds, int first_step, int last_step);

// The sentence, what helps, delays of ranks and the critical path, as text; the sentence stands at
// the top of a report and is not repeated.
std::string PrintExplanation(const Explanation& explanation);

}  // namespace shardscope::analysis
