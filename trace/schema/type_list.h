// TypeList: types to do the same with, such as the rows of all tables (lists of them stand in the
// generated trace/schema/rows.h).
#pragma once

namespace shardscope::schema {

template <typename... Types>
struct TypeList {};

// Calls visit.template operator()<Type>() for every type of a list.
template <typename F, typename... Types>
void ForEachType(TypeList<Types...>, F&& visit) {
  (visit.template operator()<Types>(), ...);
}

namespace internal {
template <template <typename...> typename Outer, template <typename> typename Inner, typename List>
struct Each;
template <template <typename...> typename Outer, template <typename> typename Inner,
          typename... Types>
struct Each<Outer, Inner, TypeList<Types...>> {
  using Type = Outer<Inner<Types>...>;
};
}  // namespace internal

// Outer<Inner<Type>, ...>, such as a tuple with a vector of every type of a list.
template <template <typename...> typename Outer, template <typename> typename Inner, typename List>
using Each = typename internal::Each<Outer, Inner, List>::Type;

}  // namespace shardscope::schema
