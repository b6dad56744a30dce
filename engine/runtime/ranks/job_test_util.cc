#include "engine/runtime/ranks/job_test_util.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "engine/model/initialize.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/step_results_test_util.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

std::shared_ptr<const model::Corpus> TestCorpus() {
  static const auto kCorpus = [] {
    auto corpus = std::make_shared<model::Corpus>();
    const std::string letters = "etaoin shrdlu\n";
    for (uint64_t i = 0; i < 20000; ++i) {
      // Words of a few letters repeat, so that there is something to learn.
      corpus->bytes += letters[model::MixedBits(i / 3 % 50, i % 3) % letters.size()];
    }
    corpus->num_files = 1;
    return corpus;
  }();
  return kCorpus;
}

void MakeLlama(TestRun* run, bool tied) {
  model::ModelConfig& model = run->model;
  model.kind = model::ModelKind::kLlama;
  model.kv_heads = 12;
  model.heads = 24;
  model.stated_head_dim = 2;
  model.ffn = 48;
  model.qkv_bias = true;
  model.tied = tied;
}

std::shared_ptr<const model::Corpus> MaskedCorpus() {
  static const auto kCorpus = [] {
    const std::string& bytes = TestCorpus()->bytes;
    auto tokens = std::make_shared<std::vector<uint32_t>>();
    for (size_t i = 0; i < bytes.size(); ++i) {
      // Stretches of different lengths, of which some samples have nothing and others all.
      const bool counts = model::MixedBits(i / 23, 5) % 3 == 0 || i % 7 == 0;
      tokens->push_back(static_cast<unsigned char>(bytes[i]) | (counts ? 0 : model::kNotCounted));
    }
    auto corpus = std::make_shared<model::Corpus>();
    corpus->tokens = *tokens;
    corpus->token_storage = tokens;
    corpus->is_masked = true;
    return corpus;
  }();
  return kCorpus;
}

std::shared_ptr<const HeldOut> HeldOutOf(std::shared_ptr<const model::Corpus> corpus,
                                         const TestRun& run, int64_t num_samples) {
  return std::make_shared<const HeldOut>(HeldOut{
      .corpus = std::move(corpus), .seq = run.model.seq, .num_samples = num_samples, .every = 1});
}

namespace {

// The mean loss over the run's held-out data, between two steps of `training`.
double Evaluate(const TestRun& run, const plan::Schedule& training, int64_t* batches,
                Ranks* ranks) {
  const plan::Policy policy = PolicyOf(run);
  const Result<plan::Schedule> schedule = plan::BuildEvaluation(DescriptionOf(run), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  if (!schedule.ok()) return 0;
  const int64_t batch_samples =
      run.training.batch * run.training.micro_batches * policy.mesh.SizeOf(plan::kDataDimensions);
  const int64_t num_batches = run.held_out->NumBatches(batch_samples);
  const auto all = [&](const std::function<Status(int rank)>& body) {
    const Status status = ranks->OnAll(body);
    EXPECT_TRUE(status.ok()) << status.message();
  };
  all([&](int rank) { return ranks->SetSchedule(rank, *schedule); });
  double sum = 0;
  for (int64_t batch = 0; batch < num_batches; ++batch, ++*batches) {
    all([&](int rank) {
      ranks->work(rank).BeginEvaluation({batch * batch_samples, run.held_out->num_samples});
      const Status status = ranks->runner(rank).RunStep(-2 - *batches);
      EXPECT_EQ(ranks->work(rank).EndStep(), 0) << "memory unaccounted for";
      return status;
    });
    for (int rank = 0; rank < ranks->size(); ++rank) sum += ranks->work(rank).outcome().loss;
  }
  all([&](int rank) { return ranks->SetSchedule(rank, training); });
  return sum / static_cast<double>(run.held_out->CountedTargets());
}

}  // namespace

plan::Policy PolicyOf(const TestRun& run) {
  plan::Policy policy = run.policy;
  policy.mesh = policy.strategy->MeshOf(run.training.num_ranks);
  // That differ in their samples, where other dimensions are given.
  const int ranks = run.training.num_ranks / std::max(1, run.stages) / std::max(1, run.tensor);
  if (run.stages > 0 || run.tensor > 0) policy.mesh = policy.strategy->MeshOf(ranks);
  if (policy.strategy->replicates_shards()) {
    const int replicas = ranks % run.replicas == 0 ? run.replicas : ranks;
    policy.mesh = {{1, replicas, ranks / replicas, 1}};
  }
  if (run.stages > 0) {
    policy.mesh.sizes[static_cast<size_t>(plan::MeshDimension::kPipeline)] = run.stages;
  }
  if (run.tensor > 0) {
    policy.mesh.sizes[static_cast<size_t>(plan::MeshDimension::kTensor)] = run.tensor;
  }
  policy.units = run.units;
  policy.units.tensor_ranks = policy.mesh.size(plan::MeshDimension::kTensor);
  policy.units.sequence_parallel =
      run.policy.units.sequence_parallel && policy.units.tensor_ranks > 1;
  policy.tensor_async = run.policy.tensor_async && policy.units.tensor_ranks > 1;
  if (policy.strategy->overlaps_stages && policy.pipeline == plan::PipelineSchedule::kOneByOne) {
    policy.pipeline = plan::PipelineSchedule::k1F1B;
  }
  policy.units.stages = policy.mesh.size(plan::MeshDimension::kPipeline) * run.chunks;
  // Small enough for several buckets, which cut segments apart.
  if (!policy.strategy->wraps) {
    policy.units.bucket_bytes = 9000;
    policy.units.first_bucket_bytes = 1000;
  }
  // One block ahead; the head and the last block stay for backward; norms are not split.
  if (policy.strategy->has_element_budgets && policy.budgets == plan::ElementBudgets()) {
    policy.budgets = {.prefetch_bucket_size = 8000, .max_reuse_distance = 13'000};
    policy.units.persistence_threshold = 100;
  }
  policy.micro_batches = static_cast<int>(run.training.micro_batches);
  policy.update.has_scaler = run.training.scaler.is_on;
  const model::OptimizerSettings& optimizer = run.training.optimizer;
  policy.update.state =
      plan::StateTensorsOf(optimizer.kind, run.state_form, optimizer.momentum > 0);
  policy.param_dtype = run.model.dtype;
  const bool is_double = run.model.dtype == plan::DType::kFp64;
  policy.master_dtype = is_double ? plan::DType::kFp64 : plan::DType::kFp32;
  if (is_double) policy.reduce_dtype = plan::DType::kFp64;
  return policy;
}

plan::ModelDescription DescriptionOf(const TestRun& run) {
  return model::DescribeModel(run.model, PolicyOf(run).units, run.training.batch);
}

Job JobOf(const TestRun& run) {
  const plan::Policy policy = PolicyOf(run);
  Job job;
  job.model = run.model;
  job.training = run.training;
  job.master = policy.master_dtype;
  job.reduce = policy.reduce_dtype;
  job.gradient = policy.gradient_dtype();
  job.corpus = run.corpus != nullptr ? run.corpus : TestCorpus();
  job.weights = run.weights;
  job.held_out = run.held_out;
  job.initial_layout = InitialLayout(DescriptionOf(run), policy);
  job.poison = run.poison;
  return job;
}

TestResult Train(const TestRun& run) {
  const Result<plan::Schedule> schedule = plan::BuildSchedule(DescriptionOf(run), PolicyOf(run));
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  NullSink sink;
  CpuDevice device{CpuOptions()};
  Result<std::unique_ptr<Ranks>> made = Ranks::Make(
      JobOf(run), transport::MakeSharedMemoryTransport(run.training.num_ranks, 60 * kNsPerSecond),
      &sink, &device);
  EXPECT_TRUE(made.ok()) << made.message();
  Ranks& ranks = **made;
  for (int rank = 0; run.jitter && rank < ranks.size(); ++rank) {
    ranks.runner(rank).set_delay_hook(Jitter());
  }
  EXPECT_TRUE(ranks
                  .OnAll([&](int rank) {
                    ranks.SetLateness(rank, run.lateness);
                    return ranks.SetSchedule(rank, *schedule);
                  })
                  .ok());
  TestResult result;
  int64_t batches = 0;
  for (int64_t step = 0; step < run.training.steps; ++step) {
    if (run.held_out != nullptr) {
      result.evaluations.push_back(Evaluate(run, *schedule, &batches, &ranks));
    }
    const Status status = ranks.OnAll([&](int rank) {
      ranks.work(rank).BeginStep(step, run.training.learning_rate);
      const Status ran = ranks.runner(rank).RunStep(step);
      if (ran.ok()) {
        EXPECT_EQ(ranks.work(rank).EndStep(), 0) << "memory unaccounted for";
      }
      return ran;
    });
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return result;
    AddStep(&ranks, &result);
  }
  AddParameters(run, &ranks, &result);
  return result;
}

executor::DelayHook Jitter() {
  return [](const executor::OpContext& context) {
    const auto key = static_cast<uint64_t>(context.step * 64 + context.rank);
    const uint64_t bits = model::MixedBits(key, static_cast<uint64_t>(context.index));
    if (bits % 4 != 0) return;
    SleepUntilNs(MonotonicNs() + static_cast<int64_t>(bits / 4 % 300) * kNsPerUs);
  };
}

TestResult TrainReference(const TestRun& run) {
  const auto corpus = run.corpus != nullptr ? run.corpus : TestCorpus();
  // Of the ranks that have samples of their own.
  model::TrainingSettings training = run.training;
  training.num_ranks = PolicyOf(run).mesh.SizeOf(plan::kDataDimensions);
  Result<model::Sampler> sampler =
      model::Sampler::Make({.num_samples = model::NumSamples(corpus->num_tokens(), run.model.seq),
                            .num_ranks = training.num_ranks,
                            .samples_per_step = run.training.batch * run.training.micro_batches,
                            .seed = run.training.seed});
  EXPECT_TRUE(sampler.ok());
  model::ReferenceTrainer trainer(run.model, training, PolicyOf(run).master_dtype, corpus.get(),
                                  *sampler);
  TestResult result;
  for (int64_t step = 0; step < run.training.steps; ++step) {
    const model::StepResult done = trainer.Step(step);
    result.losses.push_back(done.loss);
    result.norms.push_back(done.grad_norm);
  }
  for (const auto& [name, parameter] : trainer.parameters()) {
    result.parameters[name] = parameter.detach();
  }
  return result;
}

double LargestDifference(const model::ParameterMap& actual, const model::ParameterMap& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const auto& [name, wanted] : expected) {
    const double difference = (actual.at(name) - wanted).abs().max().item<double>();
    largest = std::max(largest, difference / wanted.abs().max().item<double>());
    if (!std::isfinite(difference)) return difference;
  }
  return largest;
}

bool SameBits(const TestResult& left, const TestResult& right) {
  if (left.losses != right.losses || left.norms != right.norms) return false;
  for (const auto& [name, tensor] : left.parameters) {
    const at::Tensor& other = right.parameters.at(name);
    if (std::memcmp(tensor.const_data_ptr(), other.const_data_ptr(), tensor.nbytes()) != 0) {
      return false;
    }
  }
  return left.parameters.size() == right.parameters.size();
}

}  // namespace shardscope::runtime
