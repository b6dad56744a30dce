// Small jobs for tests: a text, a model that no number of ranks divides, and a loop over steps
// without trace or control.
#pragma once

#include <memory>
#include <vector>

#include "engine/model/reference_trainer.h"
#include "engine/plan/policy.h"
#include "engine/runtime/ranks/cpu_work.h"
#include "engine/runtime/ranks/ranks.h"

namespace shardscope::runtime {

// Drops everything.
class NullSink : public executor::ExecutionSink {
 public:
  void OnOpEnd(const executor::OpContext&, const executor::OpTimes&) override {}
  void OnMemory(const executor::OpContext&, plan::BufferId, int64_t, int64_t, int64_t) override {}
  void OnOtherMemory(const executor::OpContext&, const executor::MemoryChange&) override {}
};

struct TestRun {
  model::ModelConfig model{.layers = 2, .dim = 24, .heads = 3, .seq = 16};
  model::TrainingSettings training{.steps = 5, .num_ranks = 2, .batch = 2, .warmup_steps = 2};
  std::shared_ptr<const model::ParameterSource> weights;  // null: drawn
  std::shared_ptr<const model::Corpus> corpus;            // null: TestCorpus()
  std::shared_ptr<const HeldOut> held_out;                // evaluated before each step
  plan::UnitPolicy units;
  config::Lateness lateness;
  plan::Policy policy;  // ranks, micro-batches and dtypes are filled in from the others
  plan::StateForm state_form = plan::StateForm::kMaster;  // of the optimizer's state
  int replicas = 2;                                       // of strategies that have some
  int stages = 0;       // ranks along mesh.pipeline; 0: as the strategy would have it
  int chunks = 1;       // stages on each of them
  int tensor = 0;       // ranks along mesh.tensor, likewise
  bool poison = true;   // freed memory is inaccessible, new memory is NaN
  bool jitter = false;  // Jitter() before each op
};

struct TestResult {
  std::vector<double> losses;  // mean over ranks
  std::vector<double> norms;
  std::vector<double> evaluations;  // losses over the held-out data
  model::ParameterMap parameters;
};

// The run's model as a llama with grouped queries, wider heads and biases: each of up to 4 tensor
// ranks has one head of keys and values or more. `tied`: head and embedding.
void MakeLlama(TestRun* run, bool tied = false);

// A text of which every sample differs.
std::shared_ptr<const model::Corpus> TestCorpus();
// The same as token ids, of which the loss counts some.
std::shared_ptr<const model::Corpus> MaskedCorpus();

// Its first `num_samples` as held-out data of the run's model.
std::shared_ptr<const HeldOut> HeldOutOf(std::shared_ptr<const model::Corpus> corpus,
                                         const TestRun& run, int64_t num_samples);

// The Policy and Job that `run` means.
plan::Policy PolicyOf(const TestRun& run);
plan::ModelDescription DescriptionOf(const TestRun& run);
Job JobOf(const TestRun& run);

TestResult Train(const TestRun& run);
TestResult TrainReference(const TestRun& run);

// The largest max|difference| / max|expected| over all parameters.
double LargestDifference(const model::ParameterMap& actual, const model::ParameterMap& expected);

// Whether all losses, norms and weights are the same bits.
bool SameBits(const TestResult& left, const TestResult& right);

// Up to 0.3 ms before one op in four, others in each step: what ranks and streams are apart varies
// as much as where every op waits, and ops that do not wait pass those that do.
executor::DelayHook Jitter();

// The work of a rank that computes on the CPU.
inline CpuWork& CpuWorkOf(Ranks& ranks, int rank) {
  return static_cast<CpuWork&>(ranks.work(rank));
}

}  // namespace shardscope::runtime
