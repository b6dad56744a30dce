// The Gloo transport: the same collectives over TCP connections that Gloo (the copy in LibTorch)
// drives. Ranks are threads of this process, or one process each.
//
// Every rank sends what others need straight from its memory into theirs; each rank makes the
// sums that it needs, in rank order. So results are bit for bit those of shared_memory, and a
// reduce-scatter sends (N-1)/N of the payload, while c10d's own reduce-scatter is an all-reduce of
// the whole.
//
// Without kinds and sizes in the messages, a collective that does not fit the other ranks' (kind,
// sizes, dtype, scale) finds no partner: it ends with the timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/transport/transport.h"

namespace shardscope::transport {

// One process among several that a launcher started.
struct GlooProcess {
  int rank = 0;
  int num_ranks = 1;
  std::string master_address;  // where the processes meet
  int master_port = 0;
  bool has_launcher_store = false;  // the launcher listens there already; else rank 0 does
  std::string attempt;              // tells restarts under one launcher apart
  // Told a line for the user where others are long in coming; may be empty.
  std::function<void(const std::string&)> say;
};

// All ranks are threads of this process, over loopback. Throws TransportError, as does the next.
std::unique_ptr<Transport> MakeGlooTransport(int num_ranks, int64_t timeout_ns);

// This process's rank only: calls name no other. Waits for the other processes to start, not longer
// than `timeout_ns`.
std::unique_ptr<Transport> MakeGlooTransport(const GlooProcess& process, int64_t timeout_ns);

// In which others that were started with a process that does not come find that out.
inline constexpr int64_t kTellingNs = 5'000'000'000;

// Instead of that, by a process that does not come: those that wait for it, or do so within
// `telling_ns`, fail with `reason`. Returns when all have read it, or after that time.
void StayAway(const GlooProcess& process, const std::string& reason,
              int64_t telling_ns = kTellingNs);

}  // namespace shardscope::transport
