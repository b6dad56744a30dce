// Expression: a regular expression of tokenizer.json, found in UTF-8 text again and again. Compiled
// by PCRE2 with its JIT.
//
// Note: Dialect. `tokenizers` uses Oniguruma, whose \s is Unicode's White_Space and whose ^ and $
// are those of lines; PCRE2 is set and the expression rewritten to that. What the two would read
// differently (\h) is refused.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "trace/base/status.h"

namespace shardscope::tokenizer {

// Immutable; threads: any, each with a Matcher of its own.
class Expression {
 public:
  // Error: what PCRE2 says of it, and where.
  static Result<Expression> Compile(std::string_view pattern);
  // The text itself.
  static Result<Expression> Literal(std::string_view text);

  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;
  ~Expression();

 private:
  friend class Matcher;
  struct Code;
  explicit Expression(std::unique_ptr<Code> code);

  std::unique_ptr<Code> code_;
};

// Where an expression is found in a text. One thread at a time.
class Matcher {
 public:
  Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

  struct Match {
    bool found = false;
    size_t start = 0;
    size_t end = 0;
  };
  // The first match that is not empty and starts at `from` or later. `text` is valid UTF-8. Error:
  // an expression that backtracks too much.
  Result<Match> Find(const Expression& expression, std::string_view text, size_t from);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardscope::tokenizer
