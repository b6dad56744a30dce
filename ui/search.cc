#include "ui/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "trace/base/text.h"
#include "ui/text.h"

namespace shardscope::ui {
namespace {

using analysis::SearchHit;
using Problem = analysis::SearchError::Problem;

bool IsSame(const SearchHit& a, const SearchHit& b) {
  if (a.what != b.what || a.rank != b.rank || a.start_ns != b.start_ns) return false;
  // Rows are numbered anew where a Snapshot replaces the one before; markers have only those.
  if (a.what == analysis::HitKind::kMarker) return a.row == b.row;
  return a.op_run == b.op_run && a.span == b.span;
}

size_t FirstFrom(const std::vector<SearchHit>& hits, int64_t time_ns) {
  const auto first = std::partition_point(
      hits.begin(), hits.end(), [time_ns](const SearchHit& hit) { return hit.start_ns < time_ns; });
  return static_cast<size_t>(first - hits.begin());
}

const char* ChineseProblem(Problem problem) {
  switch (problem) {
#define SHARDSCOPE_SEARCH_PROBLEM(name, chinese) \
  case Problem::name:                            \
    return chinese;
#include "ui/catalogue/search_problems.inc"
#undef SHARDSCOPE_SEARCH_PROBLEM
  }
  return "";
}

}  // namespace

std::optional<size_t> CurrentHit(const SearchState& search) {
  if (search.found == nullptr || !search.current) return std::nullopt;
  const std::vector<SearchHit>& hits = search.found->result.hits;
  for (size_t at = FirstFrom(hits, search.current->start_ns);
       at < hits.size() && hits[at].start_ns == search.current->start_ns; ++at) {
    if (IsSame(hits[at], *search.current)) return at;
  }
  return std::nullopt;
}

Commands StepToHit(const Context& context, int by) {
  const SearchState& search = context.search;
  if (!search.open) return {ShowSearch{true, Trim(search.text).empty() ? 0 : by}};
  if (search.found == nullptr || search.found->text != search.text) return {};
  const std::vector<SearchHit>& hits = search.found->result.hits;
  const auto count = static_cast<int64_t>(hits.size());
  if (count == 0) return {};
  const std::optional<size_t> current = CurrentHit(search);
  // One before the first that is asked for.
  const int64_t from =
      current ? static_cast<int64_t>(*current)
              : static_cast<int64_t>(FirstFrom(hits, context.view.start_ns)) - (by > 0 ? 1 : 0);
  return {SelectHit{static_cast<size_t>(((from + by) % count + count) % count)}};
}

std::string SearchErrorText(Language language, const analysis::SearchError& error) {
  if (language == Language::kEnglish) {
    std::string sentence = SearchErrorSentence(error) + ".";
    // Those of a term begin with it, as it was written.
    if (error.term.empty()) sentence.front() = static_cast<char>(std::toupper(sentence.front()));
    return sentence;
  }
  std::string text =
      fmt::format(fmt::runtime(ChineseProblem(error.problem)), error.term, error.hint);
  const bool may_be_meant =
      error.problem == Problem::kUnknownTerm || error.problem == Problem::kUnknownKind;
  if (may_be_meant && !error.hint.empty()) {
    text = TrFormat(language, Text::kSearchMeant, error.hint) + " " + text;
  }
  return text;
}

}  // namespace shardscope::ui
