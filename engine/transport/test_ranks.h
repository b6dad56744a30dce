// For tests: runs one function per rank, each on a thread of its own.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace shardscope::transport {

inline void OnRanks(int num_ranks, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace shardscope::transport
