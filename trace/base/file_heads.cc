#include "trace/base/file_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "trace/base/pickle/unpickle.h"
#include "trace/base/text.h"

namespace shardscope {
namespace {

// Whether a pickle or a JSON object begins with `head`, in which each of `keys` stands as a text.
bool HasKeys(std::string_view head, std::initializer_list<std::string_view> keys) {
  const size_t first = head.find_first_not_of(kBeforeJson);
  const bool is_json = first != std::string_view::npos && head[first] == '{';
  const bool is_pickle = pickle::IsPickle(head);
  if (!is_json && !is_pickle) return false;
  return std::all_of(keys.begin(), keys.end(), [&](std::string_view key) {
    if (is_json) return Contains(head, fmt::format("\"{}\"", key));
    // In a pickle its length stands in front of a text, in one byte, or in four.
    const auto length = static_cast<char>(key.size());
    for (size_t at = head.find(key); at != std::string_view::npos; at = head.find(key, at + 1)) {
      const bool is_short = at >= 1 && head[at - 1] == length;
      const bool is_long = at >= 4 && head[at - 4] == length && head[at - 3] == 0 &&
                           head[at - 2] == 0 && head[at - 1] == 0;
      if (is_short || is_long) return true;
    }
    return false;
  });
}

}  // namespace

bool IsKineto(std::string_view head) {
  const size_t first = head.find_first_not_of(kBeforeJson);
  if (first == std::string_view::npos) return false;
  if (head[first] != '{' && head[first] != '[') return false;
  // Beside the events may stand more than a head holds.
  return Contains(head, "\"traceEvents\"") || Contains(head, "\"ph\"") ||
         (Contains(head, "\"schemaVersion\"") && Contains(head, "\"deviceProperties\""));
}

bool IsMemorySnapshot(std::string_view head) {
  // What comes first in the file; the other may come after more than a head holds.
  if (HasKeys(head, {"traceEvents"})) return false;
  return HasKeys(head, {"device_traces"}) ||
         (HasKeys(head, {"segments"}) &&
          (HasKeys(head, {"total_size"}) || HasKeys(head, {"blocks"})));
}

bool IsFlightRecorder(std::string_view head) {
  if (HasKeys(head, {"collective_seq_id"}) && HasKeys(head, {"profiling_name"})) return true;
  return HasKeys(head, {"version", "pg_config"}) &&
         (HasKeys(head, {"comm_lib_version"}) || HasKeys(head, {"nccl_version"}) ||
          HasKeys(head, {"pg_status"}) || HasKeys(head, {"entries"}));
}

bool IsNsysReport(std::string_view head) {
  return head.starts_with("NVIDIA Tegra Profiler Report");
}

}  // namespace shardscope
