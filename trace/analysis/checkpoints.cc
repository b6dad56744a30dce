#include "trace/analysis/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/parse_number.h"
#include "trace/base/text.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

// One checkpoint while its parts are collected.
struct Collected {
  CheckpointFigures figures;
  int64_t first_written_ns = 0;  // of the first rank, whose process marks the whole
  int64_t copied_ns = 0;         // of the last rank
  int64_t written_ns = 0;
};

void AddPart(const query::CheckpointPart& part, Collected* one) {
  CheckpointFigures& figures = one->figures;
  figures.step = part.step;
  ++figures.num_ranks;
  AddCapped(part.bytes, &figures.bytes);
  figures.wait_ns = std::max(figures.wait_ns, part.copy_ns - part.start_ns);
  figures.copy_ns = std::max(figures.copy_ns, part.copied_ns - part.copy_ns);
  if (figures.error.empty()) figures.error = part.error;
  one->copied_ns = std::max(one->copied_ns, part.copied_ns);
  one->written_ns = std::max(one->written_ns, part.written_ns);
}

// The marker of the whole comes after the first rank's file, and before its next checkpoint.
void FindMarker(const query::Snapshot& snapshot, int64_t until_ns, Collected* one) {
  for (const query::Marker& marker : snapshot.markers) {
    if (marker.kind != Name(query::MarkerKind::kCheckpoint) || marker.step != one->figures.step ||
        marker.time_ns < one->first_written_ns || marker.time_ns >= until_ns) {
      continue;
    }
    one->figures.is_whole = true;
    one->figures.folder = marker.new_value;
    one->written_ns = std::max(one->written_ns, marker.time_ns);
    return;
  }
}

std::string StateText(const CheckpointFigures& one) {
  if (one.is_whole) return "";
  return one.error.empty() ? "not whole" : "lost: " + one.error;
}

}  // namespace

std::vector<CheckpointFigures> CheckpointsOf(const query::Snapshot& snapshot) {
  // By step, and by how many of that step came before: a paused run may be asked for several.
  std::map<std::pair<int32_t, int>, Collected> collected;
  for (const query::RankRows& rows : snapshot.ranks) {
    std::map<int32_t, int> taken;
    for (const query::CheckpointPart& part : rows.checkpoints) {
      Collected& one = collected[{part.step, taken[part.step]++}];
      if (one.figures.num_ranks == 0) one.first_written_ns = part.written_ns;
      AddPart(part, &one);
    }
  }
  constexpr int64_t kEver = std::numeric_limits<int64_t>::max();
  std::vector<CheckpointFigures> checkpoints;
  for (auto at = collected.begin(); at != collected.end(); ++at) {
    const auto next = std::next(at);
    const bool is_of_step = next != collected.end() && next->first.first == at->first.first;
    FindMarker(snapshot, is_of_step ? next->second.first_written_ns : kEver, &at->second);
    at->second.figures.write_ns = at->second.written_ns - at->second.copied_ns;
    checkpoints.push_back(std::move(at->second.figures));
  }
  return checkpoints;
}

std::optional<ResumedFrom> ResumedFromOf(const query::Snapshot& snapshot) {
  const auto value = [&](std::string_view key) {
    const auto found = snapshot.meta.find(std::string(key));
    return found == snapshot.meta.end() ? std::string() : found->second;
  };
  ResumedFrom resumed{.run_id = value(trace_keys::kResumedRun),
                      .folder = value(trace_keys::kResumedFrom)};
  const auto step = ParseInteger<int64_t>(value(trace_keys::kResumedStep));
  if (!step) return std::nullopt;
  resumed.step = *step;
  return resumed;
}

std::string Describe(const std::optional<ResumedFrom>& resumed) {
  if (!resumed) return "";
  return fmt::format("Goes on from {} with step {} ({})",
                     resumed->run_id.empty() ? "no run" : "run " + resumed->run_id, resumed->step,
                     resumed->folder);
}

std::string PrintCheckpoints(const std::vector<CheckpointFigures>& checkpoints, int64_t num_steps,
                             int64_t steps_ns) {
  if (checkpoints.empty()) return "";
  constexpr size_t kListed = 10;
  int64_t num_whole = 0;
  int64_t bytes = 0;
  int64_t waited_ns = 0;
  TextTable table({"before step", "size", "wait", "copy", "writing", ""}, 0);
  for (size_t at = 0; at < checkpoints.size(); ++at) {
    const CheckpointFigures& one = checkpoints[at];
    num_whole += one.is_whole ? 1 : 0;
    if (one.is_whole) AddCapped(one.bytes, &bytes);
    AddCapped(one.wait_ns, &waited_ns);
    AddCapped(one.copy_ns, &waited_ns);
    if (at + kListed < checkpoints.size()) continue;
    table.Add({std::to_string(one.step), FormatBytes(one.bytes), FormatDuration(one.wait_ns),
               FormatDuration(one.copy_ns), FormatDuration(one.write_ns), StateText(one)});
  }
  std::string text =
      fmt::format("\nCheckpoints: {} of {} whole, {} written; the training waited {} for them",
                  num_whole, checkpoints.size(), FormatBytes(bytes), FormatDuration(waited_ns));
  if (num_steps > 0) text += fmt::format(", {} a step", FormatDuration(waited_ns / num_steps));
  if (steps_ns > 0) {
    text += fmt::format(" ({} of it)", FormatPercent(static_cast<double>(waited_ns) /
                                                     static_cast<double>(steps_ns)));
  }
  return text +
         "\n  wait: until the one before was written; copy: then the training goes on; writing: "
         "while it does\n" +
         table.Print();
}

}  // namespace shardscope::analysis
