// Values that a pickle or JSON text holds: data only, shared where the file shares it.
//
// A Document owns the bytes of its file, and texts point into them. Lists and dictionaries are
// numbers of containers, so that what refers to itself leaks nothing and what is referred to a
// million times is there once. Walks over a Document have the shape that they expect and go no
// deeper; lists that stand in several places are told apart by Value::container().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::pickle {

enum class ValueKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kReal,  // also whole numbers beyond 64 bits
  kText,
  kBytes,
  kList,
  kTuple,
  kSet,
  kDict,      // keys and values in turn
  kFunction,  // one of the few that make data of data; only while a pickle is read
};

// 16 bytes: a snapshot has tens of millions.
class Value {
 public:
  Value() = default;
  static Value Bool(bool value) { return {ValueKind::kBool, 0, {.whole = value ? 1 : 0}}; }
  static Value Int(int64_t value) { return {ValueKind::kInt, 0, {.whole = value}}; }
  static Value Real(double value) { return {ValueKind::kReal, 0, {.real = value}}; }
  // The bytes outlive the value; at most 4 GiB.
  static Value Text(std::string_view text, ValueKind kind = ValueKind::kText) {
    return {kind, static_cast<uint32_t>(text.size()), {.text = text.data()}};
  }
  static Value Container(ValueKind kind, uint32_t container) {
    return {kind, container, {.whole = 0}};
  }
  static Value Function(uint32_t number) { return {ValueKind::kFunction, number, {.whole = 0}}; }

  ValueKind kind() const { return kind_; }
  bool is_none() const { return kind_ == ValueKind::kNone; }
  bool is_text() const { return kind_ == ValueKind::kText; }
  bool is_container() const { return kind_ >= ValueKind::kList && kind_ <= ValueKind::kDict; }
  // Of a list, tuple, set or dictionary: equal for those that are the same one.
  uint32_t container() const { return number_; }
  uint32_t function() const { return number_; }

  // Empty if it is no text, and no bytes.
  std::string_view text() const {
    return kind_ == ValueKind::kText || kind_ == ValueKind::kBytes
               ? std::string_view(data_.text, number_)
               : std::string_view();
  }
  // Whole numbers, truth values, and real numbers without their fraction; none if it is no number
  // or does not fit.
  std::optional<int64_t> whole() const;
  std::optional<double> real() const;

 private:
  union Data {
    int64_t whole = 0;
    double real;
    const char* text;
  };
  Value(ValueKind kind, uint32_t number, Data data) : kind_(kind), number_(number), data_(data) {}

  ValueKind kind_ = ValueKind::kNone;
  uint32_t number_ = 0;  // length of a text, number of a container or function
  Data data_;
};
static_assert(sizeof(Value) == 16);

// The pairs of a dictionary, in the order of the file.
class Fields {
 public:
  struct Field {
    const Value& key;
    const Value& value;
  };
  class Iterator {
   public:
    explicit Iterator(const Value* at) : at_(at) {}
    Field operator*() const { return {at_[0], at_[1]}; }
    Iterator& operator++() {
      at_ += 2;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const Value* at_;
  };

  // Key, value, key, ...
  explicit Fields(std::span<const Value> items) : items_(items) {}

  Iterator begin() const { return Iterator(items_.data()); }
  Iterator end() const { return Iterator(items_.data() + items_.size() / 2 * 2); }

 private:
  std::span<const Value> items_;
};

class Document {
 public:
  // `bytes`: what texts of its values may point into.
  explicit Document(std::string bytes) : bytes_(std::make_unique<std::string>(std::move(bytes))) {}

  const std::string& bytes() const { return *bytes_; }
  const Value& root() const { return root_; }

  // What a list, tuple or set holds, or a dictionary: key, value, key, ...; else nothing. Valid
  // until something is added.
  std::span<const Value> Items(const Value& value) const;
  // Of a dictionary; of anything else there are none. Valid likewise.
  Fields FieldsOf(const Value& value) const;

  // Of a dictionary, the value behind a text as key: the last one if there are several; nullptr if
  // there is none, or `value` is no dictionary. Looks at the last kMostFields pairs only: what has
  // more is no record.
  const Value* Find(const Value& value, std::string_view key) const;
  static constexpr size_t kMostFields = 256;

  // None if it is not there, or not of this kind.
  std::optional<int64_t> Whole(const Value& value, std::string_view key) const;
  std::string_view Text(const Value& value, std::string_view key) const;

  // --- for what reads one ---
  void SetRoot(Value root) { root_ = root; }
  // Errors: there are too many.
  Result<Value> AddContainer(ValueKind kind);
  Status Append(const Value& container, std::span<const Value> items);
  // A text that does not stand in the file.
  Value AddText(std::string text, ValueKind kind = ValueKind::kText);

 private:
  // Where the items of one lie; it has room for some more.
  struct Container {
    uint64_t begin = 0;
    uint32_t size = 0;
    uint32_t room = 0;
  };

  std::unique_ptr<std::string> bytes_;  // never moves: texts point into it
  std::deque<std::string> texts_;       // likewise
  std::vector<Container> containers_;
  std::vector<Value> items_;
  Value root_;
};

// For people: None, 7, "text", or what kind of container it is; shortened.
std::string Describe(const Value& value);

}  // namespace shardscope::pickle
