#include "engine/runtime/dump.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "engine/model/reference_model.h"

namespace shardscope::runtime {

void Dump::AddParameters(const std::string& prefix,
                         const std::function<at::Tensor(const std::string& name)>& parameter) {
  for (const plan::Parameter& one : model::AllParameters(model_)) {
    writer_.Add(prefix + one.name, parameter(one.name));
  }
}

void Dump::AddBatch(int rank, int64_t step, const std::vector<int64_t>& tokens) {
  writer_.Add(fmt::format("batch.{}.{}", step, rank),
              at::tensor(tokens, at::kLong).view({-1, model_.seq + 1}));
}

}  // namespace shardscope::runtime
