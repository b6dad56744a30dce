#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/tokenizer/expression.h"

#include <pcre2.h>

#include <array>
#include <utility>

#include "trace/base/check.h"

namespace shardscope::tokenizer {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;
constexpr size_t kFirstJitStackBytes = 32 << 10;
constexpr size_t kMaxJitStackBytes = 16 << 20;
// Steps of backtracking until an expression is given up: a second or so.
constexpr uint32_t kMatchLimit = 20'000'000;

std::string MessageOf(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Oniguruma's classes in PCRE2's words.
Result<std::string> InDialect(std::string_view pattern) {
  std::string rewritten;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      rewritten += pattern[i];
      continue;
    }
    const char next = pattern[++i];
    if (next == 's') {
      rewritten += "\\p{White_Space}";
    } else if (next == 'S') {
      rewritten += "\\P{White_Space}";
    } else if (next == 'h' || next == 'H') {
      return Status::Error("\\h in the expression '" + std::string(pattern) + "' is not supported");
    } else {
      rewritten += {'\\', next};
    }
  }
  return rewritten;
}

}  // namespace

struct Expression::Code {
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
  bool has_jit = false;

  Status Compile(std::string_view pattern, uint32_t options) {
    if (pattern.size() > kMaxPatternBytes) {
      return Status::Error("an expression of " + std::to_string(pattern.size()) +
                           " bytes is too long");
    }
    int error = 0;
    PCRE2_SIZE where = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                         options | PCRE2_UTF, &error, &where, nullptr);
    if (code == nullptr) {
      return Status::Error("the expression '" + std::string(pattern) + "' is not understood: " +
                           MessageOf(error) + " at its byte " + std::to_string(where));
    }
    has_jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;  // else it is interpreted
    return Status::Ok();
  }
};

Expression::Expression(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(Expression&&) noexcept = default;
Expression::~Expression() = default;

Result<Expression> Expression::Compile(std::string_view pattern) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string rewritten, InDialect(pattern));
  auto code = std::make_unique<Code>();
  SHARDSCOPE_RETURN_IF_ERROR(
      code->Compile(rewritten, PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C));
  return Expression(std::move(code));
}

Result<Expression> Expression::Literal(std::string_view text) {
  auto code = std::make_unique<Code>();
  SHARDSCOPE_RETURN_IF_ERROR(code->Compile(text, PCRE2_LITERAL));
  return Expression(std::move(code));
}

struct Matcher::State {
  State()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr)) {
    SHARDSCOPE_CHECK(data != nullptr && context != nullptr && stack != nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_match_limit(context, kMatchLimit);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

Matcher::Matcher() : state_(std::make_unique<State>()) {}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

Result<Matcher::Match> Matcher::Find(const Expression& expression, std::string_view text,
                                     size_t from) {
  const Expression::Code& code = *expression.code_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto options = static_cast<uint32_t>(PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY);
  const int result = code.has_jit ? pcre2_jit_match(code.code, subject, text.size(), from, options,
                                                    state_->data, state_->context)
                                  : pcre2_match(code.code, subject, text.size(), from, options,
                                                state_->data, state_->context);
  if (result == PCRE2_ERROR_NOMATCH) return Match();
  if (result < 0) {
    return Status::Error("the pre-tokeniser's expression gave up behind byte " +
                         std::to_string(from) + ": " + MessageOf(result));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state_->data);
  if (offsets[0] < from || offsets[1] <= offsets[0]) {  // \K in a lookaround can do that
    return Status::Error("the pre-tokeniser's expression ends before it starts");
  }
  return Match{true, offsets[0], offsets[1]};
}

}  // namespace shardscope::tokenizer
