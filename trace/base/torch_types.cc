#include "trace/base/torch_types.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "trace/base/words.h"

namespace shardscope {
namespace {

using words::DType;

struct TorchType {
  std::string_view name;
  int64_t bytes = 0;
  std::optional<DType> dtype;
};

constexpr TorchType kTorchTypes[] = {{"Byte", 1, {}},
                                     {"Char", 1, {}},
                                     {"Short", 2, {}},
                                     {"Int", 4, {}},
                                     {"Long", 8, {}},
                                     {"Half", 2, DType::kFp16},
                                     {"Float", 4, DType::kFp32},
                                     {"Double", 8, DType::kFp64},
                                     {"Bool", 1, {}},
                                     {"BFloat16", 2, DType::kBf16},
                                     {"Float8_e5m2", 1, {}},
                                     {"Float8_e4m3fn", 1, {}},
                                     {"Float8_e5m2fnuz", 1, {}},
                                     {"Float8_e4m3fnuz", 1, {}},
                                     {"Float8_e8m0fnu", 1, {}},
                                     {"ComplexFloat", 8, {}},
                                     {"ComplexDouble", 16, {}},
                                     {"UInt16", 2, {}},
                                     {"UInt32", 4, {}},
                                     {"UInt64", 8, {}}};

const TorchType* FindTorchType(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes),
                   [name](const TorchType& type) { return type.name == name; });
  return found == std::end(kTorchTypes) ? nullptr : found;
}

}  // namespace

int64_t BytesOfTorchType(std::string_view torch) {
  const TorchType* const type = FindTorchType(torch);
  return type == nullptr ? 0 : type->bytes;
}

std::string_view TypeOfTorchType(std::string_view torch) {
  const TorchType* const type = FindTorchType(torch);
  return type == nullptr || !type->dtype ? torch : Name(*type->dtype);
}

std::string_view TorchTypeOf(std::string_view type) {
  const std::optional<DType> dtype = words::ParseDType(type);
  if (!dtype) return {};
  const auto* const found =
      std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes),
                   [dtype](const TorchType& one) { return one.dtype == dtype; });
  return found == std::end(kTorchTypes) ? std::string_view() : found->name;
}

}  // namespace shardscope
