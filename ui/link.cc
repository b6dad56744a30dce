#include "ui/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "trace/analysis/names.h"
#include "trace/base/number_list.h"
#include "trace/base/parse_number.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/text.h"

namespace shardscope::ui {
namespace {

using LinkProblem = LinkError::Problem;

constexpr size_t kMostLinkBytes = 4096;
constexpr size_t kMostRanks = 65'536;  // that a few bytes may name
constexpr std::string_view kBetween = "..";

// --- reading

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<std::string> Decoded(std::string_view text) {
  std::string decoded;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded += text[at];
      continue;
    }
    if (at + 2 >= text.size()) return std::nullopt;
    const auto high = HexDigit(text[at + 1]);
    const auto low = HexDigit(text[at + 2]);
    if (!high || !low) return std::nullopt;
    decoded += static_cast<char>(*high * 16 + *low);
    at += 2;
  }
  if (decoded.empty() || !IsPlainUtf8(decoded)) return std::nullopt;
  return decoded;
}

std::optional<LinkTime> Time(std::string_view text) {
  LinkTime time;
  const bool is_negative = text.starts_with('-');
  time.of_step = is_negative || text.starts_with('+');
  if (time.of_step) text.remove_prefix(1);
  // What has a second sign is no duration either.
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const std::optional<int64_t> duration = ParseDuration(text);
  if (!duration) return std::nullopt;
  time.ns = is_negative ? -*duration : *duration;
  return time;
}

std::optional<LinkTimes> Times(std::string_view text) {
  const size_t between = text.find(kBetween);
  if (between == std::string_view::npos) return std::nullopt;
  const auto from = Time(text.substr(0, between));
  const auto to = Time(text.substr(between + kBetween.size()));
  if (!from || !to) return std::nullopt;
  if (from->of_step == to->of_step && to->ns <= from->ns) return std::nullopt;
  return LinkTimes{*from, *to};
}

// Reads the value of one part into the link; what is wrong with it, if anything.
using ReadPart = std::optional<LinkProblem> (*)(std::string_view value, Link* link);

std::optional<LinkProblem> ReadStep(std::string_view value, Link* link) {
  const size_t between = value.find(kBetween);
  link->step = ParseInteger<int32_t>(value.substr(0, between), 0);
  if (!link->step) return LinkProblem::kNoNumber;
  if (between == std::string_view::npos) return std::nullopt;
  link->last_step = ParseInteger<int32_t>(value.substr(between + kBetween.size()), 0);
  if (!link->last_step || *link->last_step < *link->step) return LinkProblem::kNoNumber;
  return std::nullopt;
}

std::optional<LinkProblem> ReadRank(std::string_view value, Link* link) {
  link->rank = ParseInteger<int32_t>(value, 0);
  return link->rank ? std::nullopt : std::optional(LinkProblem::kNoNumber);
}

// "0-3,7", ascending.
std::optional<LinkProblem> ReadRanks(std::string_view value, Link* link) {
  const auto ranks = ParseNumbers(value, kMostRanks);
  if (!ranks) return LinkProblem::kNoRanks;
  link->ranks = *ranks;
  return std::nullopt;
}

std::optional<LinkProblem> ReadName(std::string_view value, std::string* name) {
  const std::optional<std::string> decoded = Decoded(value);
  if (!decoded) return LinkProblem::kBadText;
  *name = *decoded;
  return std::nullopt;
}

std::optional<LinkProblem> ReadOp(std::string_view value, Link* link) {
  link->op_index = ParseInteger<int32_t>(value, 0);
  return link->op_index ? std::nullopt : ReadName(value, &link->op);
}

std::optional<LinkProblem> ReadNth(std::string_view value, Link* link) {
  link->nth = ParseInteger<int32_t>(value, 0).value_or(0);
  return link->nth > 0 ? std::nullopt : std::optional(LinkProblem::kNoNumber);
}

std::optional<LinkProblem> ReadWork(std::string_view value, Link* link) {
  return ReadName(value, &link->work);
}

std::optional<LinkProblem> ReadAt(std::string_view value, Link* link) {
  link->at = Time(value);
  return link->at ? std::nullopt : std::optional(LinkProblem::kNoTime);
}

std::optional<LinkProblem> ReadTimes(std::string_view value, Link* link) {
  link->times = Times(value);
  return link->times ? std::nullopt : std::optional(LinkProblem::kNoTimes);
}

std::optional<LinkProblem> ReadArea(std::string_view value, Link* link) {
  link->area = Times(value);
  return link->area ? std::nullopt : std::optional(LinkProblem::kNoTimes);
}

std::optional<LinkProblem> ReadSearch(std::string_view value, Link* link) {
  return ReadName(value, &link->search);
}

std::optional<LinkProblem> ReadScope(std::string_view value, Link* link) {
  const Result<analysis::Scope> scope = analysis::ParseScope(value);
  if (!scope.ok()) return LinkProblem::kBadScope;
  link->scope = *scope;
  return std::nullopt;
}

constexpr std::array<std::pair<std::string_view, ReadPart>, 11> kParts = {{{"step", ReadStep},
                                                                           {"rank", ReadRank},
                                                                           {"ranks", ReadRanks},
                                                                           {"op", ReadOp},
                                                                           {"nth", ReadNth},
                                                                           {"work", ReadWork},
                                                                           {"at", ReadAt},
                                                                           {"area", ReadArea},
                                                                           {"t", ReadTimes},
                                                                           {"search", ReadSearch},
                                                                           {"scope", ReadScope}}};

std::optional<LinkError> ReadInto(std::string_view part, std::set<std::string_view>* seen,
                                  Link* link) {
  const auto fail = [part](LinkProblem problem, std::string hint = {}) {
    return LinkError{problem, Printable(part), std::move(hint)};
  };
  std::string_view value = part;
  const std::string_view key = TakeField(&value, '=');
  const auto known = std::find_if(kParts.begin(), kParts.end(),
                                  [key](const auto& one) { return one.first == key; });
  if (known == kParts.end()) {
    std::vector<std::string> names;
    for (const auto& one : kParts) names.emplace_back(one.first);
    return fail(LinkProblem::kUnknownPart,
                key.size() < 2 ? "" : NearestName(key, names).value_or(""));
  }
  if (!seen->insert(known->first).second) return fail(LinkProblem::kTwice, std::string(key));
  if (const auto problem = known->second(value, link)) return fail(*problem, std::string(key));
  return std::nullopt;
}

// What a part needs beside it.
std::optional<LinkError> CheckTogether(const Link& link) {
  const auto fail = [](LinkProblem problem, const char* part) {
    return LinkError{problem, part, {}};
  };
  const auto is_of_step = [](const std::optional<LinkTimes>& times) {
    return times && (times->from.of_step || times->to.of_step);
  };
  if (link.HasOp() && !link.work.empty()) return fail(LinkProblem::kOpAndWork, "op, work");
  if (link.HasOp() && !link.step) return fail(LinkProblem::kNeedsStep, "op");
  if (link.HasOp() && !link.rank) return fail(LinkProblem::kNeedsRank, "op");
  if (link.nth != 1 && link.op.empty()) return fail(LinkProblem::kNeedsOp, "nth");
  if (!link.work.empty() && !link.rank) return fail(LinkProblem::kNeedsRank, "work");
  if (!link.work.empty() && !link.at) return fail(LinkProblem::kNeedsAt, "work");
  if (link.at && link.work.empty()) return fail(LinkProblem::kNeedsWork, "at");
  if (link.at && link.at->of_step && !link.step) return fail(LinkProblem::kNeedsStep, "at");
  if (link.area && (link.HasOp() || !link.work.empty())) {
    return fail(LinkProblem::kOpAndWork, link.HasOp() ? "op, area" : "work, area");
  }
  if (!link.ranks.empty() && !link.area) return fail(LinkProblem::kNeedsArea, "ranks");
  if (!link.ranks.empty() && link.rank) return fail(LinkProblem::kOpAndWork, "rank, ranks");
  if (is_of_step(link.area) && !link.step) return fail(LinkProblem::kNeedsStep, "area");
  if (is_of_step(link.times) && !link.step) return fail(LinkProblem::kNeedsStep, "t");
  return std::nullopt;
}

// --- printing

std::string Encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_first_digit = encoded.empty() && byte >= '0' && byte <= '9';
    const bool stands =
        byte > ' ' && byte != 0x7F && !Contains("#%&+\"'\\`$", std::string_view(&c, 1));
    encoded += stands && !is_first_digit ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return encoded;
}

// Exactly, in the largest unit that keeps it from 1 up.
std::string PrintTime(const LinkTime& time) {
  const uint64_t ns =
      time.ns < 0 ? uint64_t{0} - static_cast<uint64_t>(time.ns) : static_cast<uint64_t>(time.ns);
  std::string_view unit = "ns";
  int digits = 0;
  for (const auto& [name, size] : {std::pair{"us", 3}, {"ms", 6}, {"s", 9}}) {
    uint64_t one = 1;
    for (int i = 0; i < size; ++i) one *= 10;
    if (ns < one) break;
    unit = name;
    digits = size;
  }
  std::string number = std::to_string(ns);
  if (digits > 0) {
    number.insert(number.size() - static_cast<size_t>(digits), ".");
    number.erase(number.find_last_not_of('0') + 1);
    if (number.ends_with('.')) number.pop_back();
  }
  const char* sign = !time.of_step ? "" : time.ns < 0 ? "-" : "+";
  return fmt::format("{}{}{}", sign, number, unit);
}

std::string PrintScope(const analysis::Scope& scope) {
  if (scope.kind == analysis::ScopeKind::kSteps) {
    return fmt::format("{}:{}", scope.first, scope.last + 1);
  }
  std::string word(Name(scope.kind));
  std::replace(word.begin(), word.end(), '_', '-');
  return word;
}

Text TextOf(LinkProblem problem) {
  switch (problem) {
    case LinkProblem::kEmpty:
      break;
    case LinkProblem::kTooLong:
      return Text::kLinkTooLong;
    case LinkProblem::kUnknownPart:
      return Text::kLinkUnknownPart;
    case LinkProblem::kTwice:
      return Text::kLinkTwice;
    case LinkProblem::kNoNumber:
      return Text::kLinkNoNumber;
    case LinkProblem::kNoTime:
      return Text::kLinkNoTime;
    case LinkProblem::kNoTimes:
      return Text::kLinkNoTimes;
    case LinkProblem::kNoRanks:
      return Text::kLinkNoRanks;
    case LinkProblem::kBadText:
      return Text::kLinkBadText;
    case LinkProblem::kBadScope:
      return Text::kLinkBadScope;
    case LinkProblem::kNeedsStep:
      return Text::kLinkNeedsStep;
    case LinkProblem::kNeedsRank:
      return Text::kLinkNeedsRank;
    case LinkProblem::kNeedsOp:
      return Text::kLinkNeedsOp;
    case LinkProblem::kNeedsWork:
      return Text::kLinkNeedsWork;
    case LinkProblem::kNeedsAt:
      return Text::kLinkNeedsAt;
    case LinkProblem::kNeedsArea:
      return Text::kLinkNeedsArea;
    case LinkProblem::kOpAndWork:
      return Text::kLinkOpAndWork;
    case LinkProblem::kNoSteps:
      return Text::kLinkNoSteps;
    case LinkProblem::kNoSuchStep:
      return Text::kLinkNoSuchStep;
    case LinkProblem::kNoSuchRank:
      return Text::kLinkNoSuchRank;
    case LinkProblem::kNoSuchOp:
      return Text::kLinkNoSuchOp;
    case LinkProblem::kNoSuchWork:
      return Text::kLinkNoSuchWork;
    case LinkProblem::kOutside:
      return Text::kLinkOutside;
  }
  return Text::kLinkEmpty;
}

}  // namespace

std::string LinkErrorText(Language language, const LinkError& error) {
  std::string text = TrFormat(language, TextOf(error.problem), error.part, error.hint);
  const bool may_be_meant =
      error.problem == LinkProblem::kUnknownPart || error.problem == LinkProblem::kNoSuchOp;
  if (may_be_meant && !error.hint.empty()) {
    text += " " + TrFormat(language, Text::kSearchMeant, error.hint);
  }
  return text;
}

std::string LinkLabel(Language language, const Link& link) {
  std::vector<std::string> words;
  if (link.step && link.last_step) {
    words.push_back(TrFormat(language, Text::kLinkSteps, *link.step, *link.last_step));
  } else if (link.step) {
    words.push_back(TrFormat(language, Text::kStepN, *link.step));
  }
  if (link.rank) words.push_back(TrFormat(language, Text::kLinkRank, *link.rank));
  if (!link.ranks.empty()) {
    words.push_back(TrFormat(language, Text::kLinkRanks, RunsText(link.ranks)));
  }
  if (link.op_index) words.push_back(TrFormat(language, Text::kLinkOp, *link.op_index));
  if (!link.op.empty()) words.push_back(link.op);
  if (link.nth != 1) words.back() += fmt::format(" #{}", link.nth);
  if (!link.work.empty()) words.push_back(link.work);
  if (const auto& times = link.area ? link.area : link.times) {
    words.push_back(fmt::format("{} – {}", PrintTime(times->from), PrintTime(times->to)));
  }
  if (words.empty()) words.push_back(PrintLink(link));
  return Join(words, language == Language::kChinese ? "，" : ", ");
}

std::variant<Link, LinkError> ParseLink(std::string_view text) {
  text = Trim(text);
  if (text.empty()) return LinkError{};
  if (text.size() > kMostLinkBytes) return LinkError{LinkProblem::kTooLong, {}, {}};
  Link link;
  std::set<std::string_view> seen;
  while (!text.empty()) {
    if (auto error = ReadInto(TakeField(&text, '&'), &seen, &link)) return *error;
  }
  if (auto error = CheckTogether(link)) return *error;
  return link;
}

std::string PrintLink(const Link& link) {
  std::vector<std::string> parts;
  const auto add = [&parts](std::string_view key, std::string_view value) {
    parts.push_back(fmt::format("{}={}", key, value));
  };
  if (link.step) {
    add("step", link.last_step ? fmt::format("{}..{}", *link.step, *link.last_step)
                               : std::to_string(*link.step));
  }
  if (link.rank) add("rank", std::to_string(*link.rank));
  if (!link.ranks.empty()) add("ranks", RunsText(link.ranks));
  if (link.op_index) add("op", std::to_string(*link.op_index));
  if (!link.op.empty()) add("op", Encoded(link.op));
  if (link.nth != 1) add("nth", std::to_string(link.nth));
  if (!link.work.empty()) add("work", Encoded(link.work));
  if (link.at) add("at", PrintTime(*link.at));
  const auto add_times = [&add](std::string_view key, const std::optional<LinkTimes>& times) {
    if (times) add(key, fmt::format("{}..{}", PrintTime(times->from), PrintTime(times->to)));
  };
  add_times("area", link.area);
  add_times("t", link.times);
  if (!link.search.empty()) add("search", Encoded(link.search));
  if (link.scope) add("scope", PrintScope(*link.scope));
  return Join(parts, "&");
}

std::variant<LinkedRun, LinkError> ParseLinkedRun(const std::string& text) {
  const auto exists = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  };
  if (!Contains(text, "#") || exists(text)) return LinkedRun{text, std::nullopt};
  size_t hash = text.rfind('#');
  for (size_t at = hash; at != std::string::npos && at > 0; at = text.rfind('#', at - 1)) {
    if (!exists(text.substr(0, at))) continue;
    hash = at;
    break;
  }
  auto link = ParseLink(std::string_view(text).substr(hash + 1));
  if (auto* error = std::get_if<LinkError>(&link)) return *error;
  return LinkedRun{text.substr(0, hash), std::get<Link>(std::move(link))};
}

}  // namespace shardscope::ui
