#include "trace/import/format.h"
#include "trace/import/kineto/kineto.h"

namespace shardscope::imports {

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {"kineto", "a PyTorch profiler trace", IsKineto, ReadKineto, true},
  };
  return formats;
}

const Format* FormatOf(std::string_view head) {
  for (const Format& format : Formats()) {
    if (format.recognises(head)) return &format;
  }
  return nullptr;
}

}  // namespace shardscope::imports
