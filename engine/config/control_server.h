// ControlServer: the trainer's end. Listens on a Unix socket (0600) in $XDG_RUNTIME_DIR or a
// private temporary folder and hands complete, parsed requests to a handler; garbage gets an error
// line back.
//
// Threads: one of its own, on which the handler is called.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/config/control.h"
#include "trace/base/time.h"

namespace shardscope::config {

// How long a client may stay that has sent no valid request while others find no place, or that
// does not read what it asked for.
inline constexpr int64_t kControlPatienceNs = 5 * kNsPerSecond;

class ControlServer {
 public:
  using Handler = std::function<Response(const Request&)>;

  // `run` is the name that the hello line gives. Error: no folder to put a socket into, path over
  // 107 bytes.
  static Result<std::unique_ptr<ControlServer>> Listen(const std::string& run, Handler handler,
                                                       int64_t patience_ns = kControlPatienceNs);
  virtual ~ControlServer() = default;  // closes all connections and removes the socket

  virtual const std::string& socket_path() const = 0;
};

}  // namespace shardscope::config
