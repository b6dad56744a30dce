// For tests: runs one function per rank, each on a thread of its own.
#pragma once

#include <functional>
#include <future>
#include <vector>

namespace shardscope::transport {

// Waits for all ranks; an exception of the lowest rank that threw one is thrown again.
inline void OnRanks(int num_ranks, const std::function<void(int rank)>& body) {
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    ranks.push_back(std::async(std::launch::async, body, rank));
  }
  for (std::future<void>& rank : ranks) rank.wait();
  for (std::future<void>& rank : ranks) rank.get();
}

}  // namespace shardscope::transport
