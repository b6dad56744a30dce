// StateMove: what ranks keep between steps, from one layout to another, bit for bit. All ranks move
// together, parameter by parameter: ranks that share one gather it, ranks of other stages hear of
// it, and each takes what the next layout gives it.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/plan/mesh.h"
#include "engine/runtime/units/state_layout.h"
#include "engine/transport/transport.h"

namespace shardscope::runtime {

// What a rank may hold while its state moves: both, and one whole parameter with its state.
int64_t BytesOfMove(const StateLayout& from, const StateLayout& to, plan::DType master);

class StateMove {
 public:
  StateMove(StateLayout to, int rank, const StateDTypes& dtypes);

  const StateLayout& layout() const { return to_; }

  // Every unit of the layout before, in order; `unit`: its index there. Throws TransportError.
  void Take(const StateLayout& before, int32_t unit, const ShardedUnit& from,
            transport::Transport* transport);
  // To be called once, after the last.
  std::vector<ShardedUnit> Finish(at::Device device);

 private:
  struct Place {
    int32_t unit = plan::kNone;
    size_t index = 0;
  };
  // A parameter or a state tensor of one: flat, of the whole model, in the host's memory.
  at::Tensor Whole(const StateLayout& before, int32_t unit, const ParameterLayout& parameter,
                   const at::Tensor& slice, transport::Transport* transport) const;
  ShardedUnit& UnitAt(int32_t index);

  StateLayout to_;
  const int rank_;
  const StateDTypes dtypes_;
  std::unordered_map<std::string, Place> places_;  // by name of the parameter
  std::vector<std::optional<ShardedUnit>> units_;  // made when the first parameter of one comes
};

}  // namespace shardscope::runtime
