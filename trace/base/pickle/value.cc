#include "trace/base/pickle/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/base/text.h"

namespace shardscope::pickle {
namespace {

// 4 GiB of items, and containers likewise: a hundred times what a snapshot of a million events has
// is no snapshot.
constexpr size_t kMostItems = size_t{1} << 28;
constexpr size_t kMostContainers = size_t{1} << 27;

}  // namespace

std::optional<int64_t> Value::whole() const {
  if (kind_ == ValueKind::kInt || kind_ == ValueKind::kBool) return data_.whole;
  // Exact powers of two, so that the comparison is.
  constexpr double kLimit = 9223372036854775808.0;
  if (kind_ == ValueKind::kReal && data_.real >= -kLimit && data_.real < kLimit) {
    return static_cast<int64_t>(data_.real);
  }
  return std::nullopt;
}

std::optional<double> Value::real() const {
  if (kind_ == ValueKind::kReal) return data_.real;
  if (kind_ == ValueKind::kInt || kind_ == ValueKind::kBool)
    return static_cast<double>(data_.whole);
  return std::nullopt;
}

std::span<const Value> Document::Items(const Value& value) const {
  if (!value.is_container()) return {};
  const Container& container = containers_[value.container()];
  return std::span(items_).subspan(container.begin, container.size);
}

Fields Document::FieldsOf(const Value& value) const {
  return Fields(value.kind() == ValueKind::kDict ? Items(value) : std::span<const Value>());
}

const Value* Document::Find(const Value& value, std::string_view key) const {
  if (value.kind() != ValueKind::kDict) return nullptr;
  const std::span<const Value> items = Items(value);
  const size_t oldest = items.size() > 2 * kMostFields ? items.size() - 2 * kMostFields : 0;
  for (size_t at = items.size(); at >= oldest + 2; at -= 2) {
    const Value& name = items[at - 2];
    if (name.is_text() && name.text() == key) return &items[at - 1];
  }
  return nullptr;
}

std::optional<int64_t> Document::Whole(const Value& value, std::string_view key) const {
  const Value* const found = Find(value, key);
  return found == nullptr ? std::nullopt : found->whole();
}

std::string_view Document::Text(const Value& value, std::string_view key) const {
  const Value* const found = Find(value, key);
  return found == nullptr ? std::string_view() : found->text();
}

Result<Value> Document::AddContainer(ValueKind kind) {
  if (containers_.size() >= kMostContainers) {
    return Status::Error(fmt::format("it has more than {} lists", kMostContainers));
  }
  containers_.push_back({items_.size(), 0, 0});
  return Value::Container(kind, static_cast<uint32_t>(containers_.size() - 1));
}

// The newest container grows in place; another one moves to the end with room for as much again, so
// that all moves together cost no more than the items themselves.
Status Document::Append(const Value& container, std::span<const Value> items) {
  Container& to = containers_[container.container()];
  const size_t size = to.size + items.size();
  if (items_.size() + 2 * size > kMostItems) {
    return Status::Error(fmt::format("it has more than {} values", kMostItems));
  }
  if (to.begin + to.room == items_.size()) {
    items_.resize(to.begin + size);
    to.room = static_cast<uint32_t>(size);
  } else if (size > to.room) {
    const size_t room = to.size == 0 ? size : 2 * size;
    const size_t begin = items_.size();
    items_.resize(begin + room);
    std::copy_n(items_.begin() + static_cast<std::ptrdiff_t>(to.begin), to.size,
                items_.begin() + static_cast<std::ptrdiff_t>(begin));
    to.begin = begin;
    to.room = static_cast<uint32_t>(room);
  }
  std::copy(items.begin(), items.end(),
            items_.begin() + static_cast<std::ptrdiff_t>(to.begin + to.size));
  to.size = static_cast<uint32_t>(size);
  return Status::Ok();
}

Value Document::AddText(std::string text, ValueKind kind) {
  texts_.push_back(std::move(text));
  return Value::Text(texts_.back(), kind);
}

std::string Describe(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
      return "None";
    case ValueKind::kBool:
      return *value.whole() != 0 ? "True" : "False";
    case ValueKind::kInt:
      return std::to_string(*value.whole());
    case ValueKind::kReal:
      return fmt::format("{}", *value.real());
    case ValueKind::kText:
      return Shortened(Printable(value.text().substr(0, 256)), 80);
    case ValueKind::kBytes:
      return "bytes";
    case ValueKind::kList:
      return "a list";
    case ValueKind::kTuple:
      return "a tuple";
    case ValueKind::kSet:
      return "a set";
    case ValueKind::kDict:
      return "a dictionary";
    case ValueKind::kFunction:
      return "a function";
  }
  return "";
}

}  // namespace shardscope::pickle
