// The keys mesh.*.
#pragma once

#include <string_view>
#include <utility>

#include "engine/plan/mesh.h"

namespace shardscope::config {

// In the order of plan::Mesh::sizes.
inline constexpr std::pair<plan::MeshDimension, std::string_view> kMeshKeys[] = {
    {plan::MeshDimension::kReplicate, "mesh.replicate"},
    {plan::MeshDimension::kShard, "mesh.shard"},
    {plan::MeshDimension::kPipeline, "mesh.pipeline"},
    {plan::MeshDimension::kTensor, "mesh.tensor"},
};

}  // namespace shardscope::config
