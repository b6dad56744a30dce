// What a rank keeps of a unit between steps; engine/footprint/unit_layout.h says how it lies there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/footprint/unit_layout.h"
#include "engine/model/initialize.h"
#include "engine/model/model_config.h"
#include "engine/model/training_settings.h"
#include "engine/plan/model_description.h"
#include "engine/plan/optimizer_state.h"
#include "engine/runtime/units/optimizer.h"

namespace shardscope::runtime {

using footprint::GapBytes;
using footprint::ParameterLayout;
using footprint::UnitLayout;

// What a rank keeps of one unit from step to step: the optimizer's state of its slice, and the
// slice itself and its gradient, either in packed-shard form or as a part of the whole unit in
// unsharded form. Padding is zero and stays zero.
class ShardedUnit {
 public:
  // Among how many ranks the unit is sharded (1: this rank holds all of it), and which of them this
  // is; the same of the ranks that share the work of layers. Of a parameter that is split among
  // these, "all" and "whole" below are what the rank's group for sharding has.
  struct Place {
    int shard_ranks = 1;
    int shard_index = 0;
    int tensor_ranks = 1;
    int tensor_index = 0;
  };
  // Packed shards are in the master dtype, that of the gradient in its own; what is whole is in
  // that of compute.
  struct Forms {
    plan::DType master = plan::DType::kFp32;
    plan::DType compute = plan::DType::kFp32;
    plan::DType gradient = plan::DType::kFp32;
    plan::StateTensors optimizer_state = plan::DefaultStateTensors();
    bool has_parameter_shard = true;
    bool has_gradient_shard = true;
    bool has_whole_parameters = false;
    bool has_whole_gradient = false;
    bool is_on_host = false;  // packed shards and optimizer state are, and updated there
    bool has_device_shard = false;
  };
  // In the host's memory. All zero, but for the values of parameters: each has to be given them by
  // Initialize() or Take().
  ShardedUnit(const plan::Unit& unit, Place place, Forms forms);

  // Gives the parameters their values, of which it reads those that it keeps. While it is in the
  // host's memory.
  void Initialize(const model::ParameterSource& source);
  // Tells the source what Initialize() will read of it: of the whole parameters, or of the slices.
  void Announce(bool is_whole, const model::ParameterSource& source) const;
  // What is the host's stays in its memory, pinned where `device` is a GPU.
  void MoveTo(at::Device device);

  const UnitLayout& layout() const { return layout_; }
  // Whether the rank keeps anything of it. If not, it has no slices.
  bool is_here() const { return parameters_.defined() || whole_parameters_.defined(); }
  // What the optimizer keeps of it.
  const plan::StateTensors& state_tensors() const { return state_tensors_; }
  Place place() const { return place_; }
  // Undefined where the unit has no such tensor.
  at::Tensor& parameters() { return parameters_; }
  at::Tensor& gradient() { return gradient_; }
  at::Tensor& whole_parameters() { return whole_parameters_; }
  at::Tensor& whole_gradient() { return whole_gradient_; }
  // Of parameters() that the host keeps and updates: the copy that is gathered from.
  at::Tensor& device_shard() { return device_shard_; }
  // Makes it that again.
  void RenewDeviceShard();
  // What is not the host's moves to memory that this thread takes now.
  void LeaveHostMemory();

  // A part of a state tensor. Of blocks: a code an element, and each block's scale.
  struct StateSlice {
    at::Tensor values;
    at::Tensor scales;  // undefined unless kept in blocks
  };
  // What the optimizer works on, as flat tensors of one length that share the unit's memory. Of a
  // frozen parameter there is no gradient and no state.
  struct Slice {
    at::Tensor parameters;
    at::Tensor gradient;
    std::vector<StateSlice> state;  // as state_tensors()
  };
  // The rank's rows of parameter `index`, padding included.
  Slice SliceOf(size_t index) const;
  // How many elements of such a slice are no padding, and where they are in the whole parameter of
  // the model.
  int64_t OwnedElements(size_t index) const;
  std::vector<plan::TensorRun> OwnRuns(size_t index) const;
  // The same of AllOf(): the parameter in whole_parameters(), without padding.
  std::vector<plan::TensorRun> RunsOf(size_t index) const;
  at::Tensor AllOf(size_t index) const { return AllRows(whole_parameters_, index); }
  // All that are trained; one slice where they lie together.
  std::vector<Slice> Slices() const;
  // Those that count in the gradient's norm here: of what all tensor ranks have, the first one's.
  std::vector<Slice> CountedSlices() const;

  // How many state tensors parameter `index` has: those of state_tensors(), or none.
  size_t NumStateTensors(size_t index) const {
    return index < num_trained() ? state_tensors_.size() : 0;
  }
  // The rank's rows of parameter `index` in state tensor `tensor`, flat, padding included, in the
  // master dtype: the unit's memory, or of blocks a copy on the host.
  at::Tensor StateValues(size_t tensor, size_t index) const;
  // Keeps what has been written into such `values`: of blocks the copy has to be encoded.
  void KeepStateValues(size_t tensor, size_t index, const at::Tensor& values);

  // Takes the values of parameter `index` and its state, each flat and of the whole model.
  void Take(size_t index, const at::Tensor& parameter, const std::vector<at::Tensor>& state);

  // The gradient's slice, in packed form.
  void ScaleGradient(double factor);

  // Sum of squares of what counts in the gradient's norm here, parameter by parameter, so that it
  // is the same bits wherever the unit's gradient lies.
  double GradientSquares() const;
  // Whether all of it is finite.
  bool HasFiniteGradient() const;

  void Update(const UpdateArgs& args);

 private:
  void ClearPadding() const;
  plan::Parameter WholeParameter(size_t index) const;  // of the model
  // Fills those elements of `values`.
  void Fill(size_t index, const std::vector<plan::TensorRun>& runs, const at::Tensor& values,
            const model::ParameterSource& source) const;
  // The rank's rows of parameter `index` in a flat tensor of the unsharded form.
  at::Tensor OwnRows(const at::Tensor& whole, size_t index) const;
  // All rows of a parameter there, without padding.
  at::Tensor AllRows(const at::Tensor& whole, size_t index) const;
  StateSlice StateSliceOf(size_t tensor, size_t index) const;
  // The same in the unit's packed form, if it has `shard`.
  at::Tensor PackedOrOwn(const at::Tensor& shard, const at::Tensor& whole, size_t index) const;
  // Whether it counts in the gradient's norm here.
  bool IsCounted(size_t index) const;
  size_t num_trained() const { return layout_.trained().parameters().size(); }
  bool HasBlocks() const;

  UnitLayout layout_;
  Place place_;
  at::Tensor parameters_;
  at::Tensor gradient_;
  at::Tensor whole_parameters_;
  at::Tensor whole_gradient_;
  at::Tensor device_shard_;
  bool is_on_host_ = false;
  plan::StateTensors state_tensors_;
  std::vector<StateSlice> state_;  // packed
  at::ScalarType master_;
};

}  // namespace shardscope::runtime
