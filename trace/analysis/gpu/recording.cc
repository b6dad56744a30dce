#include "trace/analysis/gpu/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "trace/analysis/steps/breakdown.h"
#include "trace/base/signed_text.h"
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

std::string Signed(int64_t duration_ns) {
  return SignedText(static_cast<double>(duration_ns), FormatDuration);
}

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

int64_t GpuClockBounds::uncertainty_ns() const {
  return std::max(std::abs(low_ns), std::abs(high_ns));
}

std::vector<GpuClockBounds> BoundGpuClocks(const query::Snapshot& snapshot) {
  std::map<std::tuple<int32_t, int64_t, std::string>, GpuClockBounds> found;
  for (const query::GpuClock& row : snapshot.gpu_clocks) {
    GpuClockBounds& bounds = found[{row.rank, row.device, row.method}];
    const bool is_first = bounds.readings++ == 0;
    bounds.rank = row.rank;
    bounds.device = row.device;
    bounds.method = row.method;
    bounds.low_ns = is_first ? row.low_ns : std::max(bounds.low_ns, row.low_ns);
    bounds.high_ns = is_first ? row.high_ns : std::min(bounds.high_ns, row.high_ns);
  }
  std::vector<GpuClockBounds> all;
  for (const auto& [key, bounds] : found) all.push_back(bounds);
  return all;
}

std::string Describe(const GpuClockBounds& bounds) {
  const std::string what =
      fmt::format("GPU {} of rank {} ({})", bounds.device, bounds.rank,
                  bounds.method == Name(query::GpuClockMethod::kCupti) ? "CUPTI" : bounds.method);
  if (bounds.drifts()) {
    return fmt::format("{}: its clock drifts against the host's: no one offset fits ({} to {})",
                       what, Signed(bounds.low_ns), Signed(bounds.high_ns));
  }
  const bool is_possible = bounds.low_ns <= 0 && bounds.high_ns >= 0;
  return fmt::format("{}: times {} {} against the host's clock ({} to {}, {} reading{})", what,
                     is_possible ? "right within" : "OFF by up to",
                     FormatDuration(bounds.uncertainty_ns()), Signed(bounds.low_ns),
                     Signed(bounds.high_ns), bounds.readings, bounds.readings == 1 ? "" : "s");
}

std::string PrintGpuClocks(const std::vector<GpuClockBounds>& clocks) {
  if (clocks.empty()) return "";
  std::string text = "\nClocks of GPUs\n";
  for (const GpuClockBounds& bounds : clocks) text += "  " + Describe(bounds) + "\n";
  return text;
}

}  // namespace shardscope::analysis
