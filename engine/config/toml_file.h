// A TOML file as toml++'s tables: the one place where files that people write are parsed. toml++ is
// built without exceptions and header-only, whatever the package's shared library was built with;
// nothing else of toml++ may be included before this.
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
// Some texts ("[/") break assertions of the parser. They must not end the program, and only an
// exception leads out of there: the one outside the engine's runtime, caught in ParseTomlFile().
namespace shardscope::config {
struct ParserFault {};
[[noreturn]] inline void FailParser() { throw ParserFault(); }
}  // namespace shardscope::config
#define TOML_ASSERT(expr) (static_cast<bool>(expr) ? void() : ::shardscope::config::FailParser())
#include <toml++/toml.h>

#include <cstdint>
#include <string>

#include "trace/base/status.h"

namespace shardscope::config {

// Errors name the file, and the line where there is one.
Result<toml::table> ParseTomlFile(const std::string& path);

inline int64_t LineOf(const toml::node& node) { return node.source().begin.line; }

// To be put behind the file's name and a colon.
inline Status ErrorAt(int64_t line, const std::string& message) {
  return Status::Error(std::to_string(line) + ": " + message);
}

}  // namespace shardscope::config
