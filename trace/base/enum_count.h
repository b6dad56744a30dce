// How many values an enum has, as the compiler names them: a table of one entry a value does not
// compile with one too few or too many.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardscope {
namespace enum_count_internal {

// GCC and clang write an enumerator as "Enum::kName" and another number as "(Enum)7".
template <auto kValue>
constexpr bool IsEnumerator() {
  const std::string_view text = __PRETTY_FUNCTION__;
  return text[text.find_last_of(":)") + 1] == 'k';
}

template <typename Enum, size_t kFrom = 0>
constexpr size_t Count() {
  if constexpr (IsEnumerator<static_cast<Enum>(kFrom)>()) return Count<Enum, kFrom + 1>();
  return kFrom;
}

}  // namespace enum_count_internal

// Of an enum with an underlying type, whose values go from 0 without a gap and have names in k.
template <typename Enum>
inline constexpr size_t kCountOf = enum_count_internal::Count<Enum>();

}  // namespace shardscope
