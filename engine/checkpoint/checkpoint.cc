#include "engine/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/plan/model_description.h"
#include "trace/base/check.h"
#include "trace/base/input_file.h"

namespace shardscope::checkpoint {
namespace {

constexpr size_t kMostIndexBytes = size_t{1} << 30;

// Elements that lie together in a file.
struct Piece {
  int64_t first = 0;  // in the parameter
  int64_t count = 0;
  int32_t file = 0;
  int64_t offset = 0;
};

// In the order of the parameter.
std::vector<Piece> PiecesOf(const TensorEntry& tensor, int64_t element_bytes) {
  std::vector<Piece> pieces;
  for (const Part& part : tensor.parts) {
    int64_t offset = part.offset;
    for (const ElementRun& run : part.runs) {
      for (int64_t at = 0; at < run.times; ++at) {
        pieces.push_back({run.first + at * run.stride, run.count, part.file, offset});
        offset += run.count * element_bytes;
      }
    }
  }
  std::ranges::sort(pieces, {}, &Piece::first);
  return pieces;
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  const std::string path = folder + "/" + std::string(kIndexName);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Status::Error(folder + " is no folder of a checkpoint: it is not there");
  }
  if (IsPartial(folder)) {
    return Status::Error(folder + " is half written: take another checkpoint");
  }
  if (!std::filesystem::exists(path, error)) {
    return Status::Error(folder + " has no " + std::string(kIndexName) +
                         ": it is no checkpoint, or half written");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostIndexBytes));
  SHARDSCOPE_ASSIGN_OR_RETURN(checkpoint.index_, ParseIndex(text, path));
  for (const FileEntry& entry : checkpoint.index_.files) {
    const std::string file_path = folder + "/" + entry.name;
    Result<MappedFile> file = MappedFile::Open(file_path);
    if (!file.ok()) {
      return Status::Error(file.message() + ": the checkpoint is not whole, take another one");
    }
    if (std::ssize(file->bytes()) != entry.bytes) {
      return Status::Error(fmt::format(
          "{} has {} bytes, and its index says {}: the checkpoint is not whole, take another one",
          file_path, file->bytes().size(), entry.bytes));
    }
    checkpoint.files_.push_back(
        {std::move(file).value(), std::make_unique<std::atomic<bool>[]>(entry.blocks.size())});
  }
  return checkpoint;
}

Result<std::span<const std::byte>> Checkpoint::Bytes(int32_t file, int64_t first,
                                                     int64_t count) const {
  const File& mapped = files_[static_cast<size_t>(file)];
  const FileEntry& entry = index_.files[static_cast<size_t>(file)];
  const std::span<const std::byte> all = mapped.bytes.bytes();
  const auto wanted = all.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  if (count == 0) return wanted;
  const size_t end_block = (static_cast<size_t>(first + count) - 1) / kBlockBytes + 1;
  for (size_t block = static_cast<size_t>(first) / kBlockBytes; block < end_block; ++block) {
    if (mapped.is_checked[block].load(std::memory_order_relaxed)) continue;
    const size_t begin = block * kBlockBytes;
    if (HashOf(all.subspan(begin, std::min(kBlockBytes, all.size() - begin))) !=
        entry.blocks[block]) {
      const std::string other = WholeBeside(folder_);
      return Status::Error(fmt::format(
          "{}/{} is damaged (its checksum from byte {} on is another one): take another "
          "checkpoint{}",
          folder_, entry.name, begin, other.empty() ? "" : ", as " + other));
    }
    mapped.is_checked[block].store(true, std::memory_order_relaxed);
  }
  return wanted;
}

Status Checkpoint::Read(const TensorEntry& tensor, std::span<const ElementRun> runs,
                        std::byte* out) const {
  const int64_t element_bytes = BytesOfDType(tensor.dtype);
  const std::vector<Piece> pieces = PiecesOf(tensor, element_bytes);
  for (const ElementRun& run : runs) {
    for (int64_t at = 0; at < run.times; ++at) {
      int64_t first = run.first + at * run.stride;
      const int64_t end = first + run.count;
      auto piece = std::ranges::upper_bound(pieces, first, {}, &Piece::first);
      SHARDSCOPE_CHECK(piece != pieces.begin());
      for (--piece; first < end; ++piece) {
        SHARDSCOPE_CHECK(piece != pieces.end() && piece->first <= first);
        const int64_t count = std::min(end, piece->first + piece->count) - first;
        SHARDSCOPE_ASSIGN_OR_RETURN(
            const std::span<const std::byte> bytes,
            Bytes(piece->file, piece->offset + (first - piece->first) * element_bytes,
                  count * element_bytes));
        std::memcpy(out, bytes.data(), bytes.size());
        out += bytes.size();
        first += count;
      }
    }
  }
  return Status::Ok();
}

Result<std::vector<std::byte>> Checkpoint::ReadAll(const ParameterEntry& parameter,
                                                   std::string_view tensor) const {
  const TensorEntry* entry = parameter.Find(tensor);
  if (entry == nullptr) {
    return Status::Error(fmt::format("{} has no '{}' of {}", folder_, tensor, parameter.name));
  }
  const ElementRun all{.first = 0, .count = plan::NumElements(parameter.shape)};
  std::vector<std::byte> bytes(static_cast<size_t>(all.count * BytesOfDType(entry->dtype)));
  SHARDSCOPE_RETURN_IF_ERROR(Read(*entry, {&all, 1}, bytes.data()));
  return bytes;
}

Status Checkpoint::VerifyFile(std::string_view name) const {
  for (size_t file = 0; file < files_.size(); ++file) {
    if (index_.files[file].name != name) continue;
    return Bytes(static_cast<int32_t>(file), 0, index_.files[file].bytes).status();
  }
  return Status::Ok();
}

}  // namespace shardscope::checkpoint
