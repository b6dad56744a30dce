#include "engine/runtime/memory/resident_memory.h"

#include <unistd.h>

#include <fstream>

namespace shardscope::runtime {

int64_t ResidentBytes() {
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  std::ifstream file("/proc/self/statm");
  if (!(file >> total_pages >> resident_pages)) return -1;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace shardscope::runtime
