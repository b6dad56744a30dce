#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "trace/analysis/find/search.h"
#include "trace/base/letter_case.h"
#include "trace/base/parse_number.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::analysis {
namespace {

using Problem = SearchError::Problem;

constexpr std::array<std::string_view, 5> kKeys = {"kind", "rank", "unit", "slower", "step"};
constexpr std::string_view kExposed = "exposed";

// Of things rather than of ops.
constexpr std::array<std::string_view, 4> kThings = {"op", "work", "range", "marker"};

struct Term {
  std::string written;
  std::string key;  // empty: a text
  std::string value;
  bool quoted = false;  // some of it
};

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

bool IsKey(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalpha(c) != 0 && c < 0x80;
  });
}

// Takes the next term away from `text`, which begins with it. false: a quote has no end.
bool TakeTerm(std::string_view* text, Term* term) {
  bool inside = false;
  size_t at = 0;
  for (; at < text->size() && (inside || !IsSpace((*text)[at])); ++at) {
    const char c = (*text)[at];
    // "at::native" is a name.
    const bool is_doubled = at + 1 < text->size() && (*text)[at + 1] == ':';
    if (c == '"') {
      inside = !inside;
      term->quoted = true;
    } else if (c == ':' && term->key.empty() && !term->quoted && !is_doubled &&
               IsKey(term->value)) {
      term->key = Lower(std::exchange(term->value, {}));
    } else {
      term->value += c;
    }
  }
  term->written = text->substr(0, at);
  text->remove_prefix(at);
  return !inside;
}

template <typename Enum>
void AddWords(std::vector<std::string>* words) {
  for (int at = 0; !words::Name(static_cast<Enum>(at)).empty(); ++at) {
    words->emplace_back(words::Name(static_cast<Enum>(at)));
  }
}

std::vector<std::string> AllKinds() {
  std::vector<std::string> kinds(kThings.begin(), kThings.end());
  AddWords<words::MarkerKind>(&kinds);
  AddWords<words::OpKind>(&kinds);
  AddWords<words::OpClass>(&kinds);
  AddWords<words::SpanCategory>(&kinds);
  AddWords<words::GpuWorkKind>(&kinds);
  return kinds;
}

std::string Nearest(std::string_view word, const std::vector<std::string>& words) {
  if (word.size() < 4) return "";  // as near to any other short word
  return NearestName(word, words).value_or("");
}

// Reads terms into the query until one of them is wrong.
class Reader {
 public:
  bool Read(const Term& term) {
    if (term.key.empty()) return ReadText(term);
    if (term.key == kExposed) return Fail(Problem::kNoValue, term);
    const std::vector<std::string> keys(kKeys.begin(), kKeys.end());
    if (std::find(keys.begin(), keys.end(), term.key) == keys.end()) {
      return Fail(Problem::kUnknownTerm, term, Nearest(term.key, keys));
    }
    if (term.key == "rank") return ReadNumber(term, &query_.rank);
    if (term.key == "step") return ReadNumber(term, &query_.step);
    if (term.key == "slower") return ReadDuration(term);
    if (term.value.empty()) {
      return Fail(Problem::kNoText, term, term.key == "kind" ? "all_gather" : "block1");
    }
    if (term.key == "kind") return ReadKind(term);
    query_.units.push_back(Lower(term.value));
    return true;
  }

  bool Fail(Problem problem, const Term& term, std::string hint = {}) {
    error_ = {problem, term.written, std::move(hint)};
    return false;
  }

  const SearchQuery& query() const { return query_; }
  const SearchError& error() const { return error_; }

 private:
  bool ReadText(const Term& term) {
    if (!term.quoted && Lower(term.value) == kExposed) {
      query_.exposed = true;
      return true;
    }
    const size_t equals = term.value.find('=');
    if (!term.quoted && equals != std::string::npos) {  // as links have it
      const std::string key = Lower(term.value.substr(0, equals));
      if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) {
        return Fail(Problem::kUnknownTerm, term, key + ":" + term.value.substr(equals + 1));
      }
    }
    if (!term.value.empty()) query_.texts.push_back(Lower(term.value));
    return true;
  }

  bool ReadKind(const Term& term) {
    std::string kind = Lower(term.value);
    std::replace(kind.begin(), kind.end(), '-', '_');  // as people write it
    const std::vector<std::string> kinds = AllKinds();
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
      return Fail(Problem::kUnknownKind, term, Nearest(kind, kinds));
    }
    query_.kinds.push_back(std::move(kind));
    return true;
  }

  bool ReadNumber(const Term& term, std::optional<int32_t>* number) {
    const auto value = ParseInteger<int32_t>(term.value, 0);
    if (!value) return Fail(Problem::kNoNumber, term, term.key);
    if (number->has_value()) return Fail(Problem::kTwice, term, term.key);
    *number = value;
    return true;
  }

  bool ReadDuration(const Term& term) {
    const std::optional<int64_t> duration = ParseDuration(term.value);
    if (!duration) return Fail(Problem::kNoDuration, term);
    if (query_.slower_ns) return Fail(Problem::kTwice, term, term.key);
    query_.slower_ns = duration;
    return true;
  }

  SearchQuery query_;
  SearchError error_;
};

}  // namespace

std::variant<SearchQuery, SearchError> ParseSearch(std::string_view text) {
  Reader reader;
  bool any = false;
  for (text = Trim(text); !text.empty(); text = Trim(text)) {
    Term term;
    if (!TakeTerm(&text, &term)) {
      reader.Fail(Problem::kOpenQuote, term);
      return reader.error();
    }
    if (!reader.Read(term)) return reader.error();
    any = any || !term.key.empty() || !term.value.empty();
  }
  if (!any) return SearchError{};
  return reader.query();
}

std::string SearchErrorSentence(const SearchError& error) {
  const std::string meant = error.hint.empty() ? "" : fmt::format("; did you mean {}?", error.hint);
  switch (error.problem) {
    case Problem::kEmpty:
      return "nothing to look for: give a part of a name, kind:, rank:, step:, unit:, slower: or "
             "exposed";
    case Problem::kOpenQuote:
      return fmt::format("{}: the quote has no end; close it", error.term);
    case Problem::kUnknownTerm:
      return fmt::format(
          "{}: there are kind:, rank:, step:, unit: and slower:{}{} Put it in quotes to find it in "
          "names",
          error.term, meant, meant.empty() ? "." : "");
    case Problem::kUnknownKind:
      return fmt::format(
          "{}: there is no such kind{}{} Kinds are those of ops (all_gather, "
          "forward), categories (compute, communication), op, work, kernel, range, "
          "marker, change and error",
          error.term, meant, meant.empty() ? "." : "");
    case Problem::kNoText:
      return fmt::format("{} says nothing: give a word, as in {}{}", error.term, error.term,
                         error.hint);
    case Problem::kNoNumber:
      return fmt::format("{}: give a number from 0, as in {}:1", error.term, error.hint);
    case Problem::kNoDuration:
      return fmt::format("{}: give a duration in ns, us, ms or s, as in slower:5ms", error.term);
    case Problem::kTwice:
      return fmt::format("{}: there is {}: already, and nothing has two; give it once", error.term,
                         error.hint);
    case Problem::kNoValue:
      return fmt::format("{}: exposed takes no value; write exposed alone", error.term);
  }
  return "";
}

}  // namespace shardscope::analysis
