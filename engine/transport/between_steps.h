// What ranks tell one another between steps, outside of all Schedules: few bytes, from each rank's
// host thread, made of the collectives that every transport has.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/transport/transport.h"

namespace shardscope::transport {

// What every rank brought, by rank. `what`: for messages.
template <typename Value>
std::vector<Value> GatherValues(Transport* transport, int num_ranks, int rank, const Value& value,
                                std::string_view what = "step report") {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> values(static_cast<size_t>(num_ranks));
  const GatherPiece piece = {reinterpret_cast<const std::byte*>(&value),
                             reinterpret_cast<std::byte*>(values.data()), sizeof(Value)};
  transport->AllGather({.rank = rank, .communicator = kBetweenSteps, .op_name = what}, {&piece, 1});
  return values;
}

// No rank returns before all have come.
inline void Barrier(Transport* transport, int rank) { transport->Broadcast(rank, 0); }

// Rank 0's text, on every rank.
inline std::string BroadcastText(Transport* transport, int num_ranks, int rank,
                                 const std::string& text) {
  const auto length = static_cast<size_t>(
      transport->Broadcast(rank, rank == 0 ? static_cast<int64_t>(text.size()) : 0));
  std::string own = rank == 0 ? text : std::string(length, ' ');
  std::string all(static_cast<size_t>(num_ranks) * length, ' ');
  const GatherPiece piece = {reinterpret_cast<const std::byte*>(own.data()),
                             reinterpret_cast<std::byte*>(all.data()), length};
  transport->AllGather({.rank = rank, .communicator = kBetweenSteps, .op_name = "decision"},
                       {&piece, 1});
  return all.substr(0, length);
}

}  // namespace shardscope::transport
