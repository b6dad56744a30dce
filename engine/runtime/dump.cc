#include "engine/runtime/dump.h"

#include <fmt/format.h>

#include <ATen/ops/tensor.h>

#include "engine/model/reference_model.h"

namespace shardscope::runtime {

void Dump::AddInitial(Ranks* ranks) { AddParameters("init.", ranks); }

Status Dump::Write(Ranks* ranks, int64_t steps) {
  const Job& job = ranks->job();
  const int64_t samples = job.training.batch * job.training.micro_batches;
  for (int64_t step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks->size(); ++rank) {
      const auto& tokens = ranks->work(rank).kept_batches()[static_cast<size_t>(step)];
      writer_.Add(fmt::format("batch.{}.{}", step, rank),
                  at::tensor(tokens, at::kLong).view({samples, job.model.seq + 1}));
    }
  }
  AddParameters("final.", ranks);
  return writer_.Write(path_);
}

void Dump::AddParameters(const std::string& prefix, Ranks* ranks) {
  for (const plan::Parameter& parameter : model::AllParameters(ranks->job().model)) {
    writer_.Add(prefix + parameter.name, ranks->FullParameter(parameter.name));
  }
}

}  // namespace shardscope::runtime
