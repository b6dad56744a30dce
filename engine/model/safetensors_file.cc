#include "engine/model/safetensors_file.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/checkpoint/safetensors.h"
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

template <typename T>
void Widen(const std::byte* data, std::span<double> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;  // the file aligns nothing
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    if constexpr (std::is_arithmetic_v<T>) {
      values[i] = static_cast<double>(value);
    } else {
      values[i] = static_cast<double>(static_cast<float>(value));
    }
  }
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

void SafetensorsFile::Read(const Entry& entry, int64_t first, std::span<double> values) const {
  const int64_t element_bytes = checkpoint::BytesOfDType(entry.dtype);
  const auto count = static_cast<int64_t>(values.size());
  SHARDSCOPE_CHECK(first >= 0 && (first + count) * element_bytes <= entry.bytes);
  const int64_t begin = entry.begin + first * element_bytes;
  const std::byte* const data = mapped_.bytes().data() + begin;
  if (entry.dtype == "F32") {
    Widen<float>(data, values);
  } else if (entry.dtype == "F64") {
    Widen<double>(data, values);
  } else if (entry.dtype == "F16") {
    Widen<c10::Half>(data, values);
  } else {
    SHARDSCOPE_CHECK(entry.dtype == "BF16");
    Widen<c10::BFloat16>(data, values);
  }
  mapped_.Forget(static_cast<size_t>(begin), static_cast<size_t>(count * element_bytes));
}

}  // namespace shardscope::model
