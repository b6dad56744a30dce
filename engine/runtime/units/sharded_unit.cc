#include "engine/runtime/units/sharded_unit.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "engine/model/segments.h"
#include "engine/runtime/memory/tensor_memory.h"
#include "engine/runtime/units/arithmetic.h"
#include "engine/runtime/units/state_blocks.h"

namespace shardscope::runtime {
namespace {

// Calls body with a value of the master dtype.
template <typename Body>
void DispatchMaster(const at::Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "runtime: master dtype is not fp32 or fp64");
  body(float{});
}

plan::DType DTypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return plan::DType::kFp64;
    case at::kBFloat16:
      return plan::DType::kBf16;
    case at::kHalf:
      return plan::DType::kFp16;
    default:
      return plan::DType::kFp32;
  }
}

// What a tensor rank has of a flat parameter of the whole model, one after the other.
at::Tensor OfTensorRank(const at::Tensor& whole, const std::vector<plan::TensorRun>& runs) {
  std::vector<at::Tensor> parts;
  for (const plan::TensorRun& run : runs) {
    parts.push_back(whole.narrow(0, run.first_in_whole, run.count));
  }
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

}  // namespace

ShardedUnit::ShardedUnit(const plan::Unit& unit, Place place, Forms forms)
    : layout_(unit, place.shard_ranks),
      place_(place),
      is_on_host_(forms.is_on_host),
      state_tensors_(std::move(forms.optimizer_state)),
      master_(model::ScalarTypeOf(forms.master)) {
  const at::ScalarType compute = model::ScalarTypeOf(forms.compute);
  const UnitLayout& trained = layout_.trained();
  const auto whole_elements = [&](const UnitLayout& layout) {
    const int64_t element_bytes = plan::BytesOf(forms.compute);
    return layout.UnshardedBytes(element_bytes) / element_bytes;
  };
  const auto shard = [&](at::ScalarType type) { return LateZeros(trained.shard_elements(), type); };
  // Not cleared what is written next: on some machines that costs more than reading it from disk.
  if (forms.has_parameter_shard) parameters_ = at::empty({layout_.shard_elements()}, master_);
  if (forms.has_gradient_shard) gradient_ = shard(model::ScalarTypeOf(forms.gradient));
  if (forms.has_whole_parameters) whole_parameters_ = at::empty({whole_elements(layout_)}, compute);
  if (forms.has_whole_gradient) whole_gradient_ = LateZeros(whole_elements(trained), compute);
  if (forms.has_device_shard) device_shard_ = at::empty({layout_.shard_elements()}, master_);
  for (const plan::StateTensor& tensor : state_tensors_) {
    if (tensor.form == plan::StateForm::kMaster) {
      state_.push_back({shard(master_), {}});
    } else {
      state_.push_back({shard(at::kByte), LateZeros(trained.shard_blocks(), at::kFloat)});
    }
  }
  ClearPadding();
}

void ShardedUnit::ClearPadding() const {
  for (size_t index = 0; index < layout_.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout_.parameters()[index];
    if (parameters_.defined()) {
      const int64_t owned = OwnedElements(index);
      parameters_.narrow(0, parameter.shard_offset + owned, parameter.shard_elements() - owned)
          .zero_();
    }
    if (!whole_parameters_.defined()) continue;
    const auto element_bytes = static_cast<int64_t>(whole_parameters_.element_size());
    const int64_t begin = layout_.UnshardedOffset(index, element_bytes) / element_bytes +
                          parameter.rows * parameter.row_elements;
    const int64_t end = layout_.UnshardedOffset(index + 1, element_bytes) / element_bytes;
    whole_parameters_.narrow(0, begin, end - begin).zero_();
  }
}

plan::Parameter ShardedUnit::WholeParameter(size_t index) const {
  return plan::WholeOf(layout_.parameters()[index].parameter, place_.tensor_ranks);
}

void ShardedUnit::Fill(size_t index, const std::vector<plan::TensorRun>& runs,
                       const at::Tensor& values, const model::ParameterSource& source) const {
  const plan::Parameter whole = WholeParameter(index);
  for (const plan::TensorRun& run : runs) {
    source.Read(whole, run.first_in_whole, values.narrow(0, run.first, run.count));
  }
  if (runs.size() < 2) return;
  const int64_t first = runs.front().first_in_whole;
  source.HasRead(whole, first, runs.back().first_in_whole + runs.back().count - first);
}

void ShardedUnit::Announce(bool is_whole, const model::ParameterSource& source) const {
  constexpr int64_t kGap = int64_t{1} << 16;  // what lies between parts is read with them
  for (size_t index = 0; index < layout_.parameters().size(); ++index) {
    const plan::Parameter whole = WholeParameter(index);
    int64_t begin = 0;
    int64_t end = 0;
    const auto announce = [&] {
      if (end > begin) source.WillRead(whole, begin, end - begin);
    };
    for (const plan::TensorRun& run : is_whole ? RunsOf(index) : OwnRuns(index)) {
      if (run.first_in_whole > end + kGap || end == begin) {
        announce();
        begin = run.first_in_whole;
      }
      end = run.first_in_whole + run.count;
    }
    announce();
  }
}

void ShardedUnit::Initialize(const model::ParameterSource& source) {
  for (size_t index = 0; index < layout_.parameters().size(); ++index) {
    if (parameters_.defined()) Fill(index, OwnRuns(index), SliceOf(index).parameters, source);
    if (whole_parameters_.defined()) Fill(index, RunsOf(index), AllOf(index), source);
  }
  RenewDeviceShard();
}

void ShardedUnit::RenewDeviceShard() {
  if (device_shard_.defined()) device_shard_.copy_(parameters_);
}

void ShardedUnit::LeaveHostMemory() {
  std::vector<at::Tensor*> tensors = {&whole_parameters_, &whole_gradient_, &device_shard_};
  if (!is_on_host_) tensors.insert(tensors.end(), {&parameters_, &gradient_});
  for (StateSlice& all : state_) {
    if (!is_on_host_) tensors.insert(tensors.end(), {&all.values, &all.scales});
  }
  for (at::Tensor* tensor : tensors) {
    if (tensor->defined()) *tensor = tensor->clone();
  }
}

int64_t ShardedUnit::OwnedElements(size_t index) const {
  const ParameterLayout& parameter = layout_.parameters()[index];
  return plan::OwnedRows(parameter.parameter, place_.shard_ranks, place_.shard_index) *
         parameter.row_elements;
}

std::vector<plan::TensorRun> ShardedUnit::RunsOf(size_t index) const {
  return plan::TensorRuns(layout_.parameters()[index].parameter, place_.tensor_ranks,
                          place_.tensor_index);
}

std::vector<plan::TensorRun> ShardedUnit::OwnRuns(size_t index) const {
  const int64_t first = place_.shard_index * layout_.parameters()[index].shard_elements();
  const int64_t end = first + OwnedElements(index);
  std::vector<plan::TensorRun> own;
  for (const plan::TensorRun& run : RunsOf(index)) {
    const int64_t from = std::max(run.first, first);
    const int64_t count = std::min(run.first + run.count, end) - from;
    if (count > 0) own.push_back({from - first, run.first_in_whole + from - run.first, count});
  }
  return own;
}

at::Tensor ShardedUnit::AllRows(const at::Tensor& whole, size_t index) const {
  const ParameterLayout& parameter = layout_.parameters()[index];
  const int64_t offset = layout_.UnshardedOffset(index, whole.element_size());
  return whole.narrow(0, offset / whole.element_size(), parameter.rows * parameter.row_elements);
}

at::Tensor ShardedUnit::StateValues(size_t tensor, size_t index) const {
  const StateSlice slice = StateSliceOf(tensor, index);
  if (!slice.scales.defined()) return slice.values;
  const at::Tensor codes = slice.values.cpu();
  const at::Tensor scales = slice.scales.cpu();
  at::Tensor values = at::empty({codes.numel()}, master_);
  DispatchMaster(values, [&](auto value) {
    DecodeBlocks(codes.const_data_ptr<uint8_t>(), scales.const_data_ptr<float>(), codes.numel(),
                 RangeOf(tensor), values.mutable_data_ptr<decltype(value)>());
  });
  return values;
}

ShardedUnit::StateSlice ShardedUnit::StateSliceOf(size_t tensor, size_t index) const {
  const ParameterLayout& parameter = layout_.parameters()[index];
  const int64_t elements = parameter.shard_elements();
  const StateSlice& all = state_[tensor];
  StateSlice slice{all.values.narrow(0, parameter.shard_offset, elements), {}};
  if (all.scales.defined()) {
    slice.scales = all.scales.narrow(0, parameter.first_block, plan::NumStateBlocks(elements));
  }
  return slice;
}

bool ShardedUnit::HasBlocks() const {
  return std::ranges::any_of(state_, [](const StateSlice& all) { return all.scales.defined(); });
}

void ShardedUnit::KeepStateValues(size_t tensor, size_t index, const at::Tensor& values) {
  const StateSlice slice = StateSliceOf(tensor, index);
  if (!slice.scales.defined()) return;
  DispatchMaster(values, [&](auto value) {
    EncodeBlocks(values.const_data_ptr<decltype(value)>(), values.numel(), RangeOf(tensor),
                 slice.values.mutable_data_ptr<uint8_t>(), slice.scales.mutable_data_ptr<float>());
  });
}

void ShardedUnit::Take(size_t index, const at::Tensor& parameter,
                       const std::vector<at::Tensor>& state) {
  const int64_t owned = OwnedElements(index);
  const int64_t first =
      owned == 0 ? 0 : place_.shard_index * layout_.parameters()[index].shard_elements();
  const auto take = [&](const at::Tensor& own, const at::Tensor& whole) {
    own.narrow(0, 0, owned).copy_(OfTensorRank(whole, RunsOf(index)).narrow(0, first, owned));
  };
  const at::Tensor own = SliceOf(index).parameters;
  take(own, parameter);
  if (device_shard_.defined()) {
    device_shard_.narrow(0, layout_.parameters()[index].shard_offset, own.numel()).copy_(own);
  }
  for (size_t tensor = 0; tensor < state.size(); ++tensor) {
    const at::Tensor values = StateValues(tensor, index);
    take(values, state[tensor]);
    KeepStateValues(tensor, index, values);
  }
  if (!whole_parameters_.defined()) return;
  const at::Tensor all = AllRows(whole_parameters_, index);
  all.copy_(OfTensorRank(parameter, RunsOf(index)));
}

at::Tensor ShardedUnit::OwnRows(const at::Tensor& whole, size_t index) const {
  const int64_t elements = layout_.parameters()[index].shard_elements();
  const int64_t offset = layout_.UnshardedOffset(index, whole.element_size());
  return whole.narrow(0, offset / whole.element_size() + place_.shard_index * elements, elements);
}

at::Tensor ShardedUnit::PackedOrOwn(const at::Tensor& shard, const at::Tensor& whole,
                                    size_t index) const {
  if (!shard.defined()) return OwnRows(whole, index);
  const ParameterLayout& parameter = layout_.parameters()[index];
  return shard.narrow(0, parameter.shard_offset, parameter.shard_elements());
}

ShardedUnit::Slice ShardedUnit::SliceOf(size_t index) const {
  Slice slice{PackedOrOwn(parameters_, whole_parameters_, index), {}, {}};
  if (index >= num_trained()) return slice;
  slice.gradient = PackedOrOwn(gradient_, whole_gradient_, index);
  for (size_t tensor = 0; tensor < state_.size(); ++tensor) {
    slice.state.push_back(StateSliceOf(tensor, index));
  }
  return slice;
}

std::vector<ShardedUnit::Slice> ShardedUnit::Slices() const {
  if (!is_here() || num_trained() == 0) return {};
  // Blocks are of one parameter.
  if (parameters_.defined() && gradient_.defined() && !HasBlocks()) {
    return {{parameters_.narrow(0, 0, gradient_.numel()), gradient_, state_}};
  }
  std::vector<Slice> slices;
  for (size_t index = 0; index < num_trained(); ++index) {
    slices.push_back(SliceOf(index));
  }
  return slices;
}

bool ShardedUnit::IsCounted(size_t index) const {
  return place_.tensor_index == 0 ||
         layout_.parameters()[index].parameter.split != plan::TensorSplit::kWhole;
}

std::vector<ShardedUnit::Slice> ShardedUnit::CountedSlices() const {
  if (place_.tensor_index == 0) return Slices();
  std::vector<Slice> slices;
  for (size_t index = 0; is_here() && index < num_trained(); ++index) {
    if (IsCounted(index)) slices.push_back(SliceOf(index));
  }
  return slices;
}

void ShardedUnit::MoveTo(at::Device device) {
  const bool is_pinned = is_on_host_ && !device.is_cpu();
  for (at::Tensor* tensor : {&whole_parameters_, &whole_gradient_, &device_shard_}) {
    if (tensor->defined()) *tensor = tensor->to(device);
  }
  const auto move_kept = [&](at::Tensor* tensor) {
    if (tensor->defined()) *tensor = is_pinned ? tensor->pin_memory() : tensor->to(device);
  };
  move_kept(&parameters_);
  move_kept(&gradient_);
  for (StateSlice& all : state_) {
    move_kept(&all.values);
    move_kept(&all.scales);
  }
}

void ShardedUnit::ScaleGradient(double factor) {
  if (!gradient_.is_cpu()) {
    gradient_.mul_(factor);
    return;
  }
  DispatchMaster(gradient_, [&](auto value) {
    Scale(factor, gradient_.numel(), gradient_.mutable_data_ptr<decltype(value)>());
  });
}

double ShardedUnit::GradientSquares() const {
  double sum = 0;
  for (size_t index = 0; is_here() && index < num_trained(); ++index) {
    if (!IsCounted(index)) continue;
    const at::Tensor gradient = PackedOrOwn(gradient_, whole_gradient_, index);
    sum += SumOfSquares(gradient.const_data_ptr(), DTypeOf(gradient), gradient.numel());
  }
  return sum;
}

bool ShardedUnit::HasFiniteGradient() const {
  return std::ranges::all_of(CountedSlices(), [](const Slice& slice) {
    return AllFinite(slice.gradient.const_data_ptr(), DTypeOf(slice.gradient),
                     slice.gradient.numel());
  });
}

void ShardedUnit::Update(const UpdateArgs& args) {
  for (const Slice& slice : Slices()) {
    DispatchMaster(slice.parameters, [&](auto value) {
      using T = decltype(value);
      UpdateMemory<T> memory{.parameters = slice.parameters.mutable_data_ptr<T>(),
                             .gradient = slice.gradient.const_data_ptr(),
                             .gradient_dtype = DTypeOf(slice.gradient),
                             .elements = slice.parameters.numel()};
      for (size_t tensor = 0; tensor < slice.state.size(); ++tensor) {
        const auto& [values, scales] = slice.state[tensor];
        memory.state[tensor] = {values.mutable_data_ptr(),
                                scales.defined() ? scales.mutable_data_ptr<float>() : nullptr};
      }
      runtime::Update(memory, args);
    });
  }
}

}  // namespace shardscope::runtime
