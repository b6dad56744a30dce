// Mesh: one rank's connections to all others, through c10d::ProcessGroupGloo. Sends and receives
// plain memory without copying it; collectives are GlooTransport's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/transport/gloo/store.h"

namespace shardscope::transport {

enum class TransferEnd : uint8_t {
  kDone,     // received; or sent: the memory may be written again
  kTimeout,  // this and all other connections of the rank are closed by it
  kClosed,   // a rank closed the connection, or died
};

// A send or receive that is under way. Its memory must stay until it has ended or is destroyed.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Not later than `deadline_ns`.
  virtual TransferEnd Wait(int64_t deadline_ns) = 0;
};

// Threads: any, and calls of several threads go on side by side.
class Mesh {
 public:
  // Where a mesh listens.
  struct Place {
    int rank = 0;
    int num_ranks = 1;
    bool is_loopback = true;  // all ranks are on this machine
  };
  // Blocks until all ranks have made theirs; throws TransportError after `timeout_ns`. `store`
  // outlives this.
  static std::unique_ptr<Mesh> Connect(const Place& place, Store* store, int64_t timeout_ns);
  virtual ~Mesh() = default;

  // Messages from one rank to another with the same tag arrive in the order of their calls. A
  // message that the other rank does not ask for stays where it is. Null if the connection is
  // closed. `tag` is not negative.
  virtual std::unique_ptr<Transfer> Send(const std::byte* data, size_t bytes, int to, int tag) = 0;
  virtual std::unique_ptr<Transfer> Receive(std::byte* data, size_t bytes, int from, int tag) = 0;

  // Closes all connections: every transfer of this rank ends, here and on the other side.
  virtual void Close() = 0;
};

}  // namespace shardscope::transport
