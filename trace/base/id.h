// Id: the number of a row, of a type of its own for each table, so that none passes for another's.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>

namespace shardscope {

template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(int64_t value) : value_(value) {}

  // Refers to no row. Damaged files may have any negative number for it.
  static constexpr Id None() { return Id(-1); }
  constexpr bool is_none() const { return value_ < 0; }

  // For text, SQL and what packs ids.
  constexpr int64_t value() const { return value_; }

  friend constexpr auto operator<=>(Id, Id) = default;
  friend constexpr bool operator==(Id, Id) = default;

  // What gtest shows.
  friend void PrintTo(Id id, std::ostream* out) { *out << id.value_; }

 private:
  int64_t value_ = 0;
};

}  // namespace shardscope

template <typename Tag>
struct std::hash<shardscope::Id<Tag>> {
  size_t operator()(shardscope::Id<Tag> id) const { return std::hash<int64_t>()(id.value()); }
};
