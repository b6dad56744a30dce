// Dump: what `--dump` writes, for comparison with other programs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "engine/model/safetensors.h"
#include "engine/runtime/ranks/ranks.h"

namespace shardscope::runtime {

// One thread, while no step runs.
class Dump {
 public:
  explicit Dump(std::string path) : path_(std::move(path)) {}

  // Before the first step: init.<parameter>.
  void AddInitial(Ranks* ranks);

  // After the last of `steps`: writes batch.<step>.<rank> (samples, seq + 1) and final.<parameter>
  // too.
  Status Write(Ranks* ranks, int64_t steps);

 private:
  void AddParameters(const std::string& prefix, Ranks* ranks);

  const std::string path_;
  model::SafetensorsWriter writer_;
};

}  // namespace shardscope::runtime
