// The machine that this process runs on.
#pragma once

#include <string>

namespace shardscope {

// Its name, as in the names of trace files; "host" if it has none. Any thread.
std::string HostName();

}  // namespace shardscope
