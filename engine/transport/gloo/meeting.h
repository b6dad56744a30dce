// Meeting: before ranks that are processes exchange anything, they find out whether all have come
// and were told the same.
#pragma once

#include <cstdint>
#include <string>

#include "engine/transport/gloo/gloo_transport.h"

namespace shardscope::transport {

class Store;

// How long a process waits for the others to start. Tells the user once, after a few seconds, for
// whom.
class Patience {
 public:
  // `process` outlives this.
  Patience(const GlooProcess& process, int64_t timeout_ns);

  bool IsOver() const { return LeftNs() <= 0; }
  int64_t LeftNs() const;
  int64_t timeout_ns() const { return timeout_ns_; }
  // Sleeps for a moment; says that it waits for `whom` when it is time to.
  void Wait(const std::string& whom);

 private:
  const GlooProcess& process_;
  const int64_t timeout_ns_;
  const int64_t start_ns_;
  bool has_told_ = false;
};

// "10.0.0.1:29500", of the variables of a launcher.
std::string PlaceOf(const GlooProcess& process);

// Returns when all ranks have come. Throws TransportError, in all processes that are there, with
// what is wrong: two WORLD_SIZEs, two processes with one RANK, ranks that do not come in time.
void Meet(const GlooProcess& process, Store* store, Patience* patience);

// Has those who are at the meeting, or come to it in time, leave it with `reason`: this process
// does not come. Where it serves the store it waits for them. Nothing if another process of this
// rank has come.
void Refuse(const GlooProcess& process, const std::string& reason, Store* store,
            const Patience& patience);

}  // namespace shardscope::transport
