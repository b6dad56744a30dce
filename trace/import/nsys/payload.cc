#include "trace/import/nsys/payload.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>

#include "trace/base/number_at.h"

namespace shardscope::imports {
namespace {

using Json = nlohmann::json;

// In front of the values: domain, schema, size of the payload, size of all, 8 bytes each.
constexpr size_t kPayloadHeadBytes = 32;
constexpr size_t kSchemaAt = 8;
constexpr size_t kMostFields = 64;
constexpr int kMostDepth = 3;

// Calls `take` with a value of the type that an entry's type stands for; not for texts, addresses
// and others.
template <typename Take>
void WithType(int64_t type, const Take& take) {
  switch (type) {
    case 3:
    case 13:
      return take(int16_t{});
    case 4:
    case 14:
      return take(uint16_t{});
    case 5:
    case 15:
      return take(int32_t{});
    case 6:
    case 16:
      return take(uint32_t{});
    case 7:
    case 9:
    case 17:
      return take(int64_t{});
    case 8:
    case 10:
    case 18:
    case 22:
      return take(uint64_t{});
    case 11:
      return take(int8_t{});
    case 12:
      return take(uint8_t{});
    case 19:
      return take(float{});
    case 20:
      return take(double{});
    default:
      return;
  }
}

void AddNumbers(const Json& object, int depth, Payload* payload) {
  if (!object.is_object()) return;
  for (const auto& [name, value] : object.items()) {
    if (value.is_number_float()) {
      payload->Add(name, value.get<double>());
    } else if (value.is_number_unsigned()) {
      payload->Add(name, static_cast<int64_t>(value.get<uint64_t>()));
    } else if (value.is_number_integer()) {
      payload->Add(name, value.get<int64_t>());
    } else if (depth < kMostDepth) {
      AddNumbers(value, depth + 1, payload);
    }
  }
}

}  // namespace

void Payload::Add(std::string_view name, int64_t value) {
  if (fields_.size() < kMostFields)
    fields_.push_back({std::string(name), static_cast<double>(value), value});
}

void Payload::Add(std::string_view name, double value) {
  if (fields_.size() < kMostFields) fields_.push_back({std::string(name), value, 0});
}

int64_t Payload::WholeOf(std::string_view name) const {
  const auto field = std::ranges::find(fields_, name, &Field::name);
  return field == fields_.end() ? -1 : field->whole;
}

Payload PayloadOfJson(std::string_view text) {
  Payload payload;
  const Json value = Json::parse(text, nullptr, false);
  if (!value.is_discarded()) AddNumbers(value, 0, &payload);
  return payload;
}

Result<PayloadSchemas> PayloadSchemas::Read(ExportFile* file) {
  PayloadSchemas schemas;
  constexpr std::string_view kTable = "NVTX_PAYLOAD_SCHEMA_ENTRIES";
  if (!file->Has(kTable)) return schemas;
  // An array or an optional value has flags. Each process registers schemas: the same.
  SHARDSCOPE_ASSIGN_OR_RETURN(
      store::Statement rows,
      file->Select(kTable, {"schemaId", "type", "name", "offset", "flags", "arrayOrUnionDetail"}));
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_row, rows.Step());
    if (!is_row) return schemas;
    if (rows.Integer(4) != 0 || rows.Integer(5) != 0 || rows.Integer(3) < 0) continue;
    std::vector<Entry>& entries = schemas.schemas_[static_cast<uint64_t>(rows.Integer(0))];
    Entry entry{std::string(rows.Text(2)), rows.Integer(1), static_cast<uint64_t>(rows.Integer(3))};
    const auto same = [&](const Entry& known) { return known.name == entry.name; };
    if (entries.size() < kMostFields && std::ranges::none_of(entries, same))
      entries.push_back(std::move(entry));
  }
}

Payload PayloadSchemas::Decode(std::string_view binary) const {
  static_assert(std::endian::native == std::endian::little);
  Payload payload;
  const auto schema = NumberAt<uint64_t>(binary, kSchemaAt);
  if (!schema) return payload;
  const auto found = schemas_.find(*schema);
  if (found == schemas_.end() || binary.size() < kPayloadHeadBytes) return payload;
  const std::string_view values = binary.substr(kPayloadHeadBytes);
  for (const Entry& entry : found->second) {
    WithType(entry.type, [&]<typename Number>(Number) {
      const auto number = NumberAt<Number>(values, entry.offset);
      if (!number) return;
      if constexpr (std::floating_point<Number>) {
        payload.Add(entry.name, static_cast<double>(*number));
      } else {
        payload.Add(entry.name, static_cast<int64_t>(*number));
      }
    });
  }
  return payload;
}

}  // namespace shardscope::imports
