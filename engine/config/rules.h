// What the sources of config's rules share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"

namespace shardscope::config {

// "key=value", as messages show it.
std::string Shown(const Config& config, std::string_view key);

// What a list may name. As messages say it: "there is no <noun> NAME with <key>=...; there are
// <shown>".
struct KnownNames {
  std::string_view noun;
  std::string_view key;  // on which they depend
  std::vector<std::string> names;
  std::string shown;
};
// Whether `key` lists each name once, and known ones only.
Status CheckNames(const Config& config, std::string_view key,
                  const std::vector<std::string>& listed, const KnownNames& known);

// auto: what the others leave of run.ranks. A mesh that does not multiply to them is an error.
Result<plan::Mesh> MeshOf(const Config& config);

// Rules of Config::Check(): mesh.*, and the number of reshard_after_forward once those hold.
Status CheckMesh(const Config& config);
Status CheckReshardRanks(const Config& config);

// What becomes of gradients and parameters between micro-batches.
inline constexpr std::string_view kAccumulationKeys[] = {
    "accumulation", "reshard_after_backward", "is_last_backward", "precision.keep_low_grads"};
bool IsOfAccumulation(std::string_view key);
// Sets what the key, one of those, is about.
void SetAccumulation(const Config& config, std::string_view key, plan::Accumulation* accumulation);

}  // namespace shardscope::config
