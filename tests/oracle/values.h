// Symbolic values: what a buffer holds, as a hash of how it came about. Two orders of the same
// arithmetic give the same value, anything else (another input, another order of a sum, another
// rank's data) gives another one. Shared by the interpreter and the reference, because it *is* the
// arithmetic.
#pragma once

#include <cstdint>

#include "engine/plan/mesh.h"
#include "engine/plan/op.h"

namespace shardscope::oracle {

using Value = uint64_t;
inline constexpr Value kPoison = 0;  // never written, or freed

// The finaliser of splitmix64: a bijection without structure.
constexpr Value Scramble(Value value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// Depends on the order of its arguments.
constexpr Value Mix(Value first, Value second) { return Scramble(first ^ Scramble(second)); }

enum class Term : uint64_t {
  kInitial = 1,  // a persistent buffer before the step
  kBatch,
  kInputs,          // batches of all ranks
  kInput,           // one input of an op, by role
  kForward,         // what a segment's forward saves
  kNormForward,     // what its norm does, where that is apart
  kRecompute,       // what its forward did not keep beside its products
  kBackward,        // what a segment's backward makes
  kNormBackward,    // the same, of its second part where ranks share its work
  kWeightBackward,  // the same, of what is left until ranks add up
  kPart,            // of what was gathered, by its place among fewer ranks
  kGather,
  kReduceScatter,
  kAllReduce,
  kAdd,
  kUnscale,
  kNorm,
  kOptimizer,
};

// The roots of all values.
template <typename... Parts>
constexpr Value Symbol(Term term, Parts... parts) {
  Value value = Scramble(static_cast<Value>(term));
  ((value = Mix(value, static_cast<Value>(parts))), ...);
  return value;
}

// The same, wherever it lies.
constexpr plan::BufferKind OnDevice(plan::BufferKind kind) {
  using plan::BufferKind;
  if (kind == BufferKind::kHostParameterShard) return BufferKind::kParameterShard;
  if (kind == BufferKind::kHostGradientShard) return BufferKind::kGradientShard;
  return kind == BufferKind::kHostOptimizerState ? BufferKind::kOptimizerState : kind;
}

// One input of a compute or optimizer op. Such ops add up their inputs, so the order in which an op
// lists them does not matter, but what each of them is does. Parameters are the same whether they
// were gathered, cast or are the rank's own, gradients whether they are a slice or whole, and what
// segments pass on whether another rank sent it: copies change no value.
constexpr Value Input(const plan::Buffer& buffer, Value value) {
  using plan::BufferKind;
  const bool parameters =
      buffer.kind == BufferKind::kUnsharded || buffer.kind == BufferKind::kCastShard;
  const bool gradient =
      buffer.kind == BufferKind::kGradient || buffer.kind == BufferKind::kAccumulatedGradient;
  BufferKind role = OnDevice(buffer.kind);
  if (parameters) role = BufferKind::kParameterShard;
  if (gradient) role = BufferKind::kGradientShard;
  if (buffer.kind == BufferKind::kRecomputed) role = BufferKind::kActivation;
  if (buffer.kind == BufferKind::kReceivedActivation) role = BufferKind::kActivation;
  if (buffer.kind == BufferKind::kReceivedGradient) role = BufferKind::kActivationGradient;
  return Symbol(Term::kInput, role, buffer.unit, buffer.segment, value);
}

// Ranks with the same number read the same samples: those of a pipeline, the slowest dimension, and
// those that share the work of layers, the fastest.
inline int SamplesOf(const plan::Mesh& mesh, int rank) {
  return rank % (mesh.num_ranks() / mesh.size(plan::MeshDimension::kPipeline)) /
         mesh.size(plan::MeshDimension::kTensor);
}

// A small fast generator; the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(Scramble(seed)) {}
  uint64_t Next() { return Scramble(state_ += 0x9e3779b97f4a7c15U); }
  // Uniform in [0, count); count > 0.
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(count));
  }
  // Uniform in [low, high].
  int Between(int low, int high) { return low + static_cast<int>(Below(high - low + 1)); }
  bool OneIn(int64_t count) { return Below(count) == 0; }

 private:
  uint64_t state_;
};

}  // namespace shardscope::oracle
