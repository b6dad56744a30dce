#include "engine/model/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "trace/base/check.h"
#include "trace/base/output_file.h"

namespace shardscope::model {
namespace {

const char* DTypeName(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "F32";
    case at::kDouble:
      return "F64";
    case at::kBFloat16:
      return "BF16";
    case at::kHalf:
      return "F16";
    case at::kLong:
      return "I64";
    default:
      SHARDSCOPE_CHECK(false);
      return "";
  }
}

}  // namespace

void SafetensorsWriter::Add(const std::string& name, const at::Tensor& tensor) {
  tensors_.emplace_back(name, tensor.detach().contiguous().clone());
}

Status SafetensorsWriter::Write(const std::string& path) const {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors_) {
    header[name] = {{"dtype", DTypeName(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts at a multiple of 8 bytes
  const uint64_t length = text.size();          // little-endian, as all our platforms are

  Result<OutputFile> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  char prefix[sizeof(length)];
  std::memcpy(prefix, &length, sizeof(length));
  SHARDSCOPE_RETURN_IF_ERROR(file->Write({prefix, sizeof(prefix)}));
  SHARDSCOPE_RETURN_IF_ERROR(file->Write(text));
  for (const auto& [name, tensor] : tensors_) {
    const auto* bytes = static_cast<const char*>(tensor.const_data_ptr());
    SHARDSCOPE_RETURN_IF_ERROR(file->Write({bytes, tensor.nbytes()}));
  }
  SHARDSCOPE_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace shardscope::model
