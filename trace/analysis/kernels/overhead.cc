#include "trace/analysis/kernels/overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "trace/analysis/breakdown.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

// Mean time of the steps of one side of a round.
struct Side {
  std::map<int32_t, int64_t> steps;  // of the slowest rank

  double MeanNs() const {
    double sum = 0;
    for (const auto& [step, duration_ns] : steps) sum += static_cast<double>(duration_ns);
    return sum / static_cast<double>(steps.size());
  }
};

}  // namespace

Overhead MeasureOverhead(const query::Snapshot& snapshot) {
  struct Round {
    Side recorded;
    Side unrecorded;
  };
  Overhead overhead;
  std::map<int32_t, Round> rounds;
  for (const query::OverheadStep& row : snapshot.overhead_steps) {
    Round& round = rounds[row.round];
    Side& side = row.is_recorded ? round.recorded : round.unrecorded;
    int64_t& duration_ns = side.steps[row.step];
    duration_ns = std::max(duration_ns, row.duration_ns);
    if (!row.is_recorded) overhead.left_out.push_back(row.step);
  }
  std::sort(overhead.left_out.begin(), overhead.left_out.end());
  overhead.left_out.erase(std::unique(overhead.left_out.begin(), overhead.left_out.end()),
                          overhead.left_out.end());
  std::vector<double> ratios, recorded, unrecorded;
  for (const auto& [number, round] : rounds) {
    if (round.recorded.steps.empty() || round.unrecorded.steps.empty()) continue;
    recorded.push_back(round.recorded.MeanNs());
    unrecorded.push_back(round.unrecorded.MeanNs());
    ratios.push_back(recorded.back() / unrecorded.back());
  }
  overhead.rounds = static_cast<int>(ratios.size());
  if (ratios.empty()) return overhead;
  overhead.ratio = Percentile(ratios, 0.5);
  overhead.lowest = *std::min_element(ratios.begin(), ratios.end());
  overhead.highest = *std::max_element(ratios.begin(), ratios.end());
  overhead.recorded_ns = std::llround(Percentile(recorded, 0.5));
  overhead.unrecorded_ns = std::llround(Percentile(unrecorded, 0.5));
  return overhead;
}

std::string Describe(const Overhead& overhead) {
  if (overhead.rounds == 0) return "";
  return fmt::format(
      "a recorded step takes {:.3f} of the time of one that is not ({:.3f} to {:.3f} in {} "
      "round{}; {} and {})",
      overhead.ratio, overhead.lowest, overhead.highest, overhead.rounds,
      overhead.rounds == 1 ? "" : "s", FormatDuration(overhead.recorded_ns),
      FormatDuration(overhead.unrecorded_ns));
}

std::string PrintOverhead(const Overhead& overhead) {
  if (overhead.left_out.empty()) return "";
  std::vector<std::string> steps;
  for (const int32_t step : overhead.left_out) steps.push_back(std::to_string(step));
  const std::string measured = overhead.rounds == 0 ? "no round was whole" : Describe(overhead);
  return fmt::format("\nWhat recording costs\n  {}\n  not recorded for that: step{} {}\n", measured,
                     steps.size() == 1 ? "" : "s", Join(steps, ", "));
}

}  // namespace shardscope::analysis
