// What tests compare values as.
#pragma once

#include <fmt/format.h>

#include <string>

#include "trace/base/pickle/value.h"

namespace shardscope::pickle {

// As Python's repr(), of what is small.
inline std::string Repr(const Document& document, const Value& value, int depth = 0) {
  if (value.is_text()) return fmt::format("'{}'", value.text());
  if (value.kind() == ValueKind::kBytes) return fmt::format("b'{}'", value.text());
  if (!value.is_container()) return Describe(value);
  if (depth > 5) return "...";
  std::string text = value.kind() == ValueKind::kTuple  ? "("
                     : value.kind() == ValueKind::kList ? "["
                                                        : "{";
  bool is_key = value.kind() == ValueKind::kDict;
  for (const Value& item : document.Items(value)) {
    text += Repr(document, item, depth + 1);
    text += is_key ? ":" : ",";
    if (value.kind() == ValueKind::kDict) is_key = !is_key;
  }
  return text + (value.kind() == ValueKind::kTuple  ? ")"
                 : value.kind() == ValueKind::kList ? "]"
                                                    : "}");
}

}  // namespace shardscope::pickle
