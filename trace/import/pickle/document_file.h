// Reads a file that is one pickle or one JSON text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "trace/base/pickle/value.h"
#include "trace/base/status.h"
#include "trace/import/format.h"
#include "trace/import/input.h"

namespace shardscope::imports {

using pickle::Describe;
using pickle::Document;
using pickle::Value;
using pickle::ValueKind;

// Deepest nesting of a JSON text that is read.
inline constexpr size_t kMostJsonDepth = 64;

// All of the input as one Document: a pickle if it begins as one, else JSON. The whole file is in
// memory. Errors name the input; also where it is larger than 4 GiB, or `progress` said to stop.
Result<Document> ReadDocument(const Input& input, const ReadProgress& progress);

// A JSON text alone.
Result<Document> ParseJson(std::string text);

}  // namespace shardscope::imports
