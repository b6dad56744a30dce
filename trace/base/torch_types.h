// Types of numbers as PyTorch names them in what it records of collectives
// (c10/core/ScalarType.h: "BFloat16"), and as the trace does ("bf16": words::DType).
#pragma once

#include <cstdint>
#include <string_view>

namespace shardscope {

// Bytes of an element; 0: no type of PyTorch's.
int64_t BytesOfTorchType(std::string_view torch);

// "bf16" of "BFloat16"; what the trace has no word for stays.
std::string_view TypeOfTorchType(std::string_view torch);

// "BFloat16" of "bf16"; empty: the trace has no such word.
std::string_view TorchTypeOf(std::string_view type);

}  // namespace shardscope
