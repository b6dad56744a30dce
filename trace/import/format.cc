#include "trace/import/format.h"

#include "trace/base/file_heads.h"
#include "trace/import/flight_recorder/flight_recorder.h"
#include "trace/import/kineto/kineto.h"
#include "trace/import/memory_snapshot/memory_snapshot.h"
#include "trace/import/nsys/nsys.h"

namespace shardscope::imports {

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {"kineto", "a PyTorch profiler trace", IsKineto, ReadKineto, true},
      {"memory_snapshot", "a PyTorch memory snapshot", IsMemorySnapshot, ReadMemorySnapshot, false,
       true},
      {"flight_recorder", "a dump of PyTorch's flight recorder", IsFlightRecorder,
       ReadFlightRecorder, false, true},
      {"nsys", "an SQLite export of Nsight Systems", IsNsys, ReadNsys, false, false, IsNsysFile},
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
