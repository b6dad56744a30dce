// Where a control socket is: $XDG_RUNTIME_DIR, or a private temporary folder.
#pragma once

#include <string>

#include "trace/base/status.h"

namespace shardscope::config {

struct SocketPlace {
  std::string path;
  std::string own_folder;  // made for the socket, and removed with it; empty in $XDG_RUNTIME_DIR
};

// A new place for a socket of this process. Clears away what killed processes of this user have
// left beside it. Error: no folder can be made.
Result<SocketPlace> ChooseSocketPlace();

void RemoveSocketPlace(const SocketPlace& place);

}  // namespace shardscope::config
