// StateLayout: how the state of a run lies on its ranks between steps. Schedules of one layout can
// follow each other as they are; before one of another layout the state has to move.
#pragma once

#include <vector>

#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"
#include "engine/runtime/units/sharded_unit.h"

namespace shardscope::runtime {

struct StateLayout {
  plan::Mesh mesh;
  std::vector<plan::Segment> segments;  // without their bytes
  std::vector<plan::Unit> units;
  plan::StateTensors optimizer_state;  // of each unit that has any
  // That persist, by unit; each rank has those of its units. See plan::StateBuffers().
  std::vector<plan::Buffer> buffers;
  bool is_rooted = false;  // rank 0 alone has any
  bool operator==(const StateLayout&) const = default;

  // Among how many ranks units are split.
  int shard_ranks() const { return mesh.size(plan::MeshDimension::kShard); }
  int ShardIndexOf(int rank) const { return mesh.Coordinate(rank, plan::MeshDimension::kShard); }
  // Whether the rank has the unit: only those of its stages.
  bool Has(int rank, int32_t unit) const;
  // Whether every rank has all units, or its shard of them.
  bool IsEverywhere() const { return !is_rooted && mesh.size(plan::MeshDimension::kPipeline) == 1; }
  // What the optimizer keeps of the unit.
  plan::StateTensors StateOf(int32_t unit) const;
  int64_t BytesOf(int rank) const;
  int64_t bytes() const;  // of the rank that has most
};

// Whether all of it lies in the host's memory, where it is updated.
bool IsOffloaded(const StateLayout& layout);

StateLayout StateLayoutOf(const plan::Schedule& schedule);
// The same of a Schedule that is still to be built.
StateLayout InitialLayout(const plan::ModelDescription& model, const plan::Policy& policy);

// Dtypes of what ranks keep: of what is a shard, of what is whole, and of gradient shards.
struct StateDTypes {
  plan::DType master = plan::DType::kFp32;
  plan::DType compute = plan::DType::kFp32;
  plan::DType gradient = plan::DType::kFp32;
};

// Unit `index` on `rank`, as ShardedUnit's constructor leaves it.
ShardedUnit MakeUnit(const StateLayout& layout, int32_t index, int rank, const StateDTypes& dtypes);
// What that unit will read of `source` to initialize itself.
void AnnounceUnit(const StateLayout& layout, int32_t index, int rank,
                  const model::ParameterSource& source);

}  // namespace shardscope::runtime
