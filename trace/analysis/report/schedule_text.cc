#include "trace/analysis/report/schedule_text.h"

#include <charconv>

#include "trace/base/text.h"

namespace shardscope::analysis {
namespace {

// What stands between the first two quotes of a line.
std::string_view Quoted(std::string_view line) {
  const size_t begin = line.find('"');
  const size_t end = begin == std::string_view::npos ? begin : line.find('"', begin + 1);
  return end == std::string_view::npos ? "" : line.substr(begin + 1, end - begin - 1);
}

}  // namespace

std::vector<std::string> ParametersOf(std::string_view text, std::string_view unit) {
  std::vector<std::string> parameters;
  bool inside = false;
  for (const std::string_view line : Split(text, '\n')) {
    if (line.starts_with("  parameter ")) {
      if (inside) parameters.emplace_back(Quoted(line));
      continue;
    }
    if (inside || line.starts_with("program ")) break;
    inside = line.starts_with("unit ") && Quoted(line) == unit;
  }
  return parameters;
}

std::vector<int32_t> ProgramsOfRanks(std::string_view text) {
  constexpr std::string_view kBefore = "rank_programs ranks=";  // in the last line
  const size_t at = text.rfind(kBefore);
  if (at == std::string_view::npos) return {};
  const std::string_view list = FirstLine(text.substr(at + kBefore.size()));
  std::vector<int32_t> programs;
  for (const std::string_view number : Split(list, ',')) {
    int32_t program = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), program);
    if (error != std::errc() || end != number.data() + number.size()) return {};
    programs.push_back(program);
  }
  return programs;
}

}  // namespace shardscope::analysis
