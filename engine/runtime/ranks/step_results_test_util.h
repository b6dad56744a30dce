// What a run of a test has come to, from its ranks: for tests of every device.
#pragma once

#include "engine/runtime/ranks/job_test_util.h"

namespace shardscope::runtime {

// Of the step that all ranks have just ended: the mean of the losses of those that have one, and
// the norm, which is the same on all.
inline void AddStep(Ranks* ranks, TestResult* result) {
  double loss = 0;
  int num_losses = 0;
  for (int rank = 0; rank < ranks->size(); ++rank) {
    const StepOutcome& outcome = ranks->work(rank).outcome();
    loss += outcome.loss;
    num_losses += outcome.tokens > 0 ? 1 : 0;
  }
  result->losses.push_back(loss / num_losses);
  result->norms.push_back(ranks->work(0).outcome().grad_norm);
}

// After the last one.
inline void AddParameters(const TestRun& run, Ranks* ranks, TestResult* result) {
  for (const plan::Parameter& parameter : model::AllParameters(run.model)) {
    result->parameters[parameter.name] = ranks->FullParameter(parameter.name);
  }
}

}  // namespace shardscope::runtime
