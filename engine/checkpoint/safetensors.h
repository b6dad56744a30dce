// How tensors lie in a safetensors file (https://github.com/huggingface/safetensors, "Format"): the
// length of a JSON header, the header, the bytes of all tensors one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::checkpoint {

struct TensorShape {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<int64_t> shape;

  int64_t bytes() const;
};

// Of an element, of any dtype that the format has. 0: it is none.
int64_t BytesOfDType(std::string_view dtype);

// The first bytes of a file with these tensors, in this order. Data begin at a multiple of 8 bytes.
// The same tensors give the same bytes. `format`: of whom the tensors are, in the header's
// metadata, without which some versions of transformers load no file.
std::string SafetensorsHead(std::span<const TensorShape> tensors, std::string_view format = {});

}  // namespace shardscope::checkpoint
