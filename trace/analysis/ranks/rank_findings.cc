#include "trace/analysis/ranks/rank_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/collectives/hang.h"
#include "trace/analysis/lower_median.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

// A rank is late in a step if, over all its collectives, by at least this share of it; and by so
// many times what ranks mostly are.
constexpr double kLeastLateShare = 0.01;
constexpr double kLeastLateRatio = 3;

// What differs by less is equal, if steps of one rank do not differ by less, too.
constexpr double kEqualShare = 0.01;

// One number a step, of one rank.
using Numbers = std::vector<double>;

// A rank's figures with how they spread over its steps: half of what lies between the quartiles.
struct RankSpread {
  double step_ns = 0;
  double exposed_ns = 0;
  double late_ns = 0;
};

double SpreadOf(const Numbers& numbers) {
  return (Percentile(numbers, 0.75) - Percentile(numbers, 0.25)) / 2;
}

// The cells of one rank that count.
std::vector<const RankCell*> CellsOf(const RankGrid& grid, size_t rank, const ScopedSteps& scope) {
  std::vector<const RankCell*> cells;
  for (size_t step = 0; step < grid.steps.size(); ++step) {
    const bool counts = grid.steps[step] >= scope.first_timed && grid.steps[step] <= scope.last;
    if (counts && grid.At(rank, step).is_finished) cells.push_back(&grid.At(rank, step));
  }
  return cells;
}

double Mean(int64_t sum, int64_t count) {
  return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

RankFigures FiguresOf(int32_t rank, const std::vector<const RankCell*>& cells, RankSpread* spread) {
  RankFigures figures;
  figures.rank = rank;
  figures.num_steps = static_cast<int32_t>(cells.size());
  Numbers step_ns;
  Numbers exposed_ns;
  Numbers late_ns;
  int64_t late_sum_ns = 0;
  int64_t last_late_sum_ns = 0;
  for (const RankCell* cell : cells) {
    step_ns.push_back(static_cast<double>(cell->step_ns));
    exposed_ns.push_back(static_cast<double>(cell->exposed_ns));
    late_ns.push_back(Mean(cell->late_ns, cell->num_collectives));
    AddCapped(cell->late_ns, &late_sum_ns);
    AddCapped(cell->last_late_ns, &last_late_sum_ns);
    figures.num_collectives += cell->num_collectives;
    figures.num_last += cell->num_last;
    figures.peak_bytes = std::max(figures.peak_bytes, cell->peak_bytes);
  }
  *spread = {SpreadOf(step_ns), SpreadOf(exposed_ns), SpreadOf(late_ns)};
  figures.step_ns = Percentile(std::move(step_ns), 0.5);
  figures.exposed_ns = Percentile(std::move(exposed_ns), 0.5);
  if (figures.step_ns > 0) figures.exposed_share = figures.exposed_ns / figures.step_ns;
  figures.late_ns = Mean(late_sum_ns, figures.num_collectives);
  figures.last_late_ns = Mean(last_late_sum_ns, figures.num_last);
  return figures;
}

// The median over ranks of a member of their figures or spreads.
template <typename Row>
double MedianOf(const std::vector<Row>& rows, double Row::*member) {
  Numbers numbers;
  numbers.reserve(rows.size());
  for (const Row& row : rows) numbers.push_back(row.*member);
  return Percentile(std::move(numbers), 0.5);
}

// By what figures of equal ranks may differ.
struct Tolerance {
  double step_ns = 0;
  double exposed_ns = 0;
  double late_ns = 0;

  bool AreEqual(const RankFigures& a, const RankFigures& b) const {
    const auto peak_a = static_cast<double>(a.peak_bytes);
    const auto peak_b = static_cast<double>(b.peak_bytes);
    return std::abs(a.step_ns - b.step_ns) <= step_ns &&
           std::abs(a.exposed_ns - b.exposed_ns) <= exposed_ns &&
           std::abs(a.late_ns - b.late_ns) <= late_ns &&
           std::abs(peak_a - peak_b) <= kEqualShare * std::max(peak_a, peak_b);
  }
};

Tolerance ToleranceOf(const std::vector<RankFigures>& ranks,
                      const std::vector<RankSpread>& spreads) {
  const double least_ns = kEqualShare * MedianOf(ranks, &RankFigures::step_ns);
  const double usual_late_ns = MedianOf(ranks, &RankFigures::late_ns);
  return {std::max(least_ns, 2 * MedianOf(spreads, &RankSpread::step_ns)),
          std::max(least_ns, 2 * MedianOf(spreads, &RankSpread::exposed_ns)),
          std::max({double{kSmallestStallNs}, 2 * usual_late_ns,
                    2 * MedianOf(spreads, &RankSpread::late_ns)})};
}

// How far a rank is from the medians of all, in tolerances.
double DistanceOf(const RankFigures& rank, const RankFigures& middle, const Tolerance& tolerance) {
  const auto part = [](double difference, double of) {
    return of > 0 ? std::abs(difference) / of : 0;
  };
  return part(rank.step_ns - middle.step_ns, tolerance.step_ns) +
         part(rank.exposed_ns - middle.exposed_ns, tolerance.exposed_ns) +
         part(rank.late_ns - middle.late_ns, tolerance.late_ns);
}

// Around the rank that is most like all others all that are equal to it, then around the next.
// Stragglers are equal to none but each other, however much times vary.
void AddGroups(const Tolerance& tolerance, RankFindings* findings) {
  RankFigures middle;
  middle.step_ns = MedianOf(findings->ranks, &RankFigures::step_ns);
  middle.exposed_ns = MedianOf(findings->ranks, &RankFigures::exposed_ns);
  middle.late_ns = MedianOf(findings->ranks, &RankFigures::late_ns);
  const auto is_straggler = [findings](const RankFigures& rank) {
    const auto& straggler = findings->straggler;
    return straggler && std::ranges::binary_search(straggler->ranks, rank.rank);
  };
  std::vector<RankFigures*> open;
  for (RankFigures& rank : findings->ranks) open.push_back(&rank);
  std::stable_sort(open.begin(), open.end(), [&](const RankFigures* a, const RankFigures* b) {
    return DistanceOf(*a, middle, tolerance) < DistanceOf(*b, middle, tolerance);
  });
  std::vector<std::vector<RankFigures*>> groups;
  while (!open.empty()) {
    const RankFigures first = *open.front();
    std::vector<RankFigures*>& group = groups.emplace_back();
    std::erase_if(open, [&](RankFigures* rank) {
      if (is_straggler(first) != is_straggler(*rank)) return false;
      if (!tolerance.AreEqual(first, *rank)) return false;
      group.push_back(rank);
      return true;
    });
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (const std::vector<RankFigures*>& group : groups) {
    std::vector<int32_t>& ranks = findings->groups.emplace_back();
    for (RankFigures* rank : group) {
      rank->group = static_cast<int32_t>(findings->groups.size()) - 1;
      ranks.push_back(rank->rank);
    }
    std::sort(ranks.begin(), ranks.end());
  }
}

// In most steps late by a share of the step that matters.
bool IsLateInMost(const std::vector<const RankCell*>& cells) {
  Numbers shares;
  for (const RankCell* cell : cells) {
    if (cell->step_ns <= 0) continue;
    shares.push_back(static_cast<double>(cell->late_ns) / static_cast<double>(cell->step_ns));
  }
  return Percentile(std::move(shares), 0.5) >= kLeastLateShare;
}

// More than what ranks come last to by chance, and a quarter of the rest: to collectives that are
// issued early no rank is late.
bool ComeLastTooOften(double last_share, double num_late, double num_ranks) {
  const double by_chance = num_late / num_ranks;
  return last_share >= by_chance + (1 - by_chance) / 4;
}

// The step in which `ranks` delayed the others by most, which advice names too; where the front
// does not show that, in which they were late by most.
int32_t WorstStepOf(const RankGrid& grid, const ScopedSteps& scope, const Front& front,
                    const std::vector<int32_t>& ranks) {
  for (const RankDelay& delay : front.delays) {
    if (delay.is_lasting && std::ranges::binary_search(ranks, delay.rank)) return delay.worst_step;
  }
  int32_t worst_step = scope.first_timed;
  int64_t worst_ns = -1;
  for (size_t step = 0; step < grid.steps.size(); ++step) {
    if (grid.steps[step] < scope.first_timed || grid.steps[step] > scope.last) continue;
    int64_t late_ns = 0;
    for (size_t rank = 0; rank < grid.ranks.size(); ++rank) {
      if (std::binary_search(ranks.begin(), ranks.end(), grid.ranks[rank])) {
        AddCapped(grid.At(rank, step).late_ns, &late_ns);
      }
    }
    if (late_ns <= worst_ns) continue;
    worst_ns = late_ns;
    worst_step = grid.steps[step];
  }
  return worst_step;
}

void AddDelay(const Front& front, Straggler* straggler) {
  DelayCost cost = CostOfDelays(front, straggler->ranks);
  straggler->delay_ns_per_step = cost.ns_per_step;
  straggler->delay_share = cost.share;
  straggler->stage = std::move(cost.stage);
}

Straggler AsStraggler(const RankFigures& rank) {
  Straggler one;
  one.ranks = {rank.rank};
  one.last_share = rank.last_share();
  one.late_ns = rank.last_late_ns;
  return one;
}

// Of the ranks that are late in most steps those that come last to most.
std::optional<Straggler> StragglerOf(const RankFindings& findings,
                                     const std::vector<const RankFigures*>& late) {
  const auto num_ranks = static_cast<double>(findings.ranks.size());
  const auto most = std::max_element(late.begin(), late.end(), [](const auto* a, const auto* b) {
    return a->last_share() < b->last_share();
  });
  if (most == late.end()) return std::nullopt;
  if (ComeLastTooOften((*most)->last_share(), 1, num_ranks)) return AsStraggler(**most);
  if (late.size() * 2 > findings.ranks.size()) return std::nullopt;
  Straggler several;
  int64_t num_last = 0;
  double late_ns = 0;
  for (const RankFigures* rank : late) {
    several.ranks.push_back(rank->rank);
    num_last += rank->num_last;
    late_ns += rank->last_late_ns * static_cast<double>(rank->num_last);
  }
  several.last_share = Mean(num_last, findings.num_collectives);
  if (num_last > 0) several.late_ns = late_ns / static_cast<double>(num_last);
  const auto num_late = static_cast<double>(late.size());
  if (!ComeLastTooOften(several.last_share, num_late, num_ranks)) return std::nullopt;
  return several;
}

// Who is waited for waits less: by half of what makes a delay of the front a lasting one.
bool WaitsLessThanOthers(const RankFigures& rank, const RankFindings& findings) {
  Numbers others;
  for (const RankFigures& other : findings.ranks) {
    if (other.rank != rank.rank) others.push_back(other.exposed_ns);
  }
  if (others.empty()) return false;
  return Percentile(std::move(others), 0.5) - rank.exposed_ns >= rank.step_ns * kLastingDelay / 2;
}

// A rank that is late to few of its collectives may still be the one that a step waits for. Noise
// alone puts one of equal ranks in front, too.
std::optional<Straggler> DelayedRank(const RankFindings& findings, const Front& front) {
  for (const RankDelay& delay : front.delays) {
    if (!delay.is_lasting) continue;
    for (const RankFigures& rank : findings.ranks) {
      if (rank.rank != delay.rank || !WaitsLessThanOthers(rank, findings)) continue;
      Straggler straggler = AsStraggler(rank);
      straggler.by_front = true;
      return straggler;
    }
  }
  return std::nullopt;
}

}  // namespace

RankFindings FindInRanks(const RankGrid& grid, const ScopedSteps& scope, const Front& front,
                         int64_t clock_residual_ns) {
  RankFindings findings;
  std::vector<RankSpread> spreads;
  std::vector<int32_t> late_in_most;
  for (size_t rank = 0; rank < grid.ranks.size(); ++rank) {
    const std::vector<const RankCell*> cells = CellsOf(grid, rank, scope);
    if (cells.empty()) continue;
    findings.ranks.push_back(FiguresOf(grid.ranks[rank], cells, &spreads.emplace_back()));
    findings.num_collectives += findings.ranks.back().num_last;
    if (IsLateInMost(cells)) late_in_most.push_back(grid.ranks[rank]);
  }
  if (findings.ranks.empty()) return findings;

  Numbers means;
  for (const RankFigures& rank : findings.ranks) means.push_back(rank.late_ns);
  const double least_ns =
      std::max({kLeastLateRatio * LowerMedian(std::move(means)), double{kSmallestStallNs},
                static_cast<double>(clock_residual_ns)});
  std::vector<const RankFigures*> late;
  for (const RankFigures& rank : findings.ranks) {
    const bool is_late = std::binary_search(late_in_most.begin(), late_in_most.end(), rank.rank);
    if (is_late && rank.late_ns >= least_ns) late.push_back(&rank);
  }
  findings.straggler = StragglerOf(findings, late);
  if (!findings.straggler) findings.straggler = DelayedRank(findings, front);
  if (findings.straggler) {
    findings.straggler->worst_step = WorstStepOf(grid, scope, front, findings.straggler->ranks);
    AddDelay(front, &*findings.straggler);
  }
  AddGroups(ToleranceOf(findings.ranks, spreads), &findings);
  return findings;
}

RankOverview MakeRankOverview(const query::Snapshot& snapshot, std::shared_ptr<const RankGrid> grid,
                              const ScopedSteps& scope, const Front& front) {
  RankOverview overview{std::move(grid), scope, {}};
  overview.findings = FindInRanks(*overview.grid, scope, front, ClockResidualNs(snapshot));
  return overview;
}

int64_t ClockResidualNs(const query::Snapshot& snapshot) {
  int64_t residual_ns = 0;
  for (const query::Clock& clock : snapshot.clocks) {
    residual_ns = std::max(residual_ns, clock.residual_p95_ns);
  }
  return residual_ns;
}

const RankFigures* MostOftenLast(const RankFindings& findings) {
  const RankFigures* most = nullptr;
  for (const RankFigures& rank : findings.ranks) {
    if (rank.num_collectives == 0) continue;
    if (most == nullptr || rank.last_share() > most->last_share()) most = &rank;
  }
  return most;
}

std::string RankSentence(const RankFindings& findings) {
  if (findings.ranks.empty()) return "No step is finished yet.";
  const RankFigures* most = MostOftenLast(findings);
  if (most == nullptr) return "No collective is known of all its ranks: none waits for another.";
  if (!findings.straggler) {
    return fmt::format(
        "No rank holds up the others: the one that comes last most often, rank {}, does so to {} "
        "of its collectives, by {} on average.",
        most->rank, FormatPercent(most->last_share()), FormatDuration(most->last_late_ns));
  }
  const Straggler& straggler = *findings.straggler;
  const bool is_one = straggler.ranks.size() == 1;
  const std::string last_share = FormatPercent(straggler.last_share);
  const std::string late = FormatDuration(straggler.late_ns);
  std::string text =
      straggler.by_front
          ? fmt::format(
                "In most steps the others wait for rank {}, whose work takes longer; it "
                "comes last to {} of its collectives, by {} on average.",
                RankList(straggler.ranks), last_share, late)
          : fmt::format("Rank{} {} come{} last to {} of {} collectives, by {} on average.",
                        is_one ? "" : "s", RankList(straggler.ranks), is_one ? "s" : "", last_share,
                        is_one ? "its" : "all", late);
  if (straggler.delay_ns_per_step <= 0) return text;
  return text + fmt::format(" This costs {} a step ({}){}.",
                            FormatDuration(straggler.delay_ns_per_step),
                            FormatPercent(straggler.delay_share),
                            straggler.stage.empty() ? "" : ", most of it in " + straggler.stage);
}

}  // namespace shardscope::analysis
