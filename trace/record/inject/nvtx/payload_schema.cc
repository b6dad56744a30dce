#include "trace/record/inject/nvtx/payload_schema.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "trace/base/byte_width.h"
#include "trace/base/round_up.h"

namespace shardscope::inject {
namespace {

using Type = PayloadField::Type;

constexpr uint64_t kMaxPayloadBytes = 1 << 20;  // what a schema places beyond is not read
constexpr uint64_t kMaxNameBytes = 64;
constexpr size_t kMaxEnumNames = 256;
constexpr uint64_t kMaxTextBytes = 64;  // of one value
constexpr size_t kMaxElements = 8;      // shown of an array
constexpr size_t kMaxAllBytes = 256;    // of all values

// What a type is in memory, with the C library and compiler of this platform (LP64).
struct Layout {
  Type type = Type::kUnsigned;
  uint64_t bytes = 0;
  uint64_t alignment = 1;
  bool is_read = true;
};

std::optional<Layout> LayoutOf(uint64_t type) {
  const auto number = [](Type kind, uint64_t bytes) { return Layout{kind, bytes, bytes, true}; };
  const auto skipped = [](uint64_t bytes) { return Layout{Type::kUnsigned, bytes, bytes, false}; };
  switch (type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR8:
      return number(Type::kText, 1);
    case NVTX_PAYLOAD_ENTRY_TYPE_UCHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT8:
    case NVTX_PAYLOAD_ENTRY_TYPE_BYTE:
      return number(Type::kUnsigned, 1);
    case NVTX_PAYLOAD_ENTRY_TYPE_INT8:
      return number(Type::kSigned, 1);
    case NVTX_PAYLOAD_ENTRY_TYPE_SHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT16:
      return number(Type::kSigned, 2);
    case NVTX_PAYLOAD_ENTRY_TYPE_USHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT16:
      return number(Type::kUnsigned, 2);
    case NVTX_PAYLOAD_ENTRY_TYPE_INT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT32:
      return number(Type::kSigned, 4);
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY:
    case NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB:
    case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32:
      return number(Type::kUnsigned, 4);
    case NVTX_PAYLOAD_ENTRY_TYPE_LONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT64:
      return number(Type::kSigned, 8);
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_SIZE:
    case NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID:
    case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64:
      return number(Type::kUnsigned, 8);
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32:
      return number(Type::kFloat, 4);
    case NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64:
      return number(Type::kFloat, 8);
    case NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS:
      return number(Type::kAddress, 8);
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR16:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16:
    case NVTX_PAYLOAD_ENTRY_TYPE_BF16:
      return skipped(2);
    case NVTX_PAYLOAD_ENTRY_TYPE_WCHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR32:
    case NVTX_PAYLOAD_ENTRY_TYPE_TF32:
      return skipped(4);
    case NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE:
      return skipped(8);
    case NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT128:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT128:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT128:
      return skipped(16);
    default:
      return std::nullopt;
  }
}

bool IsText(uint64_t type) {
  return type == NVTX_PAYLOAD_ENTRY_TYPE_CSTRING || type == NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8;
}

std::string NameOf(const char* name) {
  return name == nullptr ? "" : std::string(name, strnlen(name, kMaxNameBytes));
}

// Places the entries of a schema one after the other.
class Builder {
 public:
  Builder(uint64_t pack, const FindPayloadType& find) : pack_(pack), find_(find) {}

  void Add(const nvtxPayloadSchemaEntry_t& entry);
  PayloadSchema Take(uint64_t static_bytes);

 private:
  // An entry of known size: where it lies. Null: that is not known, or absurd.
  std::optional<uint64_t> Place(const nvtxPayloadSchemaEntry_t& entry, const Layout& element,
                                uint64_t count);
  void AddField(PayloadField field);
  void AddStructure(const std::string& name, const PayloadSchema& inner, uint64_t offset);

  const uint64_t pack_;  // 0: none
  const FindPayloadType& find_;
  PayloadSchema schema_;
  std::optional<uint64_t> end_ = 0;  // of the entry before
};

std::optional<uint64_t> Builder::Place(const nvtxPayloadSchemaEntry_t& entry, const Layout& element,
                                       uint64_t count) {
  const uint64_t alignment = pack_ > 0 ? std::min(pack_, element.alignment) : element.alignment;
  const bool is_placed = end_.has_value() || entry.offset > 0;
  if (!is_placed || element.bytes == 0 || count > kMaxPayloadBytes / element.bytes ||
      entry.offset > kMaxPayloadBytes) {
    end_.reset();
    return std::nullopt;
  }
  const uint64_t offset = entry.offset > 0 ? entry.offset : RoundUp(*end_, alignment);
  end_ = offset + element.bytes * count;
  if (*end_ > kMaxPayloadBytes) {
    end_.reset();
    return std::nullopt;
  }
  schema_.bytes = std::max(schema_.bytes, *end_);
  schema_.alignment = std::max(schema_.alignment, alignment);
  return offset;
}

void Builder::AddField(PayloadField field) {
  if (schema_.fields.size() < kMaxPayloadFields) schema_.fields.push_back(std::move(field));
}

void Builder::AddStructure(const std::string& name, const PayloadSchema& inner, uint64_t offset) {
  for (PayloadField field : inner.fields) {
    field.offset += offset;
    if (!name.empty()) field.name = (name + "." + field.name).substr(0, kMaxNameBytes);
    AddField(std::move(field));
  }
}

void Builder::Add(const nvtxPayloadSchemaEntry_t& entry) {
  constexpr uint64_t kElsewhere =
      NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE | NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE;
  constexpr uint64_t kArrays = 7 << 4;
  const uint64_t array = entry.flags & kArrays;
  const bool is_pointer = (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER) != 0;
  const bool is_hidden = (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_HIDE) != 0;
  const PayloadType registered =
      entry.type < NVTX_PAYLOAD_SCHEMA_ID_STATIC_START ? PayloadType() : find_(entry.type);
  PayloadField field{.name = NameOf(entry.name)};
  std::optional<Layout> element = LayoutOf(entry.type);
  if (IsText(entry.type)) {
    const bool is_embedded = !is_pointer && entry.arrayOrUnionDetail > 0 &&
                             (array == 0 || array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE);
    const bool is_one = array == 0 || array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED;
    element = is_embedded
                  ? Layout{Type::kText, 1, 1, true}
                  : Layout{Type::kTextPointer, 8, 8, is_one && entry.arrayOrUnionDetail == 0};
    field.count = is_embedded ? entry.arrayOrUnionDetail : 1;
    field.is_array = is_embedded;
  } else if (is_pointer) {
    element = Layout{Type::kAddress, 8, 8, false};
  } else if (registered.values != nullptr) {
    element = Layout{Type::kUnsigned, registered.values->bytes, registered.values->bytes, true};
    field.values = registered.values;
  } else if (registered.schema != nullptr) {
    element = Layout{Type::kUnsigned, registered.schema->bytes, registered.schema->alignment, true};
  }
  const bool is_fixed = array == 0 || array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE;
  if (!element || (entry.flags & kElsewhere) != 0 ||
      (!is_fixed && !is_pointer && !IsText(entry.type))) {
    end_.reset();
    return;
  }
  if (!is_pointer && array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE && !IsText(entry.type)) {
    field.count = entry.arrayOrUnionDetail;
    field.is_array = true;
  }
  const std::optional<uint64_t> offset = Place(entry, *element, field.count);
  if (!offset || !element->is_read || is_hidden) return;
  if (registered.schema != nullptr) {
    if (!field.is_array) AddStructure(field.name, *registered.schema, *offset);
    return;
  }
  field.type = element->type;
  field.bytes = element->bytes;
  field.offset = *offset;
  AddField(std::move(field));
}

PayloadSchema Builder::Take(uint64_t static_bytes) {
  schema_.bytes = RoundUp(schema_.bytes, schema_.alignment);
  if (static_bytes <= kMaxPayloadBytes) schema_.bytes = std::max(schema_.bytes, static_bytes);
  return std::move(schema_);
}

// What is printed of text from somewhere: the rest of a name goes on behind it.
std::string Printable(std::string text) {
  for (char& one : text) {
    if (static_cast<unsigned char>(one) < ' ' || one == '\x7f') one = '?';
  }
  return text;
}

// Up to its end, or the first bytes of it. By the kernel, page by page: an address may be wrong.
std::string TextAt(uint64_t address) {
  constexpr uint64_t kPageBytes = 4096;
  std::array<char, kMaxTextBytes> text = {};
  const uint64_t first = std::min(kMaxTextBytes, kPageBytes - address % kPageBytes);
  iovec to = {text.data(), text.size()};
  std::array<iovec, 2> from = {
      iovec{reinterpret_cast<void*>(address), first},
      iovec{reinterpret_cast<void*>(address + first), kMaxTextBytes - first}};
  const ssize_t read = address == 0 ? -1
                                    : process_vm_readv(getpid(), &to, 1, from.data(),
                                                       from[1].iov_len == 0 ? 1 : 2, 0);
  if (read < 0) return "?";
  return Printable(std::string(text.data(), strnlen(text.data(), static_cast<size_t>(read))));
}

std::string ValueText(const PayloadField& field, const std::byte* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, std::min<uint64_t>(field.bytes, sizeof(bits)));
  switch (field.type) {
    case Type::kFloat: {
      float single = 0;
      double value = 0;
      if (field.bytes == sizeof(single)) {
        std::memcpy(&single, at, sizeof(single));
        return fmt::format("{}", single);
      }
      std::memcpy(&value, at, sizeof(value));
      return fmt::format("{}", value);
    }
    case Type::kSigned: {
      const auto unused = static_cast<int>(64 - 8 * field.bytes);
      return fmt::format("{}", static_cast<int64_t>(bits << unused) >> unused);
    }
    case Type::kAddress:
      return fmt::format("{:#x}", bits);
    case Type::kTextPointer:
      return TextAt(bits);
    case Type::kText:
    case Type::kUnsigned:
      break;
  }
  if (field.values != nullptr) {
    const auto name = field.values->names.find(bits);
    if (name != field.values->names.end()) return name->second;
  }
  return fmt::format("{}", bits);
}

std::string FieldText(const PayloadField& field, const std::byte* at) {
  if (field.type == Type::kText) {
    const auto* const text = reinterpret_cast<const char*>(at);
    return Printable(std::string(text, strnlen(text, std::min(field.count, kMaxTextBytes))));
  }
  if (!field.is_array) return ValueText(field, at);
  std::string text = "[";
  const uint64_t shown = std::min<uint64_t>(field.count, kMaxElements);
  for (uint64_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += ValueText(field, at + i * field.bytes);
  }
  return text + (shown < field.count ? ", ...]" : "]");
}

}  // namespace

PayloadSchema MakePayloadSchema(const nvtxPayloadSchemaAttr_t& attributes,
                                const FindPayloadType& find) {
  constexpr uint64_t kNeeded = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                               NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                               NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES;
  const auto has = [&](uint64_t field) { return (attributes.fieldMask & field) == field; };
  if (!has(kNeeded) || attributes.type != NVTX_PAYLOAD_SCHEMA_TYPE_STATIC ||
      attributes.entries == nullptr) {
    return {};
  }
  Builder builder(has(NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT) ? attributes.packAlign : 0, find);
  const size_t num_entries = std::min(attributes.numEntries, kMaxPayloadFields);
  for (size_t i = 0; i < num_entries; ++i) builder.Add(attributes.entries[i]);
  return builder.Take(has(NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE) ? attributes.payloadStaticSize
                                                                      : 0);
}

PayloadEnum MakePayloadEnum(const nvtxPayloadEnumAttr_t& attributes) {
  constexpr uint64_t kNeeded =
      NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES;
  PayloadEnum made;
  if ((attributes.fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE) != 0) {
    const size_t bytes = attributes.sizeOfEnum;
    const bool is_number = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    made.bytes = is_number ? bytes : 0;  // 0: where the next field begins is unknown
  }
  if ((attributes.fieldMask & kNeeded) != kNeeded || attributes.entries == nullptr) return made;
  const size_t num_entries = std::min(attributes.numEntries, kMaxEnumNames);
  // A negative value comes as wide as a number of 64 bits.
  const uint64_t mask = ByteMask(made.bytes);
  for (size_t i = 0; i < num_entries; ++i) {
    const nvtxPayloadEnum_t& entry = attributes.entries[i];
    if (entry.name != nullptr) made.names.try_emplace(entry.value & mask, NameOf(entry.name));
  }
  return made;
}

PayloadSchema SchemaOfType(uint64_t type, size_t size) {
  const bool is_text = IsText(type);
  const std::optional<Layout> element =
      is_text ? LayoutOf(NVTX_PAYLOAD_ENTRY_TYPE_CHAR) : LayoutOf(type);
  PayloadSchema schema;
  if (!element || !element->is_read) return schema;
  // How long a text of unknown length is only its end says, which may be missing.
  const uint64_t count = size == SIZE_MAX ? 1 : size / element->bytes;
  if (count == 0 || count > kMaxPayloadBytes || (is_text && size == SIZE_MAX)) return schema;
  PayloadField field{.type = element->type, .bytes = element->bytes, .count = count};
  field.is_array = count > 1;
  schema.bytes = element->bytes * count;
  schema.fields.push_back(std::move(field));
  return schema;
}

std::string PayloadText(const PayloadSchema& schema, const void* payload, size_t size) {
  if (payload == nullptr) return "";
  if (size == SIZE_MAX) size = schema.bytes;
  const auto* const data = static_cast<const std::byte*>(payload);
  std::string text;
  for (const PayloadField& field : schema.fields) {
    if (field.bytes == 0 || field.offset > size ||
        field.count > (size - field.offset) / field.bytes) {
      continue;
    }
    std::string value = FieldText(field, data + field.offset);
    if (!field.name.empty()) value = field.name + "=" + value;
    const std::string_view between = text.empty() ? "" : ", ";
    if (text.size() + between.size() + value.size() > kMaxAllBytes) return text + ", ...";
    text += between;
    text += value;
  }
  return text;
}

}  // namespace shardscope::inject
