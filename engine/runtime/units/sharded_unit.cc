#include "engine/runtime/units/sharded_unit.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "engine/model/segments.h"

namespace shardscope::runtime {
namespace {

// Calls body with a value of the master dtype.
template <typename Body>
void DispatchMaster(const at::Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "runtime: master dtype is not fp32 or fp64");
  body(float{});
}

template <typename T>
void StoreAs(const std::vector<double>& values, const at::Tensor& tensor) {
  std::ranges::transform(values, tensor.mutable_data_ptr<T>(),
                         [](double value) { return static_cast<T>(value); });
}

// In the first elements of a flat tensor on the host; in bf16 as a cast of fp32 would leave it.
void Store(const std::vector<double>& values, const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return StoreAs<double>(values, tensor);
    case at::kBFloat16:
      std::ranges::transform(values, tensor.mutable_data_ptr<at::BFloat16>(),
                             [](double value) { return at::BFloat16(static_cast<float>(value)); });
      return;
    default:
      return StoreAs<float>(values, tensor);
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
    : layout_(unit, place.shard_ranks), place_(place) {
  const at::ScalarType master = model::ScalarTypeOf(forms.master);
  const at::ScalarType compute = model::ScalarTypeOf(forms.compute);
  const int64_t whole_elements =
      layout_.UnshardedBytes(plan::BytesOf(forms.compute)) / plan::BytesOf(forms.compute);
  const auto shard = [&] { return at::zeros({layout_.shard_elements()}, master); };
  if (forms.has_parameter_shard) parameters_ = shard();
  if (forms.has_gradient_shard) gradient_ = shard();
  if (forms.has_whole_parameters) whole_parameters_ = at::zeros({whole_elements}, compute);
  if (forms.has_whole_gradient) whole_gradient_ = at::zeros({whole_elements}, compute);
  if (!forms.has_optimizer_state) return;
  first_moment_ = shard();
  second_moment_ = shard();
}

void ShardedUnit::Fill(size_t index, int64_t first_element, const at::Tensor& values,
                       const model::ParameterSource& source) const {
  constexpr int64_t kBlock = int64_t{1} << 16;
  const plan::Parameter whole =
      plan::WholeOf(layout_.parameters()[index].parameter, place_.tensor_ranks);
  std::vector<double> block;
  for (const plan::TensorRun& run : RunsOf(index)) {
    const int64_t end = std::min(run.first + run.count, first_element + values.numel());
    for (int64_t at = std::max(run.first, first_element); at < end; at += kBlock) {
      block.resize(static_cast<size_t>(std::min(kBlock, end - at)));
      source.Read(whole, run.first_in_whole + at - run.first, block);
      Store(block, values.narrow(0, at - first_element, std::ssize(block)));
    }
  }
}

void ShardedUnit::Initialize(const model::ParameterSource& source) {
  for (size_t index = 0; index < layout_.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout_.parameters()[index];
    if (parameters_.defined()) {
      Fill(index, place_.shard_index * parameter.shard_elements(),
           SliceOf(index).parameters.narrow(0, 0, OwnedElements(index)), source);
    }
    if (whole_parameters_.defined()) Fill(index, 0, AllRows(whole_parameters_, index), source);
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

void ShardedUnit::Take(size_t index, const at::Tensor& parameter, const at::Tensor& first_moment,
                       const at::Tensor& second_moment) {
  const int64_t owned = OwnedElements(index);
  const int64_t first =
      owned == 0 ? 0 : place_.shard_index * layout_.parameters()[index].shard_elements();
  const auto take = [&](const at::Tensor& own, const at::Tensor& whole) {
    own.narrow(0, 0, owned).copy_(OfTensorRank(whole, RunsOf(index)).narrow(0, first, owned));
  };
  const Slice slice = SliceOf(index);
  take(slice.parameters, parameter);
  take(slice.first_moment, first_moment);
  take(slice.second_moment, second_moment);
  if (!whole_parameters_.defined()) return;
  const at::Tensor all = AllRows(whole_parameters_, index);
  all.copy_(OfTensorRank(parameter, RunsOf(index)));
}

at::Tensor ShardedUnit::OwnRows(const at::Tensor& whole, size_t index) const {
  const int64_t elements = layout_.parameters()[index].shard_elements();
  const int64_t offset = layout_.UnshardedOffset(index, whole.element_size());
  return whole.narrow(0, offset / whole.element_size() + place_.shard_index * elements, elements);
}

ShardedUnit::Slice ShardedUnit::SliceOf(size_t index) const {
  const ParameterLayout& parameter = layout_.parameters()[index];
  const auto packed = [&](const at::Tensor& shard) {
    return shard.narrow(0, parameter.shard_offset, parameter.shard_elements());
  };
  return {parameters_.defined() ? packed(parameters_) : OwnRows(whole_parameters_, index),
          gradient_.defined() ? packed(gradient_) : OwnRows(whole_gradient_, index),
          packed(first_moment_), packed(second_moment_)};
}

std::vector<ShardedUnit::Slice> ShardedUnit::Slices() const {
  if (!is_here()) return {};
  if (parameters_.defined() && gradient_.defined()) {
    return {{parameters_, gradient_, first_moment_, second_moment_}};
  }
  std::vector<Slice> slices;
  for (size_t index = 0; index < layout_.parameters().size(); ++index) {
    slices.push_back(SliceOf(index));
  }
  return slices;
}

std::vector<ShardedUnit::Slice> ShardedUnit::CountedSlices() const {
  if (place_.tensor_index == 0) return Slices();
  std::vector<Slice> slices;
  for (size_t index = 0; is_here() && index < layout_.parameters().size(); ++index) {
    const plan::Parameter& parameter = layout_.parameters()[index].parameter;
    if (parameter.split != plan::TensorSplit::kWhole) slices.push_back(SliceOf(index));
  }
  return slices;
}

void ShardedUnit::MoveTo(at::Device device) {
  for (at::Tensor* tensor : {&parameters_, &gradient_, &whole_parameters_, &whole_gradient_,
                             &first_moment_, &second_moment_}) {
    if (tensor->defined()) *tensor = tensor->to(device);
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
  for (const Slice& slice : CountedSlices()) {
    DispatchMaster(slice.gradient, [&](auto value) {
      sum += SumOfSquares(slice.gradient.const_data_ptr<decltype(value)>(), slice.gradient.numel());
    });
  }
  return sum;
}

void ShardedUnit::Update(const UpdateArgs& args) {
  for (const Slice& slice : Slices()) {
    DispatchMaster(slice.parameters, [&](auto value) {
      using T = decltype(value);
      AdamW<T>({slice.parameters.mutable_data_ptr<T>(), slice.gradient.const_data_ptr<T>(),
                slice.first_moment.mutable_data_ptr<T>(), slice.second_moment.mutable_data_ptr<T>(),
                slice.parameters.numel()},
               args);
    });
  }
}

}  // namespace shardscope::runtime
