// A row of table capability, whose status is one of words::CapabilityStatus.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/base/words.h"
#include "trace/schema/rows.h"

namespace shardscope::schema {

// What `source` could do, why not more (empty if it is fully on), and how many records it lost. Its
// id is for its writer to set.
inline CapabilityRow CapabilityRowOf(std::string_view source, words::CapabilityStatus status,
                                     std::string_view reason = {}, int64_t dropped = 0) {
  return {{}, std::string(source), std::string(Name(status)), std::string(reason), dropped};
}

}  // namespace shardscope::schema
