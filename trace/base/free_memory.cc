#include "trace/base/free_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace shardscope {
namespace {

constexpr int64_t kUnknown = INT64_MAX;

// The number behind `key` in a file of such lines.
std::optional<int64_t> ValueIn(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  for (std::string rest; file >> word >> value; std::getline(file, rest)) {
    if (word == key) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // none, or "max"
}

int64_t AvailableBytes() {
  const std::optional<int64_t> kibibytes = ValueIn("/proc/meminfo", "MemAvailable:");
  return kibibytes ? *kibibytes * 1024 : kUnknown;
}

// Of version 2, as containers see their own: the files are at the root of what they see. What it
// holds of files is given back when memory is asked for.
int64_t LeftOfControlGroup() {
  const std::string root = "/sys/fs/cgroup/";
  const std::optional<int64_t> most = NumberIn(root + "memory.max");
  const std::optional<int64_t> used = NumberIn(root + "memory.current");
  if (!most || !used) return kUnknown;
  const int64_t files = ValueIn(root + "memory.stat", "inactive_file").value_or(0) +
                        ValueIn(root + "memory.stat", "active_file").value_or(0);
  return std::max<int64_t>(*most - *used + files, 0);
}

}  // namespace

int64_t FreeMemoryBytes() { return std::min(AvailableBytes(), LeftOfControlGroup()); }

int64_t OwnMemoryBytes() {
  std::ifstream file("/proc/self/statm");  // in pages
  int64_t whole = 0;
  int64_t resident = 0;
  return file >> whole >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

int64_t MemoryToTake(bool own_goes) {
  const int64_t free_bytes = FreeMemoryBytes();
  if (free_bytes == INT64_MAX) return INT64_MAX;
  return (free_bytes + (own_goes ? OwnMemoryBytes() : 0)) / 4 * 3;
}

}  // namespace shardscope
