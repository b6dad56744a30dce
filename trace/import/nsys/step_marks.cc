#include "trace/import/nsys/step_marks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <utility>

namespace shardscope::imports {
namespace {

// In lower case, without what is between words.
constexpr std::array<std::string_view, 13> kStems = {
    "step",      "iteration",        "iter",          "trainstep",  "trainingstep",
    "trainiter", "globalstep",       "batch",         "trainbatch", "profilerstep",
    "minibatch", "runtrainingbatch", "trainiteration"};

}  // namespace

std::optional<StepMark> StepMarkOf(std::string_view name) {
  constexpr size_t kLongest = 48;
  if (name.size() > kLongest) return std::nullopt;
  StepMark mark;
  const size_t digits = std::min(name.find_first_of("0123456789"), name.size());
  for (const char c : name.substr(0, digits)) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalpha(letter) != 0) {
      mark.stem += static_cast<char>(std::tolower(letter));
    } else if (std::string_view(" _-#:=./[(").find(c) == std::string_view::npos) {
      return std::nullopt;
    }
  }
  if (std::ranges::find(kStems, mark.stem) == kStems.end()) return std::nullopt;
  if (digits == name.size()) return mark;
  const char* const from = name.data() + digits;
  const char* const to = name.data() + name.size();
  const auto [end, error] = std::from_chars(from, to, mark.number);
  const std::string_view rest(end, static_cast<size_t>(to - end));
  if (error != std::errc() || (rest != "" && rest != "]" && rest != ")")) return std::nullopt;
  return mark;
}

std::vector<RecordedStep> FindSteps(const Recording& recording) {
  std::vector<std::optional<StepMark>> marks;
  marks.reserve(recording.names.size());
  for (Names::Index name = 0; name < recording.names.size(); ++name)
    marks.push_back(StepMarkOf(recording.names[name]));
  struct Kind {
    std::vector<RecordedStep> steps;
    int64_t total_ns = 0;
  };
  std::map<std::pair<uint32_t, std::string>, Kind> kinds;  // by track
  for (const RecordedSpan& span : recording.spans) {
    const std::optional<StepMark>& mark = marks[span.name];
    if (!mark || recording.tracks[span.track].IsOfDevice()) continue;
    Kind& kind = kinds[{span.track, mark->stem}];
    kind.steps.push_back({mark->number, span.start_ns, span.duration_ns});
    kind.total_ns += span.duration_ns;
  }
  std::vector<RecordedStep> longest;
  int64_t most_ns = -1;
  for (auto& [where, kind] : kinds) {
    std::ranges::sort(kind.steps, {}, &RecordedStep::start_ns);
    const auto overlap = [](const RecordedStep& a, const RecordedStep& b) {
      return b.start_ns < a.start_ns + a.duration_ns;
    };
    const bool is_nested = std::ranges::adjacent_find(kind.steps, overlap) != kind.steps.end();
    // One range without a number may be anything.
    const bool is_step = kind.steps.size() > 1 || kind.steps.front().number >= 0;
    if (is_nested || !is_step || kind.total_ns <= most_ns) continue;
    most_ns = kind.total_ns;
    longest = kind.steps;
  }
  int64_t number = 0;
  for (RecordedStep& step : longest) {
    if (step.number < 0) step.number = number;
    number = step.number < INT64_MAX ? step.number + 1 : number;
  }
  return longest;
}

}  // namespace shardscope::imports
