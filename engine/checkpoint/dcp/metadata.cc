#include "engine/checkpoint/dcp/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "engine/checkpoint/dcp/torch_names.h"
#include "trace/base/input_file.h"
#include "trace/base/pickle/unpickle.h"

namespace shardscope::checkpoint {
namespace {

using pickle::Document;
using pickle::PickledName;
using pickle::Value;
using pickle::ValueKind;
using Kind = pickle::PickledName::Kind;

constexpr size_t kMostBytes = size_t{1} << 30;
constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kOldShards = "torch.distributed._shard.sharded_tensor.metadata";

std::vector<PickledName> NamesOfMetadata() {
  std::vector<PickledName> names = {
      {kMetadata, "Metadata", Kind::kRecord},
      {kMetadata, "TensorStorageMetadata", Kind::kRecord},
      {kMetadata, "BytesStorageMetadata", Kind::kRecord},
      {kMetadata, "ChunkStorageMetadata", Kind::kRecord},
      {kMetadata, "TensorProperties", Kind::kRecord},
      {kMetadata, "MetadataIndex", Kind::kRecord},
      {kMetadata, "StorageMeta", Kind::kRecord},
      {kMetadata, "_MEM_FORMAT_ENCODING", Kind::kRecord},
      {kOldShards, "TensorProperties", Kind::kRecord},
      {kOldShards, "MEM_FORMAT_ENCODING", Kind::kRecord},
      {"torch.distributed.checkpoint.filesystem", "_StorageInfo", Kind::kRecord},
      {"torch.serialization", "_get_layout", Kind::kRecord},
      {"pathlib", "PosixPath", Kind::kRecord},
      {"pathlib", "WindowsPath", Kind::kRecord},
      {"pathlib._local", "PosixPath", Kind::kRecord},
      {"torch", "Size", Kind::kArgument},
  };
  for (const TorchType& type : kTorchTypes) names.push_back({"torch", type.name, Kind::kConstant});
  return names;
}

class Reader {
 public:
  Reader(const Document& document, std::string path)
      : document_(document), path_(std::move(path)) {}

  Result<DcpMetadata> Read() {
    const Value* entries = Field(document_.root(), "state_dict_metadata");
    const Value* places = Field(document_.root(), "storage_data");
    if (entries == nullptr || places == nullptr || places->kind() != ValueKind::kDict) {
      return Status::Error(path_ + " is no metadata of a checkpoint of torch.distributed");
    }
    for (const auto& [key, entry] : document_.FieldsOf(*entries)) {
      const std::string name(key.text());
      if (Field(entry, "chunks") == nullptr) {
        metadata_.objects.push_back(name);
        continue;
      }
      SHARDSCOPE_RETURN_IF_ERROR(TakeTensor(name, entry));
    }
    SHARDSCOPE_RETURN_IF_ERROR(TakePlaces(*places));
    return std::move(metadata_);
  }

 private:
  const Value* Field(const Value& record, std::string_view key) const {
    return document_.Find(record, key);
  }

  Status Damaged(const std::string& name) const {
    return Status::Error(fmt::format("{} is damaged: {} is not as a tensor is", path_, name));
  }

  std::optional<std::vector<int64_t>> Sizes(const Value& record, std::string_view key) const {
    const Value* value = Field(record, key);
    if (value == nullptr || !value->is_container()) return std::nullopt;
    std::vector<int64_t> sizes;
    for (const Value& item : document_.Items(*value)) {
      const std::optional<int64_t> size = item.whole();
      if (!size || *size < 0) return std::nullopt;
      sizes.push_back(*size);
    }
    return sizes;
  }

  Status TakeTensor(const std::string& name, const Value& record) {
    DcpTensor tensor;
    const std::optional<std::vector<int64_t>> shape = Sizes(record, "size");
    const Value* properties = Field(record, "properties");
    if (!shape || properties == nullptr) return Damaged(name);
    tensor.shape = *shape;
    // The state is a tuple that begins with the dtype.
    const Value* state = Field(*properties, "state");
    const std::span<const Value> values =
        state == nullptr ? std::span<const Value>() : document_.Items(*state);
    const Value* dtype = values.empty() ? Field(*properties, "dtype") : &values.front();
    if (dtype == nullptr || !dtype->is_text()) return Damaged(name);
    tensor.dtype = SafetensorsTypeOf(dtype->text());
    for (const Value& item : document_.Items(*Field(record, "chunks"))) {
      const auto offsets = Sizes(item, "offsets");
      const auto sizes = Sizes(item, "sizes");
      if (!offsets || !sizes || offsets->size() != tensor.shape.size() ||
          sizes->size() != tensor.shape.size()) {
        return Damaged(name);
      }
      for (size_t at = 0; at < sizes->size(); ++at) {
        if ((*offsets)[at] > tensor.shape[at] - (*sizes)[at]) return Damaged(name);
      }
      tensor.chunks.push_back({.offsets = *offsets, .sizes = *sizes});
    }
    metadata_.tensors[name] = std::move(tensor);
    return Status::Ok();
  }

  Status TakePlaces(const Value& places) {
    for (const auto& [index, info] : document_.FieldsOf(places)) {
      const auto found = metadata_.tensors.find(std::string(document_.Text(index, "fqn")));
      if (found == metadata_.tensors.end()) continue;
      // A tensor that is not sharded has no offset.
      auto offsets = Sizes(index, "offset");
      if (!offsets) offsets.emplace(found->second.shape.size());
      for (DcpChunk& chunk : found->second.chunks) {
        if (chunk.offsets != *offsets) continue;
        SHARDSCOPE_RETURN_IF_ERROR(TakePlace(found->first, info, &chunk));
      }
    }
    for (const auto& [name, tensor] : metadata_.tensors) {
      for (const DcpChunk& chunk : tensor.chunks) {
        if (!chunk.file.empty() || std::ranges::count(chunk.sizes, 0) > 0) continue;
        return Status::Error(fmt::format("{} does not say where all of {} is", path_, name));
      }
    }
    return Status::Ok();
  }

  Status TakePlace(const std::string& name, const Value& info, DcpChunk* chunk) const {
    const Value* transforms = Field(info, "transform_descriptors");
    if (transforms != nullptr && !document_.Items(*transforms).empty()) {
      return Status::Error(fmt::format(
          "{} is stored with a transformation ({}), which cannot be read: save it without", name,
          document_.Items(*transforms).front().text()));
    }
    const std::string_view file = document_.Text(info, "relative_path");
    const std::optional<int64_t> offset = document_.Whole(info, "offset");
    const std::optional<int64_t> length = document_.Whole(info, "length");
    const bool is_plain = !file.empty() && file.find('/') == std::string_view::npos && file != "..";
    if (!is_plain || !offset || !length || *offset < 0 || *length < 0) return Damaged(name);
    chunk->file = file;
    chunk->offset = *offset;
    chunk->length = *length;
    return Status::Ok();
  }

  const Document& document_;
  const std::string path_;
  DcpMetadata metadata_;
};

}  // namespace

Result<DcpMetadata> ReadDcpMetadata(const std::string& folder) {
  const std::string path = folder + "/.metadata";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Status::Error(folder +
                         " has no .metadata: it is no folder of torch.distributed.checkpoint");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kMostBytes));
  const std::vector<PickledName> names = NamesOfMetadata();
  const Result<Document> document = pickle::Unpickle(std::move(bytes), {.names = names});
  if (!document.ok()) return Status::Error(path + ": " + document.message());
  return Reader(*document, path).Read();
}

}  // namespace shardscope::checkpoint
