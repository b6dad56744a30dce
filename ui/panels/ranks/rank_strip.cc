#include "ui/panels/ranks/rank_strip.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trace/analysis/collectives/hang.h"

namespace shardscope::panels {
namespace {

using analysis::RankFigure;
using analysis::RankFigures;

// Above this share of the values colours no longer change.
constexpr double kColouredShare = 0.99;

const RankFigures* FiguresOf(const analysis::RankFindings& findings, int32_t rank) {
  const auto found = std::lower_bound(
      findings.ranks.begin(), findings.ranks.end(), rank,
      [](const RankFigures& figures, int32_t wanted) { return figures.rank < wanted; });
  return found == findings.ranks.end() || found->rank != rank ? nullptr : &*found;
}

double ValueIn(const RankFigures& figures, RankFigure figure) {
  switch (figure) {
    case RankFigure::kExposedShare:
      return figures.exposed_share;
    case RankFigure::kLateness:
      return figures.late_ns;
    case RankFigure::kStepTime:
      return figures.step_ns;
    case RankFigure::kMemory:
      return static_cast<double>(figures.peak_bytes);
  }
  return 0;
}

// Of the ranks that are shown, in the order of ranks.
std::vector<StripRow> RowsOf(const analysis::RankOverview& overview,
                             const StripSettings& settings) {
  const analysis::RankFindings& findings = overview.findings;
  std::vector<StripRow> rows;
  std::map<int32_t, size_t> row_of_group;
  for (size_t at = 0; at < overview.grid->ranks.size(); ++at) {
    const int32_t rank = overview.grid->ranks[at];
    if (!std::binary_search(settings.ranks.begin(), settings.ranks.end(), rank)) continue;
    const RankFigures* figures = FiguresOf(findings, rank);
    size_t row = rows.size();
    if (settings.folds && figures != nullptr) {
      row = row_of_group.try_emplace(figures->group, row).first->second;
    }
    if (row == rows.size()) rows.emplace_back();
    rows[row].ranks.push_back(at);
  }
  for (StripRow& row : rows) {
    std::vector<int32_t> ranks;
    double sum = 0;
    size_t count = 0;
    for (const size_t at : row.ranks) {
      const int32_t rank = overview.grid->ranks[at];
      ranks.push_back(rank);
      const std::vector<int32_t>* slow = findings.straggler ? &findings.straggler->ranks : nullptr;
      row.is_slow =
          row.is_slow || (slow != nullptr && std::binary_search(slow->begin(), slow->end(), rank));
      const RankFigures* figures = FiguresOf(findings, rank);
      if (figures == nullptr) continue;
      sum += ValueIn(*figures, settings.figure);
      ++count;
    }
    row.label = analysis::RankList(ranks);
    if (count > 0) row.value = sum / static_cast<double>(count);
  }
  return rows;
}

// Of some ranks in some steps.
StripCell CellOf(const analysis::RankGrid& grid, const StripRow& row, RankFigure figure,
                 std::pair<size_t, size_t> steps) {
  StripCell cell;
  double sum = 0;
  double largest = 0;
  size_t count = 0;
  for (const size_t rank : row.ranks) {
    for (size_t step = steps.first; step < steps.second; ++step) {
      const std::optional<double> value = ValueOf(grid.At(rank, step), figure);
      if (!value) continue;
      sum += *value;
      if (count++ > 0 && *value <= largest) continue;
      largest = *value;
      cell.rank = grid.ranks[rank];
      cell.step = grid.steps[step];
    }
  }
  if (count == 0) return cell;
  cell.is_empty = false;
  cell.value = static_cast<float>(sum / static_cast<double>(count));
  return cell;
}

// Shares and lateness begin at nothing; of others the differences count. The first columns are of
// steps that no time counts: warm-up would leave no colours to the others.
void SetScale(RankFigure figure, size_t first_column, Strip* strip) {
  std::vector<double> values;
  values.reserve(strip->cells.size());
  for (size_t at = 0; at < strip->cells.size(); ++at) {
    const StripCell& cell = strip->cells[at];
    if (cell.is_empty) continue;
    strip->largest = std::max(strip->largest, double{cell.value});
    if (at % strip->num_columns >= first_column) values.push_back(double{cell.value});
  }
  if (values.empty()) return;
  const bool from_nothing = figure == RankFigure::kExposedShare || figure == RankFigure::kLateness;
  strip->low = from_nothing ? 0 : *std::min_element(values.begin(), values.end());
  strip->high = analysis::Percentile(std::move(values), kColouredShare);
}

// The first of which all steps count; 0: there is none.
size_t FirstTimedColumn(const analysis::RankOverview& overview, const Strip& strip) {
  const std::vector<int32_t>& steps = overview.grid->steps;
  const auto timed = std::lower_bound(steps.begin(), steps.end(), overview.scope.first_timed);
  const auto before = static_cast<size_t>(timed - steps.begin());
  const size_t first = (before + strip.steps_a_column - 1) / strip.steps_a_column;
  return first < strip.num_columns ? first : 0;
}

}  // namespace

float Strip::ShareOf(double value) const {
  if (high <= low) return value > low ? 1.0F : 0.0F;
  return static_cast<float>(std::clamp((value - low) / (high - low), 0.0, 1.0));
}

Strip MakeStrip(const analysis::RankOverview& overview, const StripSettings& settings) {
  const analysis::RankGrid& grid = *overview.grid;
  Strip strip;
  strip.rows = RowsOf(overview, settings);
  if (settings.by_value) {
    std::stable_sort(strip.rows.begin(), strip.rows.end(),
                     [](const StripRow& a, const StripRow& b) { return a.value > b.value; });
  }
  const size_t most = std::max<size_t>(settings.most_columns, 1);
  strip.steps_a_column = std::max<size_t>((grid.steps.size() + most - 1) / most, 1);
  strip.num_columns = (grid.steps.size() + strip.steps_a_column - 1) / strip.steps_a_column;
  strip.cells.reserve(strip.rows.size() * strip.num_columns);
  for (const StripRow& row : strip.rows) {
    for (size_t column = 0; column < strip.num_columns; ++column) {
      const size_t first = column * strip.steps_a_column;
      const size_t end = std::min(first + strip.steps_a_column, grid.steps.size());
      strip.cells.push_back(CellOf(grid, row, settings.figure, {first, end}));
    }
  }
  const bool is_time = settings.figure != RankFigure::kMemory;
  SetScale(settings.figure, is_time ? FirstTimedColumn(overview, strip) : 0, &strip);
  return strip;
}

}  // namespace shardscope::panels
