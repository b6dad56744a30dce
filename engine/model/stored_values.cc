#include "engine/model/stored_values.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <type_traits>

#include "engine/plan/formats.h"

namespace shardscope::model {
namespace {

// Calls body with the dtype's format.
template <typename Body>
bool WithStoredFormat(at::ScalarType type, const Body& body) {
  switch (type) {
    case at::kFloat:
      return body(plan::Fp32Format());
    case at::kDouble:
      return body(plan::Fp64Format());
    case at::kBFloat16:
      return body(plan::Bf16Format());
    case at::kHalf:
      return body(plan::Fp16Format());
    default:
      TORCH_CHECK(false, "model: stored values are not fp32, bf16, fp16 or fp64");
  }
}

// Without branches. A number less itself is zero, unless it is none.
template <typename From, typename To>
bool ConvertAs(const std::byte* __restrict from, int64_t count,
               typename To::Stored* __restrict to) {
  using Wide = typename From::Sum;
  using Count = std::conditional_t<std::is_same_v<Wide, double>, uint64_t, uint32_t>;
  Count broken = 0;
  for (int64_t i = 0; i < count; ++i) {
    typename From::Stored stored;  // files align nothing
    std::memcpy(&stored, from + i * static_cast<int64_t>(sizeof(stored)), sizeof(stored));
    const Wide value = From::Load(stored);
    broken |= value - value == 0 ? 0 : 1;
    if constexpr (std::is_same_v<From, To>) {
      to[i] = stored;
    } else {
      to[i] = To::Store(static_cast<typename To::Sum>(value));
    }
  }
  return broken == 0;
}

}  // namespace

bool ConvertValues(const std::byte* from, at::ScalarType from_type, int64_t count,
                   at::ScalarType to_type, void* to) {
  return WithStoredFormat(from_type, [&](auto from_format) {
    return WithStoredFormat(to_type, [&](auto to_format) {
      using To = decltype(to_format);
      return ConvertAs<decltype(from_format), To>(from, count,
                                                  static_cast<typename To::Stored*>(to));
    });
  });
}

}  // namespace shardscope::model
