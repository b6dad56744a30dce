// Dump: what `--dump` writes, for comparison with other programs: of a training and of its
// reference alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/safetensors.h"

namespace shardscope::runtime {

// One thread, while no step runs.
class Dump {
 public:
  Dump(std::string path, const model::ModelConfig& model) : path_(std::move(path)), model_(model) {}

  // <prefix><parameter> of every parameter, whole: "init." before the first step, "final." after
  // the last.
  void AddParameters(const std::string& prefix,
                     const std::function<at::Tensor(const std::string& name)>& parameter);

  // batch.<step>.<rank>: all samples of a rank's step, [samples, seq + 1]. A token that the loss
  // leaves out is -1 - its id, as model::AppendSample() gives it.
  void AddBatch(int rank, int64_t step, const std::vector<int64_t>& tokens);

  Status Write() const { return writer_.Write(path_); }

 private:
  const std::string path_;
  const model::ModelConfig model_;
  model::SafetensorsWriter writer_;
};

}  // namespace shardscope::runtime
