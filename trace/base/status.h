// Status and Result<T>: how everything outside engine/runtime reports errors. A message says what
// is wrong, with which thing, and the remedy; it is written for the user and printed once, by
// what stops on it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "trace/base/check.h"

namespace shardscope {

class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status Ok() { return Status(); }
  static Status Error(std::string message) {
    Status status;
    status.message_ = std::move(message);
    return status;
  }

  bool ok() const { return !message_.has_value(); }
  const std::string& message() const {
    static const std::string kNone;
    return message_ ? *message_ : kNone;
  }

 private:
  std::optional<std::string> message_;
};

// A value or an error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design, as std::expected
  Result(Status status) : status_(std::move(status)) { SHARDSCOPE_CHECK(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  const std::string& message() const { return status_.message(); }

  T& value() & {
    SHARDSCOPE_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    SHARDSCOPE_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    SHARDSCOPE_CHECK(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace shardscope

// Returns the error of `expression` (a Status) from the calling function, if it is one.
#define SHARDSCOPE_RETURN_IF_ERROR(expression)               \
  do {                                                       \
    ::shardscope::Status shardscope_status_ = (expression);  \
    if (!shardscope_status_.ok()) return shardscope_status_; \
  } while (false)

// Gives `declaration` the value of an expression (a Result), or returns its error from the calling
// function. Two statements: not the body of an `if` without braces.
#define SHARDSCOPE_ASSIGN_OR_RETURN(declaration, ...)                                       \
  SHARDSCOPE_ASSIGN_OR_RETURN_(SHARDSCOPE_JOIN_(shardscope_result_, __LINE__), declaration, \
                               __VA_ARGS__)
#define SHARDSCOPE_ASSIGN_OR_RETURN_(result, declaration, ...) \
  auto result = (__VA_ARGS__);                                 \
  if (!result.ok()) return result.status();                    \
  declaration = std::move(result).value()
#define SHARDSCOPE_JOIN_(a, b) SHARDSCOPE_JOIN2_(a, b)
#define SHARDSCOPE_JOIN2_(a, b) a##b
