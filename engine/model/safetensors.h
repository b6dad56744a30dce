// Writer of safetensors files (https://github.com/huggingface/safetensors, "Format"): the same
// tensors in the same order give the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trace/base/status.h"

namespace shardscope::model {

// As safetensors call dtypes; fp32, fp64, fp16, bf16, int64.
const char* SafetensorsDType(at::ScalarType type);
std::optional<at::ScalarType> ScalarTypeOfSafetensors(std::string_view dtype);

class SafetensorsWriter {
 public:
  // Takes a copy. Names must differ; dtypes fp32, fp64, bf16, fp16, int64.
  void Add(const std::string& name, const at::Tensor& tensor);

  // As trace/base/output_file.h; a crash of the machine leaves the old file or this one.
  Status Write(const std::string& path) const;

 private:
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
};

}  // namespace shardscope::model
