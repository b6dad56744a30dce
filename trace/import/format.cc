#include "trace/import/format.h"

#include "trace/base/file_heads.h"
#include "trace/import/flight_recorder/flight_recorder.h"
#include "trace/import/kineto/kineto.h"
#include "trace/import/memory_snapshot/memory_snapshot.h"
#include "trace/import/nsys/nsys.h"

namespace shardscope::imports {

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {.key = "kineto",
       .title = "a PyTorch profiler trace",
       .recognises = IsKineto,
       .read = ReadKineto,
       .reads_beginnings = true},
      {.key = "memory_snapshot",
       .title = "a PyTorch memory snapshot",
       .recognises = IsMemorySnapshot,
       .read = ReadMemorySnapshot,
       .is_addition = true},
      {.key = "flight_recorder",
       .title = "a dump of PyTorch's flight recorder",
       .recognises = IsFlightRecorder,
       .read = ReadFlightRecorder,
       .is_addition = true},
      {.key = "nsys",
       .title = "an SQLite export of Nsight Systems",
       .recognises = IsNsys,
       .read = ReadNsys,
       .confirms = IsNsysFile},
  };
  return formats;
}

const Format* FormatOf(std::string_view head, const Input& input) {
  for (const Format& format : Formats()) {
    if (!format.recognises(head)) continue;
    return format.confirms == nullptr || format.confirms(input) ? &format : nullptr;
  }
  return nullptr;
}

}  // namespace shardscope::imports
