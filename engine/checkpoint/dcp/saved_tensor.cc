#include "engine/checkpoint/dcp/saved_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/checkpoint/dcp/torch_names.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/plan/model_description.h"
#include "trace/base/number_at.h"
#include "trace/base/pickle/unpickle.h"

namespace shardscope::checkpoint {
namespace {

using Bytes = std::span<const std::byte>;
using pickle::Document;
using pickle::PickledName;
using pickle::Value;
using Kind = pickle::PickledName::Kind;

Status Damaged() { return Status::Error("it is no archive of torch.save, or damaged"); }

// The central directory of a zip file (APPNOTE.TXT 4.3.12), which stands at its end: what is stored
// under which name, without the name of the archive in front.
class Archive {
 public:
  static Result<Archive> Open(Bytes bytes) {
    Archive archive(bytes);
    SHARDSCOPE_RETURN_IF_ERROR(archive.ReadDirectory());
    return archive;
  }

  std::optional<Bytes> Find(std::string_view name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return std::nullopt;
    return found->second;
  }

 private:
  static constexpr uint32_t kEndOfDirectory = 0x06054b50;
  static constexpr uint32_t kEndOfDirectory64 = 0x06064b50;
  static constexpr uint32_t kEntry = 0x02014b50;
  static constexpr size_t kEndBytes = 22;
  static constexpr size_t kEnd64Bytes = 56;
  static constexpr size_t kLocator64Bytes = 20;
  static constexpr size_t kEntryBytes = 46;
  static constexpr size_t kLocalBytes = 30;
  static constexpr uint16_t kZip64Extra = 1;

  explicit Archive(Bytes bytes) : bytes_(bytes) {}

  Status ReadDirectory() {
    if (bytes_.size() < kEndBytes) return Damaged();
    const size_t end = bytes_.size() - kEndBytes;  // LibTorch writes no comment
    if (NumberAt<uint32_t>(bytes_, end) != kEndOfDirectory) return Damaged();
    uint64_t count = *NumberAt<uint16_t>(bytes_, end + 10);
    uint64_t at = *NumberAt<uint32_t>(bytes_, end + 16);
    const size_t beside = kEnd64Bytes + kLocator64Bytes;
    if (end >= beside && NumberAt<uint32_t>(bytes_, end - beside) == kEndOfDirectory64) {
      count = *NumberAt<uint64_t>(bytes_, end - beside + 32);
      at = *NumberAt<uint64_t>(bytes_, end - beside + 48);
    }
    for (; count > 0; --count) {
      const Result<uint64_t> next = ReadEntry(at);
      if (!next.ok()) return next.status();
      at = *next;
    }
    return Status::Ok();
  }

  // Returns where the next one is.
  Result<uint64_t> ReadEntry(uint64_t at) {
    const auto local_short = NumberAt<uint32_t>(bytes_, at + 42);
    if (at > bytes_.size() || NumberAt<uint32_t>(bytes_, at) != kEntry || !local_short) {
      return Damaged();
    }
    const uint16_t method = *NumberAt<uint16_t>(bytes_, at + 10);
    uint64_t size = *NumberAt<uint32_t>(bytes_, at + 20);
    const uint64_t unpacked = *NumberAt<uint32_t>(bytes_, at + 24);
    const size_t name_size = *NumberAt<uint16_t>(bytes_, at + 28);
    const size_t extra_size = *NumberAt<uint16_t>(bytes_, at + 30);
    const size_t comment_size = *NumberAt<uint16_t>(bytes_, at + 32);
    const uint64_t next = at + kEntryBytes + name_size + extra_size + comment_size;
    if (next > bytes_.size()) return Damaged();
    uint64_t local = *local_short;
    ReadExtra(bytes_.subspan(at + kEntryBytes + name_size, extra_size), unpacked, &size, &local);
    if (method != 0) return Status::Error("its archive is compressed, which cannot be read");
    const auto local_name = NumberAt<uint16_t>(bytes_, local + 26);
    const auto local_extra = NumberAt<uint16_t>(bytes_, local + 28);
    if (local > bytes_.size() || !local_name || !local_extra) return Damaged();
    const uint64_t begin = local + kLocalBytes + *local_name + *local_extra;
    if (begin > bytes_.size() || size > bytes_.size() - begin) return Damaged();
    const std::string_view name(reinterpret_cast<const char*>(bytes_.data() + at + kEntryBytes),
                                name_size);
    const size_t slash = name.find('/');
    if (slash != std::string_view::npos) {
      entries_[name.substr(slash + 1)] = bytes_.subspan(begin, size);
    }
    return next;
  }

  // Sizes of 4 GiB and more: in the order of the fields that say "see there".
  static void ReadExtra(Bytes extra, uint64_t unpacked, uint64_t* size, uint64_t* local) {
    constexpr uint64_t kSeeThere = 0xffffffff;
    for (size_t at = 0; at + 4 <= extra.size();) {
      const uint16_t id = *NumberAt<uint16_t>(extra, at);
      const size_t length = *NumberAt<uint16_t>(extra, at + 2);
      size_t field = at + 4;
      const auto take = [&](uint64_t* value) {
        if (const auto number = NumberAt<uint64_t>(extra, field)) *value = *number;
        field += 8;
      };
      if (id == kZip64Extra) {
        uint64_t ignored = 0;
        if (unpacked == kSeeThere) take(&ignored);
        if (*size == kSeeThere) take(size);
        if (*local == kSeeThere) take(local);
      }
      at += 4 + length;
    }
  }

  Bytes bytes_;
  std::map<std::string_view, Bytes> entries_;
};

std::vector<PickledName> NamesOfSaved() {
  std::vector<PickledName> names = {
      {"torch._utils", "_rebuild_tensor_v2", Kind::kRecord},
      {"torch._utils", "_rebuild_parameter", Kind::kRecord},
      {"torch.storage", "UntypedStorage", Kind::kConstant},
  };
  for (const TorchType& type : kTorchTypes) {
    names.push_back({"torch", type.storage, Kind::kConstant});
  }
  return names;
}

std::vector<int64_t> Numbers(const Document& document, const Value& value) {
  std::vector<int64_t> numbers;
  for (const Value& item : document.Items(value)) numbers.push_back(item.whole().value_or(-1));
  return numbers;
}

bool IsContiguous(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t at = sizes.size(); at-- > 0;) {
    if (sizes[at] != 1 && strides[at] != expected) return false;
    expected *= sizes[at];
  }
  return true;
}

std::string_view StorageOf(const std::string& dtype) {
  const auto found =
      std::ranges::find(kTorchTypes, std::string_view(dtype), &TorchType::safetensors);
  return found == std::end(kTorchTypes) ? "" : found->storage;
}

}  // namespace

Result<Bytes> SavedTensorBytes(Bytes bytes, const std::string& dtype,
                               const std::vector<int64_t>& sizes) {
  const int64_t element_bytes = BytesOfDType(dtype);
  if (element_bytes == 0) return Status::Error("its type " + dtype + " cannot be read");
  SHARDSCOPE_ASSIGN_OR_RETURN(const Archive archive, Archive::Open(bytes));
  const std::optional<Bytes> program = archive.Find("data.pkl");
  if (!program) return Damaged();
  if (const std::optional<Bytes> order = archive.Find("byteorder")) {
    const std::string_view text(reinterpret_cast<const char*>(order->data()), order->size());
    if (text != "little") return Status::Error("its bytes are in big-endian order");
  }
  const std::vector<PickledName> names = NamesOfSaved();
  const Result<Document> document =
      pickle::Unpickle(std::string(reinterpret_cast<const char*>(program->data()), program->size()),
                       {.names = names, .keeps_persistent_ids = true});
  if (!document.ok()) return document.status();
  const Value* arguments = document->Find(document->root(), "arguments");
  if (arguments == nullptr) return Status::Error("it is no plain tensor");
  std::span<const Value> given = document->Items(*arguments);
  // torch.nn.Parameter: the tensor is its first argument.
  if (!given.empty() && document->Text(document->root(), "class").ends_with("_rebuild_parameter")) {
    const Value* inner = document->Find(given.front(), "arguments");
    given = inner == nullptr ? std::span<const Value>() : document->Items(*inner);
  }
  // storage, offset, sizes, strides, ...; a storage is ("storage", type, key, device, elements).
  if (given.size() < 4) return Damaged();
  const std::span<const Value> storage = document->Items(given[0]);
  const std::vector<int64_t> strides = Numbers(*document, given[3]);
  if (storage.size() < 5 || strides.size() != sizes.size()) return Damaged();
  if (Numbers(*document, given[2]) != sizes ||
      storage[1].text() != fmt::format("torch.{}", StorageOf(dtype))) {
    return Status::Error("its type or sizes are not those of the metadata");
  }
  if (!IsContiguous(sizes, strides))
    return Status::Error("its elements are not in row-major order");
  const std::optional<Bytes> data = archive.Find(fmt::format("data/{}", storage[2].text()));
  const int64_t first = given[1].whole().value_or(-1);
  const int64_t count = plan::NumElements(sizes);
  const int64_t elements = data ? std::ssize(*data) / element_bytes : 0;
  if (!data || first < 0 || first > elements || count > elements - first) return Damaged();
  return data->subspan(static_cast<size_t>(first * element_bytes),
                       static_cast<size_t>(count * element_bytes));
}

}  // namespace shardscope::checkpoint
