#include "engine/checkpoint/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/plan/model_description.h"

namespace shardscope::checkpoint {

int64_t BytesOfDType(std::string_view dtype) {
  constexpr std::pair<std::string_view, int64_t> kKnown[] = {
      {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E5M2", 1},
      {"F8_E4M3", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
      {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};
  for (const auto& [name, bytes] : kKnown) {
    if (name == dtype) return bytes;
  }
  return 0;
}

int64_t TensorShape::bytes() const { return plan::NumElements(shape) * BytesOfDType(dtype); }

std::string SafetensorsHead(std::span<const TensorShape> tensors, std::string_view format) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!format.empty()) header["__metadata__"] = {{"format", format}};
  int64_t offset = 0;
  for (const TensorShape& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();  // little-endian, as all our platforms are
  std::string head(sizeof(length), '\0');
  std::memcpy(head.data(), &length, sizeof(length));
  return head + text;
}

}  // namespace shardscope::checkpoint
