// JSON as one line of a protocol.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace shardscope {

// With the end of the line. Text that is no UTF-8 (a path, a name) is sent with replacement
// characters rather than not at all: it must not end the stream.
inline std::string JsonLine(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope
