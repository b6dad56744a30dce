// What the heat strip of ranks shows: a row a rank, or ranks that are equal; a column a step, or
// several. No Dear ImGui.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/ranks/rank_findings.h"

namespace shardscope::panels {

struct StripSettings {
  analysis::RankFigure figure = analysis::RankFigure::kLateness;
  bool by_value = false;       // the largest first, else by rank
  bool folds = false;          // equal ranks in one row
  std::vector<int32_t> ranks;  // that are shown, ascending
  size_t most_columns = SIZE_MAX;
  bool operator==(const StripSettings&) const = default;
};

struct StripRow {
  std::vector<size_t> ranks;    // index into RankGrid::ranks; never empty
  std::string label;            // "37", "0 to 36, 38"
  std::optional<double> value;  // over the timed steps of the scope; of several ranks their mean
  bool is_slow = false;         // the others wait for it
};

// One place of the strip: mean of its finished cells, and the cell that is largest.
struct StripCell {
  float value = 0;
  int32_t rank = 0;
  int32_t step = 0;
  bool is_empty = true;
};

struct Strip {
  std::vector<StripRow> rows;
  size_t steps_a_column = 1;
  size_t num_columns = 0;
  std::vector<StripCell> cells;  // a row a StripRow
  // Where the colours begin and end; few values lie above.
  double low = 0;
  double high = 0;
  double largest = 0;

  const StripCell& At(size_t row, size_t column) const { return cells[row * num_columns + column]; }
  // 0 to 1: where a value stands between low and high.
  float ShareOf(double value) const;
};

Strip MakeStrip(const analysis::RankOverview& overview, const StripSettings& settings);

}  // namespace shardscope::panels
