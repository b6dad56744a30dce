// Payloads of NVTX events: values of named fields, as the schemas in the file lay them out, or as
// JSON (`nsys export --include-json`).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/status.h"
#include "trace/import/nsys/export_file.h"

namespace shardscope::imports {

// Numbers of a payload, by the names of their fields.
class Payload {
 public:
  struct Field {
    std::string name;
    double value = 0;
    int64_t whole = 0;  // as `value`, exact for integers
  };

  void Add(std::string_view name, int64_t value);
  void Add(std::string_view name, double value);
  const std::vector<Field>& fields() const { return fields_; }
  // -1: it has none of that name.
  int64_t WholeOf(std::string_view name) const;

 private:
  std::vector<Field> fields_;
};

// The numbers in a JSON object, and in objects in it.
Payload PayloadOfJson(std::string_view text);

class PayloadSchemas {
 public:
  static Result<PayloadSchemas> Read(ExportFile* file);

  // Of NVTX_EVENTS.binaryData. What no schema describes is left out.
  Payload Decode(std::string_view binary) const;

 private:
  struct Entry {
    std::string name;
    int64_t type = 0;  // of nvToolsExtPayload.h, NVTX_PAYLOAD_ENTRY_TYPE_...
    uint64_t offset = 0;
  };
  std::map<uint64_t, std::vector<Entry>> schemas_;  // by schemaId
};

}  // namespace shardscope::imports
