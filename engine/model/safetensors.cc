#include "engine/model/safetensors.h"

#include "engine/checkpoint/safetensors.h"
#include "trace/base/check.h"
#include "trace/base/output_file.h"

namespace shardscope::model {
namespace {

constexpr std::pair<at::ScalarType, const char*> kDTypes[] = {{at::kFloat, "F32"},
                                                              {at::kDouble, "F64"},
                                                              {at::kHalf, "F16"},
                                                              {at::kBFloat16, "BF16"},
                                                              {at::kLong, "I64"}};

}  // namespace

const char* SafetensorsDType(at::ScalarType type) {
  for (const auto& [known, name] : kDTypes) {
    if (known == type) return name;
  }
  SHARDSCOPE_CHECK(false);
  return "";
}

std::optional<at::ScalarType> ScalarTypeOfSafetensors(std::string_view dtype) {
  for (const auto& [known, name] : kDTypes) {
    if (dtype == name) return known;
  }
  return std::nullopt;
}

void SafetensorsWriter::Add(const std::string& name, const at::Tensor& tensor) {
  tensors_.emplace_back(name, tensor.detach().contiguous().clone());
}

Status SafetensorsWriter::Write(const std::string& path) const {
  std::vector<checkpoint::TensorShape> shapes;
  for (const auto& [name, tensor] : tensors_) {
    shapes.push_back({name, SafetensorsDType(tensor.scalar_type()), tensor.sizes().vec()});
  }
  Result<OutputFile> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  SHARDSCOPE_RETURN_IF_ERROR(file->Write(checkpoint::SafetensorsHead(shapes)));
  for (const auto& [name, tensor] : tensors_) {
    const auto* bytes = static_cast<const char*>(tensor.const_data_ptr());
    SHARDSCOPE_RETURN_IF_ERROR(file->Write({bytes, tensor.nbytes()}));
  }
  SHARDSCOPE_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace shardscope::model
