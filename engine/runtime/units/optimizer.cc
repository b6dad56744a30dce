#include "engine/runtime/units/optimizer.h"

#include <algorithm>
#include <cmath>

#include "engine/runtime/units/arithmetic.h"
#include "engine/runtime/units/state_blocks.h"

namespace shardscope::runtime {
namespace {

using plan::OptimizerKind;

// Where one pass works: in place, or in copies of a few blocks.
template <typename T>
struct Numbers {
  T* parameters;
  const T* gradients;
  T* first;
  T* second;
  int64_t elements;
};

// `decouples` decay from the gradient: AdamW (Loshchilov & Hutter 2019); else Adam.
template <typename T, bool decouples>
void UpdateAdam(const Numbers<T>& numbers, const UpdateArgs& args) {
  const model::OptimizerSettings& optimizer = args.optimizer;
  const auto count = static_cast<double>(args.step + 1);
  const double correction1 = 1 - std::pow(optimizer.beta1, count);
  const double correction2 = 1 - std::pow(optimizer.beta2, count);
  const auto decay = static_cast<T>(1 - args.learning_rate * optimizer.weight_decay);
  const auto added = static_cast<T>(optimizer.weight_decay);
  const auto rate = static_cast<T>(args.learning_rate / correction1);
  const auto inverse2 = static_cast<T>(1 / correction2);
  const auto scale = static_cast<T>(args.gradient_scale);
  const auto beta1 = static_cast<T>(optimizer.beta1);
  const auto beta2 = static_cast<T>(optimizer.beta2);
  const T rest1 = 1 - beta1;
  const T rest2 = 1 - beta2;
  const auto epsilon = static_cast<T>(optimizer.eps);
  T* const parameters = numbers.parameters;
  const T* const gradients = numbers.gradients;
  T* const firsts = numbers.first;
  T* const seconds = numbers.second;
#pragma omp simd
  for (int64_t i = 0; i < numbers.elements; ++i) {
    T gradient = gradients[i] * scale;
    if constexpr (!decouples) gradient += parameters[i] * added;
    const T first = firsts[i] * beta1 + gradient * rest1;
    const T second = seconds[i] * beta2 + gradient * gradient * rest2;
    firsts[i] = first;
    seconds[i] = second;
    const T before = decouples ? parameters[i] * decay : parameters[i];
    parameters[i] = before - rate * first / (std::sqrt(second * inverse2) + epsilon);
  }
}

// Without dampening, and without Nesterov's step; decay is a part of the gradient.
template <typename T>
void UpdateSgd(const Numbers<T>& numbers, const UpdateArgs& args) {
  const auto decay = static_cast<T>(args.optimizer.weight_decay);
  const auto momentum = static_cast<T>(args.optimizer.momentum);
  const auto rate = static_cast<T>(args.learning_rate);
  const auto scale = static_cast<T>(args.gradient_scale);
  T* const parameters = numbers.parameters;
  const T* const gradients = numbers.gradients;
  T* const moments = numbers.first;
  if (moments == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < numbers.elements; ++i) {
      parameters[i] -= rate * (gradients[i] * scale + parameters[i] * decay);
    }
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < numbers.elements; ++i) {
    moments[i] = moments[i] * momentum + (gradients[i] * scale + parameters[i] * decay);
    parameters[i] -= rate * moments[i];
  }
}

template <typename T>
void UpdateNumbers(const Numbers<T>& numbers, const UpdateArgs& args) {
  switch (args.optimizer.kind) {
    case OptimizerKind::kAdamw:
      return UpdateAdam<T, true>(numbers, args);
    case OptimizerKind::kAdam:
      return UpdateAdam<T, false>(numbers, args);
    case OptimizerKind::kSgd:
      return UpdateSgd<T>(numbers, args);
  }
}

// Numbers that are decoded, or of a narrower type, go through memory that stays in the first-level
// cache.
constexpr int64_t kPieceElements = 4 * plan::kStateBlockElements;

template <typename T>
class Pieces {
 public:
  Pieces(const UpdateMemory<T>& memory, const UpdateArgs& args) : memory_(memory), args_(args) {}

  void Update(int64_t from, int64_t elements) {
    Numbers<T> numbers{memory_.parameters + from, GradientAt(from, elements), nullptr, nullptr,
                       elements};
    numbers.first = StateAt(0, from, elements);
    numbers.second = StateAt(1, from, elements);
    UpdateNumbers(numbers, args_);
    for (size_t tensor = 0; tensor < state_.size(); ++tensor) {
      const StateMemory& state = memory_.state[tensor];
      if (state.scales == nullptr) continue;
      EncodeBlocks(state_[tensor].data(), elements, RangeOf(tensor), CodesOf(state) + from,
                   state.scales + from / plan::kStateBlockElements);
    }
  }

 private:
  static uint8_t* CodesOf(const StateMemory& state) { return static_cast<uint8_t*>(state.values); }
  // Adam's second moment is a mean of squares.
  BlockRange RangeOf(size_t tensor) const {
    return tensor == 1 ? BlockRange::kNeverNegative : BlockRange::kSigned;
  }

  const T* GradientAt(int64_t from, int64_t elements) {
    if (plan::BytesOf(memory_.gradient_dtype) == sizeof(T)) {
      return static_cast<const T*>(memory_.gradient) + from;
    }
    Widen(memory_.gradient, memory_.gradient_dtype, from, elements, gradient_.data());
    return gradient_.data();
  }

  T* StateAt(size_t tensor, int64_t from, int64_t elements) {
    const StateMemory& state = memory_.state[tensor];
    if (state.values == nullptr) return nullptr;
    if (state.scales == nullptr) return static_cast<T*>(state.values) + from;
    DecodeBlocks(CodesOf(state) + from, state.scales + from / plan::kStateBlockElements, elements,
                 RangeOf(tensor), state_[tensor].data());
    return state_[tensor].data();
  }

  const UpdateMemory<T>& memory_;
  const UpdateArgs& args_;
  std::array<T, kPieceElements> gradient_;
  std::array<std::array<T, kPieceElements>, 2> state_;
};

}  // namespace

template <typename T>
void Update(const UpdateMemory<T>& memory, const UpdateArgs& args) {
  const bool is_plain = plan::BytesOf(memory.gradient_dtype) == sizeof(T) &&
                        memory.state[0].scales == nullptr && memory.state[1].scales == nullptr;
  Pieces<T> pieces(memory, args);
  const int64_t most = is_plain ? memory.elements : kPieceElements;
  for (int64_t from = 0; from < memory.elements; from += most) {
    pieces.Update(from, std::min(most, memory.elements - from));
  }
}

template void Update<float>(const UpdateMemory<float>& memory, const UpdateArgs& args);
template void Update<double>(const UpdateMemory<double>& memory, const UpdateArgs& args);

}  // namespace shardscope::runtime
