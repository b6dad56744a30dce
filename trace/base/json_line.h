// JSON as text: a line of a protocol, or a file. Text in it that is no UTF-8 (a path, a name) is
// written with replacement characters.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace shardscope {

// With the end of the line. What is no UTF-8 must not end the stream.
inline std::string JsonLine(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Indented, with the end of the last line. `Json`: nlohmann::json or nlohmann::ordered_json.
template <typename Json>
std::string JsonText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope
