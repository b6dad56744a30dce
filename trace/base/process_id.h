// Other processes of this machine, by their number.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <csignal>

namespace shardscope {

// Whether no process of this machine has the number `process` any more. One that must not be sent
// signals is there. false: `process` is no number of one.
inline bool IsProcessGone(pid_t process) {
  return process > 0 && kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace shardscope
