#include "trace/base/host.h"

#include <unistd.h>

#include <array>

namespace shardscope {

std::string HostName() {
  std::array<char, 256> host = {};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "host";
}

}  // namespace shardscope
