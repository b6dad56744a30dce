// Format: what an importer is. There is one for each kind of file; a new one is a folder and an
// entry in format.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"
#include "trace/import/input.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

// How far reading an input is: bytes of its file taken so far. False: stop, it is not needed any
// more.
using ReadProgress = std::function<bool(int64_t position)>;

// What `read` returns when it was stopped.
inline constexpr const char* kCancelled = "cancelled";

// Takes one process of the input; its error ends the reading.
using TakeRecording = std::function<Status(Recording recording)>;

struct Format {
  std::string_view key;    // kineto
  std::string_view title;  // "a PyTorch profiler trace"
  // Whether the first bytes of a file (kHeadBytes, trace/base/file_heads.h) are those of this
  // format.
  bool (*recognises)(std::string_view head);
  Status (*read)(const Input& input, const ReadProgress& progress, const TakeRecording& take);
  // Whether the first bytes of an input are of use without the rest: Input::most_bytes is heeded.
  bool reads_beginnings = false;
  // It tells more of processes that a file of another format may tell of: both become one trace.
  bool is_addition = false;
  // Whether an input that begins like this format is of it: more than a head tells. Null: it is.
  bool (*confirms)(const Input& input) = nullptr;
};

const std::vector<Format>& Formats();

// The format of an input that begins with these bytes; nullptr: none that can be imported.
const Format* FormatOf(std::string_view head, const Input& input);

}  // namespace shardscope::imports
