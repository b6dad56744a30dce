// What PyTorch, Hugging Face, torchtitan and this program call the same things.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::checkpoint {

struct TorchType {
  std::string_view name;         // torch.float32
  std::string_view storage;      // torch.FloatStorage
  std::string_view safetensors;  // empty: these have none
};
inline constexpr TorchType kTorchTypes[] = {
    {"float32", "FloatStorage", "F32"},       {"float64", "DoubleStorage", "F64"},
    {"float16", "HalfStorage", "F16"},        {"bfloat16", "BFloat16Storage", "BF16"},
    {"int64", "LongStorage", "I64"},          {"int32", "IntStorage", "I32"},
    {"int16", "ShortStorage", "I16"},         {"int8", "CharStorage", "I8"},
    {"uint8", "ByteStorage", "U8"},           {"bool", "BoolStorage", "BOOL"},
    {"complex64", "ComplexFloatStorage", ""}, {"complex128", "ComplexDoubleStorage", ""}};

// Of "torch.float32"; the name itself where safetensors have no such type.
std::string SafetensorsTypeOf(std::string_view torch_type);

// How rows of queries and keys are ordered within a head: the two halves of a rotation apart, as
// here and in Hugging Face's Llama, or in turn, as in Meta's and torchtitan's.
enum class RotaryOrder : uint8_t { kHalves, kPairs };

// Which rows of a tensor are the parameter's: torchtitan's optimizer may have queries, keys and
// values in one, in which each head of keys has the queries' that go with it, itself, and its
// values' behind one another (FusedQKVLinear), while its state_dict() has their weights apart.
enum class FusedPart : uint8_t { kNone, kQueries, kKeys, kValues };

struct TranslatedName {
  std::string parameter;             // as this program calls it
  std::string tensor = "parameter";  // or what the optimizer keeps of it: "exp_avg", "step"
  RotaryOrder order = RotaryOrder::kHalves;
  FusedPart part = FusedPart::kNone;
};

// Of a tensor of a checkpoint: "model.layers.0.self_attn.q_proj.weight",
// "optimizer.state.layers.0.attention.wq.weight.exp_avg", "block0.mlp.up.weight"; of what an
// optimizer keeps of a fused one three. Empty: it is nothing that this program has.
std::vector<TranslatedName> Translate(std::string_view name);

// Of a name that is nothing that this program has: whether it is a parameter of a block, without
// which the model computes something else.
bool IsUnknownOfBlock(std::string_view name);

}  // namespace shardscope::checkpoint
