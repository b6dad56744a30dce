// For tests of transports: what a call throws, and what every transport does when it is aborted.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "engine/transport/ranks_test_util.h"
#include "engine/transport/transport.h"

namespace shardscope::transport {

// The message of what `body` throws; "no error" if it does not.
template <typename Body>
std::string MessageOf(const Body& body) {
  try {
    body();
  } catch (const TransportError& error) {
    return error.what();
  }
  return "no error";
}

// An all-gather of some bytes (at most 64), for what becomes of the call.
inline void Gather(Transport* transport, const Call& call, size_t bytes) {
  alignas(8) std::array<std::byte, 64> send{};
  alignas(8) std::array<std::byte, 256> receive{};
  const GatherPiece piece = {send.data(), receive.data(), bytes};
  transport->AllGather(call, {&piece, 1});
}

// Of a transport of five ranks that would wait for ever: the last one aborts it.
inline void ExpectAbortEndsAllCalls(Transport* transport) {
  OnRanks(5, [&](int rank) {
    if (rank == 4) {
      transport->Abort("rank 4 ran out of memory");
      transport->Abort("a later reason");
    }
    const std::string message = MessageOf([&] {
      if (rank == 0) {
        transport->Broadcast(0, 1);
      } else {
        Gather(transport, {.rank = rank, .communicator = rank % 2, .op_name = "x"}, 8);
      }
    });
    EXPECT_EQ(message, "aborted: rank 4 ran out of memory");
  });
}

}  // namespace shardscope::transport
