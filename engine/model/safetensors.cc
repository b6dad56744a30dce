#include "engine/model/safetensors.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trace/base/check.h"

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

  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  char prefix[sizeof(length)];
  std::memcpy(prefix, &length, sizeof(length));
  file.write(prefix, sizeof(prefix));
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const auto& [name, tensor] : tensors_) {
    file.write(static_cast<const char*>(tensor.const_data_ptr()),
               static_cast<std::streamsize>(tensor.nbytes()));
  }
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(partial, path, error);
  if (!file || error) {
    const std::string reason = error ? error.message() : std::strerror(errno);
    std::filesystem::remove(partial, error);
    return Status::Error("cannot write " + path + ": " + reason);
  }
  return Status::Ok();
}

}  // namespace shardscope::model
