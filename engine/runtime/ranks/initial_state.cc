#include "engine/runtime/ranks/initial_state.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/checkpoint/blocks.h"
#include "engine/model/initialize.h"
#include "trace/base/number_list.h"

namespace shardscope::runtime {
namespace {

// Of a contiguous tensor on the host, behind what `digest` is of.
uint64_t Digest(uint64_t digest, const at::Tensor& values) {
  const auto* const data = static_cast<const std::byte*>(values.const_data_ptr());
  return model::MixedBits(digest, checkpoint::HashOf({data, values.nbytes()}));
}

// Of each unit's first values: where ranks hold different shards, nothing else can be compared.
uint64_t DigestOfDraws(const Job& job, int rank, RankWork* work) {
  constexpr int64_t kDraws = 64;
  const auto source = job.InitialSource(rank);
  uint64_t digest = 0;
  for (const ShardedUnit& unit : work->units()) {
    for (const ParameterLayout& parameter : unit.layout().parameters()) {
      const at::Tensor values =
          at::empty({std::min(kDraws, plan::NumElements(parameter.parameter.shape))}, at::kDouble);
      source->Read(parameter.parameter, 0, values);
      digest = Digest(digest, values);
    }
  }
  return digest;
}

// Among `ranks`, which should be as one: "rank 1 ... ranks 0, 2" with `verb` between those that
// differ from most and the others. Empty if all are the same.
std::string Differing(std::span<const InitialState> states, const std::vector<size_t>& ranks,
                      uint64_t InitialState::*digest, const std::string& verb) {
  const auto count = [&](size_t rank) {
    return std::ranges::count_if(
        ranks, [&](size_t other) { return states[other].*digest == states[rank].*digest; });
  };
  const size_t usual = *std::ranges::max_element(ranks, {}, count);
  std::vector<int32_t> different;
  std::vector<int32_t> others;
  for (const size_t rank : ranks) {
    const bool is_usual = states[rank].*digest == states[usual].*digest;
    (is_usual ? others : different).push_back(static_cast<int32_t>(rank));
  }
  return different.empty() ? "" : RanksText(different) + verb + RanksText(others);
}

bool HoldSame(const InitialState& a, const InitialState& b) {
  return a.has_any == b.has_any && a.stage == b.stage && a.shard == b.shard && a.tensor == b.tensor;
}

}  // namespace

InitialState InitialStateOf(const Job& job, int rank, RankWork* work) {
  InitialState state{.drawn = DigestOfDraws(job, rank, work), .is_read = job.weights != nullptr};
  const StateLayout& layout = work->layout();
  std::vector<ShardedUnit*> units;
  for (size_t index = 0; index < work->units().size(); ++index) {
    if (layout.Has(rank, static_cast<int32_t>(index))) units.push_back(&work->units()[index]);
  }
  const bool is_whole = std::ranges::all_of(
      units, [](ShardedUnit* unit) { return unit->whole_parameters().defined(); });
  if (units.empty()) return state;  // with all others that have nothing
  state.has_any = true;
  state.stage = layout.mesh.Coordinate(rank, plan::MeshDimension::kPipeline);
  state.tensor = layout.mesh.Coordinate(rank, plan::MeshDimension::kTensor);
  state.shard = is_whole ? 0 : layout.ShardIndexOf(rank);
  for (ShardedUnit* unit : units) {
    const at::Tensor& whole = unit->whole_parameters();
    state.held = Digest(state.held, (whole.defined() ? whole : unit->parameters()).cpu());
  }
  return state;
}

Status CheckInitialStates(std::span<const InitialState> states) {
  std::vector<size_t> all;
  for (size_t rank = 0; rank < states.size(); ++rank) all.push_back(rank);
  const bool is_read = !states.empty() && states.front().is_read;
  const std::string drawn =
      Differing(states, all, &InitialState::drawn,
                is_read ? " reads other weights than " : " draws other initial parameters than ");
  if (!drawn.empty() && is_read) {
    return Status::Error(drawn +
                         ": all ranks of a run need the same files in model.path and lora.path, "
                         "and the same program");
  }
  if (!drawn.empty()) {
    return Status::Error(drawn + ": all ranks of a run need the same seed and the same program");
  }
  for (const size_t rank : all) {
    std::vector<size_t> replicas;
    std::ranges::copy_if(all, std::back_inserter(replicas),
                         [&](size_t other) { return HoldSame(states[other], states[rank]); });
    const std::string held =
        Differing(states, replicas, &InitialState::held, " begins with other parameters than ");
    if (!held.empty()) return Status::Error(held + ", although they are replicas of each other");
  }
  return Status::Ok();
}

}  // namespace shardscope::runtime
