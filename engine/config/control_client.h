// ControlClient: the app's end of a run's control socket.
//
// Threads: Send and Poll on the owner's thread; a thread of its own does the socket. Never blocks
// the caller.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/config/control.h"

namespace shardscope::config {

class ControlClient {
 public:
  // Connects to the socket named in `run_folder`/run.toml (key run.control_socket). Error: no run
  // there, or it does not listen.
  static Result<std::unique_ptr<ControlClient>> Connect(const std::string& run_folder);
  virtual ~ControlClient() = default;

  // Queues a request; returns its id.
  virtual int64_t Send(const std::variant<SetRequest, DoRequest, GetRequest>& body) = 0;

  // The next response that came, if any.
  virtual std::optional<Response> Poll() = 0;

  // False once the other end has gone.
  virtual bool connected() const = 0;
};

}  // namespace shardscope::config
