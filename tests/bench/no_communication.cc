// What ranks would take that never talked to each other: forward, backward, gradient norm and AdamW
// of the engine's own kernels, on parameters that stay whole, each rank updating its share of them
// as with sharding. No schedule, no copies, no collectives, no recording: the floor under every
// strategy's step (tests/bench/pytorch.py).
//
// Usage: no_communication RANKS LAYERS DIM HEADS SEQ BATCH STEPS
// Prints one JSON line: {"steps_ns": [[one rank's steps], ...]}.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "engine/model/initialize.h"
#include "engine/model/reference_model.h"
#include "engine/model/segments.h"
#include "engine/model/training_settings.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "engine/runtime/units/arithmetic.h"
#include "engine/runtime/units/optimizer.h"
#include "trace/base/time.h"

namespace shardscope {
namespace {

struct Shape {
  int num_ranks = 1;
  model::ModelConfig model;
  int64_t batch = 1;
  int64_t steps = 1;
};

struct Weight {
  at::Tensor value, gradient, first_moment, second_moment;
};

class Rank {
 public:
  Rank(const Shape& shape, int rank) : shape_(shape), rank_(rank), model_(shape.model) {
    const model::ParameterMap initial =
        model::InitialParameters(shape_.model, plan::DType::kFp32, 0);
    for (int64_t segment = 0; segment < model::NumSegments(shape_.model); ++segment) {
      std::vector<Weight>& weights = segments_.emplace_back();
      for (const plan::Parameter& parameter : model::ParametersOf(shape_.model, segment)) {
        const at::Tensor& value = initial.at(parameter.name);
        const auto zeros = [&value] { return value.clone().zero_(); };
        weights.push_back({value, zeros(), zeros(), zeros()});
      }
    }
  }

  std::vector<int64_t> Run() {
    runtime::ComputeOnOneThread();
    std::vector<int64_t> steps_ns;
    for (int64_t step = 0; step < shape_.steps; ++step) {
      const model::TokenBatch tokens = NextBatch(step);
      const int64_t start_ns = MonotonicNs();
      Step(step, tokens);
      steps_ns.push_back(MonotonicNs() - start_ns);
    }
    return steps_ns;
  }

 private:
  // Refers to tokens_.
  model::TokenBatch NextBatch(int64_t step) {
    const auto key = static_cast<uint64_t>(step * shape_.num_ranks + rank_);
    std::vector<int64_t> samples;
    for (int64_t row = 0; row < shape_.batch; ++row) {
      for (int64_t i = 0; i <= shape_.model.seq; ++i) {
        const auto at = static_cast<uint64_t>(row * shape_.model.seq + i);
        const auto vocab = static_cast<uint64_t>(shape_.model.vocab);
        samples.push_back(static_cast<int64_t>(model::MixedBits(key, at) % vocab));
      }
    }
    tokens_.resize(static_cast<size_t>(2 * shape_.batch * shape_.model.seq));
    return model::MakeTokenBatch(samples, shape_.model.seq, tokens_);
  }

  void Step(int64_t step, const model::TokenBatch& tokens) {
    const auto count = static_cast<int64_t>(segments_.size());
    const auto values = [this](int64_t segment) {
      std::vector<at::Tensor> tensors;
      for (const Weight& weight : segments_[static_cast<size_t>(segment)]) {
        tensors.push_back(weight.value);
      }
      return tensors;
    };
    std::vector<model::Saved> saved(segments_.size());
    const auto input = [&saved](int64_t segment) {
      return segment == 0 ? at::Tensor() : saved[static_cast<size_t>(segment) - 1].output;
    };
    for (int64_t segment = 0; segment < count; ++segment) {
      saved[static_cast<size_t>(segment)] =
          model_.Forward(segment, {values(segment), input(segment), tokens});
    }
    at::Tensor output_gradient;
    for (int64_t segment = count - 1; segment >= 0; --segment) {
      const std::vector<at::Tensor> parameters = values(segment);
      const at::Tensor before = input(segment);
      std::vector<at::Tensor> gradients;
      for (const Weight& weight : segments_[static_cast<size_t>(segment)]) {
        gradients.push_back(weight.gradient);
      }
      output_gradient = model_.Backward(segment,
                                        {.parameters = parameters,
                                         .input = before,
                                         .saved = saved[static_cast<size_t>(segment)],
                                         .output_gradient = output_gradient,
                                         .tokens = tokens},
                                        &gradients);
      saved[static_cast<size_t>(segment)] = {};
    }
    Update(step);
  }

  // This rank's share of each parameter, as a sharded optimizer.
  void Update(int64_t step) {
    double squares = 0;
    for (const std::vector<Weight>& weights : segments_) {
      for (const Weight& weight : weights) {
        squares += runtime::SumOfSquares(weight.gradient.const_data_ptr<float>() + First(weight),
                                         plan::DType::kFp32, Count(weight));
      }
    }
    const runtime::UpdateArgs args{.learning_rate = 1e-3,
                                   .gradient_scale = model::ClipScale(std::sqrt(squares), 1.0),
                                   .step = step};
    for (std::vector<Weight>& weights : segments_) {
      for (Weight& weight : weights) {
        const int64_t first = First(weight);
        runtime::Update<float>(
            {.parameters = weight.value.mutable_data_ptr<float>() + first,
             .gradient = weight.gradient.const_data_ptr<float>() + first,
             .state = {{{.values = weight.first_moment.mutable_data_ptr<float>() + first},
                        {.values = weight.second_moment.mutable_data_ptr<float>() + first}}},
             .elements = Count(weight)},
            args);
      }
    }
  }

  int64_t First(const Weight& weight) const {
    return rank_ * weight.value.numel() / shape_.num_ranks;
  }
  int64_t Count(const Weight& weight) const {
    return (rank_ + 1) * weight.value.numel() / shape_.num_ranks - First(weight);
  }

  const Shape shape_;
  const int64_t rank_;
  const model::Model model_;
  std::vector<std::vector<Weight>> segments_;
  std::vector<int64_t> tokens_;  // inputs, then targets
};

int Main(const Shape& shape) {
  std::vector<std::vector<int64_t>> steps_ns(static_cast<size_t>(shape.num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    threads.emplace_back(
        [&, rank] { steps_ns[static_cast<size_t>(rank)] = Rank(shape, rank).Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  std::string text;
  for (const std::vector<int64_t>& steps : steps_ns) {
    text += fmt::format("{}[{}]", text.empty() ? "" : ", ", fmt::join(steps, ", "));
  }
  fmt::print("{{\"steps_ns\": [{}]}}\n", text);
  return 0;
}

}  // namespace
}  // namespace shardscope

int main(int argc, char** argv) {
  if (argc != 8) {
    fmt::print(stderr, "usage: no_communication RANKS LAYERS DIM HEADS SEQ BATCH STEPS\n");
    return 2;
  }
  // As shardscope-train: activations of one step reuse the pages of the last.
  mallopt(M_MMAP_THRESHOLD, 512 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  const auto number = [argv](int index) { return std::atoll(argv[index]); };
  return shardscope::Main(
      {.num_ranks = static_cast<int>(number(1)),
       .model = {.layers = number(2), .dim = number(3), .heads = number(4), .seq = number(5)},
       .batch = number(6),
       .steps = number(7)});
}
