#include "engine/model/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/checkpoint/safetensors.h"
#include "engine/model/safetensors.h"
#include "engine/model/stored_values.h"
#include "trace/base/check.h"
#include "trace/base/text.h"

namespace shardscope::model {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit

// A list of whole numbers, none below 0.
std::optional<std::vector<int64_t>> Counts(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<int64_t> counts;
  for (const Json& one : *found) {
    if (!one.is_number_unsigned() || one.get<uint64_t>() > INT64_MAX) return std::nullopt;
    counts.push_back(one.get<int64_t>());
  }
  return counts;
}

// Of the shape; none if that is more than a file can have.
std::optional<int64_t> Product(const std::vector<int64_t>& shape, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// An object whose names differ, or an error.
Result<Json> ParseHeader(std::string_view text) {
  std::set<std::string> names;
  std::string twice;
  const auto check = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      const auto name = parsed.get<std::string>();
      if (!names.insert(name).second) twice = name;
    }
    return true;
  };
  Json header = Json::parse(text, check, /*allow_exceptions=*/false);
  if (header.is_discarded()) return Status::Error("its header is no JSON");
  if (!header.is_object()) return Status::Error("its header is no JSON object");
  if (!twice.empty()) return Status::Error("its header has the tensor " + twice + " twice");
  return header;
}

}  // namespace

bool SafetensorsFile::Entry::is_float() const {
  return dtype == "F32" || dtype == "F64" || dtype == "F16" || dtype == "BF16";
}

Status SafetensorsFile::Wrong(const std::string& what) const {
  return Status::Error(path_ + " cannot be read as safetensors: " + Printable(what));
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  SafetensorsFile file(path, std::move(mapped));
  SHARDSCOPE_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

Status SafetensorsFile::ReadHeader() {
  uint64_t length = 0;  // little-endian, as all our platforms are
  if (bytes() < static_cast<int64_t>(sizeof(length))) {
    return Wrong("it is shorter than 8 bytes");
  }
  std::memcpy(&length, mapped_.bytes().data(), sizeof(length));
  const auto rest = static_cast<uint64_t>(bytes()) - sizeof(length);
  if (length > kMostHeaderBytes || length > rest) {
    return Wrong(fmt::format("it has {} bytes and says that its header has {}", bytes(), length));
  }
  const char* text = reinterpret_cast<const char*>(mapped_.bytes().data()) + sizeof(length);
  Result<Json> header = ParseHeader({text, length});
  if (!header.ok()) return Wrong(header.message());
  const auto data_begin = static_cast<int64_t>(sizeof(length) + length);
  for (const auto& [name, fields] : header->items()) {
    if (name == "__metadata__") continue;
    const auto wrong = [&, &tensor = name](const std::string& what) {  // clang 14 asks for a name
      return Wrong("tensor " + tensor + " " + what);
    };
    if (!fields.is_object()) return wrong("is no object");
    const auto dtype = fields.find("dtype");
    if (dtype == fields.end() || !dtype->is_string()) return wrong("has no dtype");
    Entry entry{.dtype = dtype->get<std::string>()};
    const int64_t element_bytes = checkpoint::BytesOfDType(entry.dtype);
    if (element_bytes == 0) return wrong("has the unknown dtype " + entry.dtype.substr(0, 40));
    const auto shape = Counts(fields, "shape");
    const auto offsets = Counts(fields, "data_offsets");
    if (!shape) return wrong("has no shape of whole numbers");
    if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1] ||
        (*offsets)[1] > bytes() - data_begin) {
      return wrong("has data_offsets outside of the file, which is perhaps cut short");
    }
    entry.shape = *shape;
    entry.begin = data_begin + (*offsets)[0];
    entry.bytes = (*offsets)[1] - (*offsets)[0];
    if (Product(entry.shape, element_bytes) != entry.bytes) {
      return wrong(fmt::format("has {} bytes, which is not what its shape and dtype {} take",
                               entry.bytes, entry.dtype));
    }
    entries_.emplace(name, std::move(entry));
  }
  return CheckOffsets(data_begin);
}

// The tensors follow each other without gaps to the end of the file.
Status SafetensorsFile::CheckOffsets(int64_t data_begin) const {
  std::vector<std::pair<int64_t, const std::string*>> begins;
  for (const auto& [name, entry] : entries_) begins.emplace_back(entry.begin, &name);
  std::ranges::sort(begins, [&](const auto& a, const auto& b) {
    const auto end_of = [&](const auto& one) { return one.first + entries_.at(*one.second).bytes; };
    return std::pair(a.first, end_of(a)) < std::pair(b.first, end_of(b));
  });
  int64_t end = data_begin;
  for (const auto& [begin, name] : begins) {
    if (begin < end) return Wrong("tensor " + *name + " overlaps another");
    if (begin > end) return Wrong("there is a gap before tensor " + *name);
    end = begin + entries_.at(*name).bytes;
  }
  if (end == bytes()) return Status::Ok();
  return Wrong(fmt::format("{} bytes after the last tensor belong to none", bytes() - end));
}

SafetensorsFile::Range SafetensorsFile::RangeOf(const Entry& entry, int64_t first, int64_t count) {
  const int64_t element_bytes = checkpoint::BytesOfDType(entry.dtype);
  SHARDSCOPE_CHECK(first >= 0 && count >= 0 && (first + count) * element_bytes <= entry.bytes);
  return {entry.begin + first * element_bytes, count * element_bytes};
}

bool SafetensorsFile::Read(const Entry& entry, int64_t first, const at::Tensor& values) const {
  constexpr int64_t kPiece = int64_t{1} << 20;  // so few pages are in the process at once
  SHARDSCOPE_CHECK(entry.is_float());
  const at::ScalarType type = *ScalarTypeOfSafetensors(entry.dtype);
  bool are_finite = true;
  for (int64_t at = 0; at < values.numel(); at += kPiece) {
    const int64_t count = std::min(kPiece, values.numel() - at);
    const Range range = RangeOf(entry, first + at, count);
    ahead_->WaitFor(static_cast<size_t>(range.begin), static_cast<size_t>(range.bytes));
    auto* const to = static_cast<std::byte*>(values.mutable_data_ptr()) +
                     at * static_cast<int64_t>(values.element_size());
    are_finite &=
        ConvertValues(mapped_.bytes().data() + range.begin, type, count, values.scalar_type(), to);
    mapped_.Forget(static_cast<size_t>(range.begin), static_cast<size_t>(range.bytes));
  }
  return are_finite;
}

void SafetensorsFile::WillRead(const Entry& entry, int64_t first, int64_t count) const {
  const Range range = RangeOf(entry, first, count);
  ahead_->Ask(static_cast<size_t>(range.begin), static_cast<size_t>(range.bytes));
}

void SafetensorsFile::HasRead(const Entry& entry, int64_t first, int64_t count) const {
  const Range range = RangeOf(entry, first, count);
  mapped_.Forget(static_cast<size_t>(range.begin), static_cast<size_t>(range.bytes));
}

}  // namespace shardscope::model
