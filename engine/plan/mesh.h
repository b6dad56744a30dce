// Mesh: how the ranks of a run are arranged in named dimensions, and which of them talk to each
// other. The order is torchtitan's (parallel_dims.py): neighbours in rank number differ in the
// tensor dimension, then in shard, replicate and pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/words.h"

namespace shardscope::plan {

using words::kNumMeshDimensions;
using words::MeshDimension;

// A set of dimensions, a bit each.
using MeshDimensions = uint8_t;
constexpr MeshDimensions Only(MeshDimension dimension) {
  return static_cast<MeshDimensions>(1U << static_cast<unsigned>(dimension));
}
inline constexpr MeshDimensions kAllDimensions = (1U << kNumMeshDimensions) - 1;
// Ranks that differ in these have other samples.
inline constexpr MeshDimensions kDataDimensions =
    Only(MeshDimension::kReplicate) | Only(MeshDimension::kShard);

struct Mesh {
  std::array<int32_t, kNumMeshDimensions> sizes = {1, 1, 1, 1};  // by MeshDimension
  bool operator==(const Mesh&) const = default;

  int32_t size(MeshDimension dimension) const { return sizes[static_cast<size_t>(dimension)]; }
  // Product of the sizes of these dimensions.
  int32_t SizeOf(MeshDimensions dimensions) const;
  int32_t num_ranks() const { return SizeOf(kAllDimensions); }
  // Where `rank` stands along `dimension`, from 0.
  int32_t Coordinate(int32_t rank, MeshDimension dimension) const;
};

// All ranks along one dimension.
Mesh MeshOf(MeshDimension dimension, int32_t num_ranks);

// Ranks that differ in `dimensions` alone are one of its groups: they call its collectives
// together.
struct Communicator {
  std::string name;  // "shard", "replicate", ...
  MeshDimensions dimensions = kAllDimensions;
  // Above 0: of those ranks, so many with neighbouring places are a group (FSDP2's smaller mesh).
  int32_t run = 0;
  bool operator==(const Communicator&) const = default;
};

// A rank's group of a communicator: groups and places in them are numbered by ascending rank.
struct GroupPlace {
  int32_t group = 0;
  int32_t place = 0;  // in the group
  bool operator==(const GroupPlace&) const = default;
};
GroupPlace PlaceOf(const Mesh& mesh, MeshDimensions dimensions, int32_t rank);
GroupPlace PlaceOf(const Mesh& mesh, const Communicator& communicator, int32_t rank);

// The ranks of a group, ascending: a rank's place is its index.
std::vector<int32_t> MembersOf(const Mesh& mesh, const Communicator& communicator, int32_t group);

// Ranks of each of its groups.
int32_t GroupSize(const Mesh& mesh, const Communicator& communicator);

// Those with which a rank calls the collectives of a communicator.
struct Group {
  int32_t number = 0;          // among the groups of the communicator
  int32_t place = 0;           // of the rank, in `ranks`
  std::vector<int32_t> ranks;  // ascending
};
Group GroupOf(const Mesh& mesh, const Communicator& communicator, int32_t rank);

// "shard", "replicate,shard"; "" of none.
std::string Print(MeshDimensions dimensions);

}  // namespace shardscope::plan
