// PayloadSchema: how the bytes of a structured payload of NVTX are read, as the library that sends
// them has registered it (nvToolsExtPayload.h).
//
// What is read: static layouts whose fields are numbers, enumerations, arrays of fixed size of
// these, texts, and structures of such, registered before. Other fields are passed over; of a field
// without an offset that follows one of unknown size has no known place, so it is passed over,
// too. This runs in a foreign process: nothing in a schema is trusted. A field that does not
// lie in the payload has no value, and a pointer to text is followed by the kernel, for which a
// wrong one is an error and no crash.
#pragma once

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace shardscope::inject {

struct PayloadEnum {
  size_t bytes = 4;
  std::map<uint64_t, std::string> names;  // by value

  bool operator==(const PayloadEnum&) const = default;
};

struct PayloadField {
  enum class Type : uint8_t { kUnsigned, kSigned, kFloat, kAddress, kText, kTextPointer };

  std::string name;  // may be empty
  Type type = Type::kUnsigned;
  uint64_t offset = 0;
  uint64_t bytes = 0;  // of an element: 1, 2, 4 or 8
  uint64_t count = 1;  // elements
  bool is_array = false;
  const PayloadEnum* values = nullptr;  // borrowed; null: it is no enumeration

  bool operator==(const PayloadField&) const = default;
};

// Structures within it are flattened: their fields are "outer.inner".
struct PayloadSchema {
  uint64_t bytes = 0;
  uint64_t alignment = 1;
  std::vector<PayloadField> fields;  // at most kMaxPayloadFields

  bool operator==(const PayloadSchema&) const = default;
};
inline constexpr size_t kMaxPayloadFields = 64;

// What else is registered under a number: one of them, or neither.
struct PayloadType {
  const PayloadSchema* schema = nullptr;
  const PayloadEnum* values = nullptr;
};
using FindPayloadType = std::function<PayloadType(uint64_t id)>;

// No fields: it is of a kind that is not read. A schema can hold only what `find` finds.
PayloadSchema MakePayloadSchema(const nvtxPayloadSchemaAttr_t& attributes,
                                const FindPayloadType& find);
PayloadEnum MakePayloadEnum(const nvtxPayloadEnumAttr_t& attributes);
// That of a payload which is one value, or an array of values, of a type of NVTX's own.
PayloadSchema SchemaOfType(uint64_t type, size_t size);

// "name=value, name=[1, 2, 3]". `size` SIZE_MAX: as in the schema.
std::string PayloadText(const PayloadSchema& schema, const void* payload, size_t size);

}  // namespace shardscope::inject
