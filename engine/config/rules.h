// What the sources of config's rules share.
#pragma once

#include <string>
#include <string_view>

#include "engine/config/config.h"

namespace shardscope::config {

// "key=value", as messages show it.
std::string Shown(const Config& config, std::string_view key);

// auto: what the others leave of run.ranks. A mesh that does not multiply to them is an error.
Result<plan::Mesh> MeshOf(const Config& config);

// Rules of Config::Check(): mesh.*, and the number of reshard_after_forward once those hold.
Status CheckMesh(const Config& config);
Status CheckReshardRanks(const Config& config);

// What becomes of gradients and parameters between micro-batches.
inline constexpr std::string_view kAccumulationKeys[] = {
    "accumulation", "reshard_after_backward", "is_last_backward", "precision.keep_low_grads"};
bool IsOfAccumulation(std::string_view key);

}  // namespace shardscope::config
