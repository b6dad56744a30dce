#include "ui/ranks.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trace/analysis/collectives/hang.h"
#include "trace/base/number_list.h"
#include "trace/base/parse_number.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::ui {
namespace {

using FilterProblem = RankFilterError::Problem;

bool IsIn(const std::vector<NumberRun>& runs, int32_t number) {
  return std::ranges::any_of(
      runs, [number](const NumberRun& run) { return number >= run.first && number <= run.last; });
}

int64_t Rounded(double value) { return std::llround(value); }

// All of them, hidden ones too, pinned ones where they stand once they are no longer pinned.
std::vector<int32_t> ArrangedRanks(const query::Snapshot& snapshot, const Lanes& lanes) {
  std::vector<int32_t> ranks;
  ranks.reserve(snapshot.ranks.size());
  for (const query::RankRows& rows : snapshot.ranks) ranks.push_back(rows.rank);
  if (lanes.rank_order.empty()) return ranks;
  std::set<int32_t> rest(ranks.begin(), ranks.end());
  ranks.clear();
  for (const int32_t rank : lanes.rank_order) {
    if (rest.erase(rank) > 0) ranks.push_back(rank);
  }
  ranks.insert(ranks.end(), rest.begin(), rest.end());
  return ranks;
}

}  // namespace

std::optional<plan::Mesh> MeshOfRun(const query::Snapshot& snapshot) {
  plan::Mesh mesh;
  const auto num_ranks = static_cast<int32_t>(snapshot.ranks.size());
  std::optional<size_t> rest;  // that is `auto`
  bool known = false;
  for (size_t at = 0; at < mesh.sizes.size(); ++at) {
    const auto dimension = static_cast<plan::MeshDimension>(at);
    const auto found = snapshot.config.find("mesh." + std::string(words::Name(dimension)));
    if (found == snapshot.config.end()) continue;
    known = true;
    const std::optional<int32_t> size = ParseInteger<int32_t>(found->second, 0);
    if (size && *size > 0 && *size <= num_ranks) {
      mesh.sizes[at] = *size;
    } else if (found->second == "auto" && !rest) {
      rest = at;
    } else {
      return std::nullopt;
    }
  }
  if (rest) mesh.sizes[*rest] = std::max(1, num_ranks / mesh.num_ranks());
  if (!known || mesh.num_ranks() != num_ranks) return std::nullopt;
  return mesh;
}

std::vector<int32_t> RanksInOrder(const query::Snapshot& snapshot, const Lanes& lanes) {
  std::vector<int32_t> ranks = ArrangedRanks(snapshot, lanes);
  std::erase_if(ranks, [&lanes](int32_t rank) { return lanes.hidden_ranks.contains(rank); });
  std::stable_sort(ranks.begin(), ranks.end(), [&lanes](int32_t a, int32_t b) {
    return lanes.pinned_ranks.contains(a) && !lanes.pinned_ranks.contains(b);
  });
  return ranks;
}

size_t LandingPlace(const std::vector<int32_t>& shown, const Lanes& lanes, int32_t rank,
                    size_t place) {
  const auto is_pinned = [&lanes](int32_t one) { return lanes.pinned_ranks.contains(one); };
  const auto num_pinned = static_cast<size_t>(std::ranges::count_if(shown, is_pinned));
  return is_pinned(rank) ? std::min(place, num_pinned)
                         : std::clamp(place, num_pinned, shown.size());
}

std::vector<int32_t> OrderWithMoved(const query::Snapshot& snapshot, const Lanes& lanes,
                                    const std::vector<int32_t>& shown, int32_t rank, size_t place) {
  std::vector<int32_t> order = ArrangedRanks(snapshot, lanes);
  const auto at = static_cast<size_t>(std::ranges::find(shown, rank) - shown.begin());
  const size_t landing = LandingPlace(shown, lanes, rank, place);
  if (at == shown.size() || landing == at || landing == at + 1) return order;
  // Beside the one that it has passed, so that hidden ones stay where they are.
  const bool goes_down = landing > at;
  std::erase(order, rank);
  auto beside = std::ranges::find(order, shown[goes_down ? landing - 1 : landing]);
  if (goes_down && beside != order.end()) ++beside;
  order.insert(beside, rank);
  return order;
}

RankFilterResult FilterRanks(const std::vector<int32_t>& ranks,
                             const std::optional<plan::Mesh>& mesh, std::string_view text) {
  std::vector<int32_t> chosen = ranks;
  for (const std::string_view term : Split(text, ' ')) {
    if (term.empty()) continue;
    const size_t equals = term.find('=');
    const bool is_dimension = equals != std::string_view::npos;
    const std::vector<NumberRun> runs = ParseRuns(term.substr(is_dimension ? equals + 1 : 0));
    std::optional<plan::MeshDimension> dimension;
    if (is_dimension) {
      dimension = words::ParseMeshDimension(term.substr(0, equals));
      if (!dimension) return RankFilterError{FilterProblem::kUnknownDimension, std::string(term)};
      if (!mesh) return RankFilterError{FilterProblem::kNoMesh, std::string(term)};
    }
    if (runs.empty()) return RankFilterError{FilterProblem::kNoNumbers, std::string(term)};
    std::erase_if(chosen, [&](int32_t rank) {
      return !IsIn(runs, dimension ? mesh->Coordinate(rank, *dimension) : rank);
    });
  }
  return chosen;
}

std::string RankFilterErrorText(Language language, const RankFilterError& error) {
  switch (error.problem) {
    case FilterProblem::kNoMesh:
      return TrFormat(language, Text::kRanksNoMesh, error.term);
    case FilterProblem::kUnknownDimension:
      return TrFormat(language, Text::kRanksUnknownDimension, error.term);
    case FilterProblem::kNoNumbers:
      break;
  }
  return TrFormat(language, Text::kRanksNoNumbers, error.term);
}

std::string RankSentence(Language language, const analysis::RankFindings& findings) {
  if (findings.ranks.empty()) return Tr(language, Text::kRanksNoStep);
  const analysis::RankFigures* most = MostOftenLast(findings);
  if (most == nullptr) return Tr(language, Text::kRanksNoCollective);
  if (!findings.straggler) {
    return TrFormat(language, Text::kRanksEven, most->rank, FormatPercent(most->last_share()),
                    FormatDuration(Rounded(most->last_late_ns)));
  }
  const analysis::Straggler& straggler = *findings.straggler;
  const Text words = straggler.by_front            ? Text::kRanksSlowByFront
                     : straggler.ranks.size() == 1 ? Text::kRanksSlowOne
                                                   : Text::kRanksSlowSeveral;
  std::string text =
      TrFormat(language, words, analysis::RankList(straggler.ranks),
               FormatPercent(straggler.last_share), FormatDuration(Rounded(straggler.late_ns)));
  if (straggler.delay_ns_per_step <= 0) return text;
  const std::string cost = FormatDuration(Rounded(straggler.delay_ns_per_step));
  const std::string share = FormatPercent(straggler.delay_share);
  return text + (straggler.stage.empty()
                     ? TrFormat(language, Text::kRanksCost, cost, share)
                     : TrFormat(language, Text::kRanksCostIn, cost, share, straggler.stage));
}

const char* RankFigureName(Language language, analysis::RankFigure figure) {
  switch (figure) {
    case analysis::RankFigure::kExposedShare:
      break;
    case analysis::RankFigure::kLateness:
      return Tr(language, Text::kRanksLateness);
    case analysis::RankFigure::kStepTime:
      return Tr(language, Text::kRanksStepTime);
    case analysis::RankFigure::kMemory:
      return Tr(language, Text::kRanksMemory);
  }
  return Tr(language, Text::kRanksExposed);
}

std::string FormatRankFigure(analysis::RankFigure figure, double value) {
  switch (figure) {
    case analysis::RankFigure::kExposedShare:
      return FormatPercent(value);
    case analysis::RankFigure::kMemory:
      return FormatBytes(Rounded(value));
    case analysis::RankFigure::kLateness:
    case analysis::RankFigure::kStepTime:
      break;
  }
  return FormatDuration(Rounded(value));
}

std::string_view UnitOf(analysis::RankFigure figure) {
  if (figure == analysis::RankFigure::kExposedShare) return "share";
  return figure == analysis::RankFigure::kMemory ? "B" : "ns";
}

}  // namespace shardscope::ui
