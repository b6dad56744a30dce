// LocalShares: what one rank does of a collective among virtual ranks, put on that rank's stream:
// copies and sums of pieces that all lie on one GPU.
#pragma once

#include <span>

#include "engine/cuda/transport/kernels.h"
#include "engine/cuda/transport/local_transport.h"
#include "engine/transport/rendezvous.h"

namespace shardscope::cuda {

// What all ranks have announced, by rank.
using Announced = std::span<const transport::Announcement>;

// Who calls has made the rank's stream wait for what it reads, and makes the others' streams wait
// for what it writes. A pace with a window spreads the work over that time; without one it goes as
// fast as it can. Threads: any, for different ranks.
class LocalShares {
 public:
  explicit LocalShares(const LocalTransportOptions& options) : options_(options) {}

  // Every piece of every rank to its place here.
  void Gather(Announced announced, int rank, const Pace& pace) const;
  // The rank's chunk of every piece, summed in rank order.
  void Reduce(Announced announced, int rank, const Pace& pace) const;
  // An all-reduce in two parts: each rank sums its chunk of all ranks' data into its own (nobody
  // else reads that chunk there), and once all have done that fetches the others' chunks.
  void ChunkSums(Announced announced, int rank, const Pace& pace) const;
  void ChunkCopies(Announced announced, int rank, const Pace& pace) const;

 private:
  const LocalTransportOptions options_;
};

}  // namespace shardscope::cuda
