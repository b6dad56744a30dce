// The report as text: what a person wants to know first stands first; units always.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "trace/analysis/changes.h"
#include "trace/analysis/names.h"
#include "trace/analysis/report/report.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/collective_names.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

using Table = TextTable;
using Row = TextTable::Row;

// The word that every number of an emulated or projected run carries.
std::string TruthWord(const Report& report) {
  return report.truth == query::Truth::kMeasured ? "" : " " + std::string(Name(report.truth));
}

std::string Head(const Report& report) {
  std::vector<std::string> facts = {std::string(StateWord(report))};
  std::set<int32_t> steps;
  for (const StepBreakdown& row : report.steps) steps.insert(row.step);
  facts.push_back(Counted(std::ssize(report.memory), "rank"));
  facts.push_back(Counted(std::ssize(steps), "step"));
  if (report.truth == query::Truth::kMeasured) {
    facts.push_back("times measured");
  } else {
    facts.push_back(fmt::format(
        "communication {}{}", Name(report.truth),
        report.link.bandwidth.empty() ? "" : " at link.bandwidth=" + report.link.bandwidth));
  }
  if (report.contended) facts.push_back("ranks share cores (contended)");
  const std::string resumed = Describe(report.resumed);
  const std::string setup = SetupText(report.setup);
  return report.name + ": " + Join(facts, ", ") + "\n" +
         (setup.empty() ? "" : "with " + setup + "\n") + (resumed.empty() ? "" : resumed + "\n") +
         PrintRecognised(report.figures.explanation.recognised);
}

// What went wrong stands before all numbers.
std::string ProblemsText(const Report& report) {
  std::string text;
  for (const query::Marker& error : report.errors) {
    const std::string step = error.step < 0 ? "" : fmt::format(" at step {}", error.step);
    text += fmt::format("The run failed{}: {}\n", step, error.new_value);
  }
  if (report.state == query::TraceState::kCut) {
    text +=
        "It ended before it could close its trace (it was killed, or could write no more): what it "
        "did last is "
        "missing\n";
  }
  for (const std::string& reason : report.unfinished) {
    text += fmt::format("Its file stays as it was left: {}\n", reason);
  }
  for (const std::string& file : report.cut_files) {
    text += fmt::format(
        "A file of it is not whole, and all below is of the part that is there: {}\n", file);
  }
  return text.empty() ? "" : "\n" + text;
}

// Which steps every figure is of, and which of them the times leave out.
std::string ScopeText(const Report& report) {
  const Figures& figures = report.figures;
  const ScopedSteps& scope = figures.scope;
  std::string text = fmt::format("\nOver {} of {}: {}", Counted(figures.summary.num_steps, "step"),
                                 Counted(figures.summary.num_ranks, "rank"), ScopeWords(scope));
  if (scope.first_timed > scope.first)
    text += fmt::format(", times without warm-up (before step {})", scope.first_timed);
  if (scope.last < report.steps.front().timed_from) text += ", all of it warm-up";
  return text + "\n";
}

// What no step contains; empty if nothing was.
std::string PausesText(const Report& report) {
  struct Sum {
    int64_t count = 0;
    int64_t ns = 0;
  };
  std::map<query::PauseCause, Sum> sums;
  for (const query::Pause& pause : report.pauses) {
    Sum& sum = sums[pause.cause];
    ++sum.count;
    sum.ns = std::min(sum.ns, std::numeric_limits<int64_t>::max() - pause.end_ns);  // damaged files
    sum.ns += pause.end_ns - pause.start_ns;
  }
  std::vector<std::string> facts;
  for (const auto& [cause, sum] : sums) {
    const std::string noun = cause == query::PauseCause::kUser ? "pause" : std::string(Name(cause));
    facts.push_back(Counted(sum.count, noun) + " of " + FormatDuration(sum.ns));
  }
  return facts.empty() ? "" : "  between steps, in none of them: " + Join(facts, ", ") + "\n";
}

// The first, the lowest and the last; empty if there was none.
std::string EvaluationsText(const Report& report) {
  const std::vector<query::Evaluation>& all = report.evaluations;
  if (all.empty()) return "";
  const auto said = [](const query::Evaluation& one) {
    return fmt::format("{:.4f} nats before step {}", one.loss, one.step);
  };
  const auto lowest = std::ranges::min_element(all, {}, &query::Evaluation::loss);
  std::vector<std::string> losses = {said(all.front())};
  if (lowest != all.begin() && lowest + 1 != all.end()) losses.push_back("lowest " + said(*lowest));
  if (all.size() > 1) losses.push_back("last " + said(all.back()));
  return fmt::format("  held-out data: {} of {}, loss {}\n", Counted(std::ssize(all), "evaluation"),
                     Counted(all.back().tokens, "token"), Join(losses, ", "));
}

// Steps of the scope that updated nothing, as an fp16 gradient was not finite; empty without.
std::string SkipsText(const Report& report) {
  const std::vector<query::Marker> skips = SkipsInScope(report);
  if (skips.empty()) return "";
  const query::Marker& last = skips.back();
  return fmt::format("  gradient scaler: {} skipped, the last at {}, scale {} -> {}\n",
                     Counted(std::ssize(skips), "step"), last.step, last.old_value, last.new_value);
}

std::string SummaryText(const Report& report) {
  const Summary& summary = report.figures.summary;
  if (summary.num_steps == 0) {
    return report.steps.empty()
               ? (report.imported ? "\nIt tells of no steps.\n" : "\nNo step is finished yet.\n")
               : fmt::format("\nNo step is finished yet {}.\n", ScopeWords(report.figures.scope));
  }
  const std::string word = TruthWord(report);
  std::string text = ScopeText(report);
  Table table({"", "p50", "p95"}, 1);
  const auto add = [&](const std::string& name, const Percentiles& value) {
    table.Add({name, FormatDuration(value.p50), FormatDuration(value.p95)});
  };
  add("step", summary.step_ns);
  add("compute", summary.compute_ns);
  add("communication" + word, summary.communication_ns);
  add("exposed communication" + word, summary.exposed_ns);
  add("idle", summary.idle_ns);
  text += table.Print();
  text += summary.communicates ? fmt::format("  overlap ratio {}, exposed {} of the step\n",
                                             FormatPercent(summary.overlap_ratio),
                                             FormatPercent(summary.exposed_share))
                               : "  no communication\n";
  // Of another program it is not known what it trains on.
  if (summary.tokens_per_second > 0) {
    const std::string loss =
        summary.first_loss == 0
            ? "of no token counts"
            : fmt::format("{:.4f} -> {:.4f} nats", summary.first_loss, summary.last_loss);
    text += fmt::format("  {} tokens/s over all ranks, loss {}\n",
                        FormatCount(summary.tokens_per_second), loss);
  }
  return text + Describe(report.trained) + SkipsText(report) + EvaluationsText(report) +
         PausesText(report);
}

std::string StepsText(const Report& report, int num_steps) {
  const ScopedSteps& scope = report.figures.scope;
  if (scope.empty()) return "";
  const int64_t newest = int64_t{scope.last} - num_steps + 1;
  const int64_t first = num_steps > 0 ? std::max<int64_t>(scope.first, newest) : scope.first;
  Table table({"step", "rank", "time", "compute", "communication", "copy", "overlap", "exposed",
               "exposed copy", "idle", "slot wait", "tokens/s", "loss", "grad norm"},
              0);
  for (const StepBreakdown& row : report.steps) {
    if (row.step < first || row.step > scope.last) continue;
    table.Add({std::to_string(row.step), std::to_string(row.rank), FormatDuration(row.step_ns),
               FormatDuration(row.time.compute_ns), FormatDuration(row.time.communication_ns),
               FormatDuration(row.time.copy_ns), FormatDuration(row.time.overlap_ns),
               FormatDuration(row.time.exposed_ns), FormatDuration(row.time.exposed_copy_ns),
               FormatDuration(row.time.idle_ns), FormatDuration(row.slot_wait_ns),
               FormatCount(TokensPerSecond(row)),
               row.tokens == 0 || row.loss == 0 ? "-" : fmt::format("{:.4f}", row.loss),
               std::isnan(row.grad_norm) ? "-" : fmt::format("{:.3g}", row.grad_norm)});
  }
  const bool all = scope.first >= first;
  return fmt::format(
      "\nSteps{} (compute + exposed + exposed copy + idle = time; slot wait is part of idle; the "
      "mean of ranks' losses is the step's)\n{}",
      all ? "" : fmt::format(" {} to {}, --all lists all", first, scope.last), table.Print());
}

// Beside the time of the first rank's steps.
std::string CheckpointsText(const Report& report) {
  int64_t num_steps = 0;
  int64_t steps_ns = 0;
  for (const StepBreakdown& row : report.steps) {
    if (!report.figures.scope.Contains(row.step) || row.rank != report.steps.front().rank) continue;
    ++num_steps;
    steps_ns = std::min(steps_ns, std::numeric_limits<int64_t>::max() - row.step_ns);  // damaged
    steps_ns += row.step_ns;
  }
  return PrintCheckpoints(report.checkpoints, num_steps, steps_ns);
}

// Memory of the GPU as its driver reports it, where the trace has that.
std::string DeviceMemoryText(const Report& report) {
  std::string text;
  for (const MemoryPeak& peak : report.figures.memory) {
    if (peak.driver_peak_bytes == 0 && peak.device_peak_bytes == 0) continue;
    text += fmt::format("  rank {}: ", peak.rank);
    if (peak.driver_peak_bytes > 0) {
      text += fmt::format("{} at most from the driver", FormatBytes(peak.driver_peak_bytes));
    }
    if (peak.device_peak_bytes > 0) {
      text +=
          fmt::format("{}{} of the GPU in use at most, contexts and other processes included",
                      peak.driver_peak_bytes > 0 ? ", " : "", FormatBytes(peak.device_peak_bytes));
    }
    text += '\n';
  }
  return text.empty() ? text : "\nMemory of GPUs\n" + text;
}

// "0 to 9, 20 to 29, 2 more": of a run whose knobs went to and fro.
std::string StretchesText(const std::vector<std::pair<int, int>>& steps) {
  constexpr size_t kListed = 3;
  std::vector<std::string> parts;
  for (const auto& [first, last] : steps) {
    if (parts.size() == kListed) {
      parts.push_back(fmt::format("{} more", steps.size() - kListed));
      break;
    }
    parts.push_back(first == last ? std::to_string(first) : fmt::format("{} to {}", first, last));
  }
  return Join(parts, ", ");
}

// What each Schedule took, beside what was known of it before.
std::string ScheduleMemoryText(const Report& report) {
  Table table({"schedule", "steps", "predicted", "bound", "measured", "rank"}, 2);
  for (const auto& [schedule, traffic] : report.schedules) {
    if (schedule.peak_bytes == 0 || schedule.predicted_bytes == 0) continue;
    table.Add({schedule.name, StretchesText(schedule.steps), FormatBytes(schedule.predicted_bytes),
               schedule.bound_bytes == 0 ? "-" : FormatBytes(schedule.bound_bytes),
               FormatBytes(schedule.peak_bytes), std::to_string(schedule.peak_rank)});
  }
  if (table.size() == 0) return "";
  return "\nPeak memory of each schedule (predicted: in issue order, without temporaries; bound: "
         "the "
         "most in any order of execution)\n" +
         table.Print();
}

std::string TrafficText(const Report& report) {
  Table table({"schedule", "communicator", "collective", "calls", "sent"}, 3);
  const auto add = [&](const std::string& schedule, const RankTraffic& all) {
    const std::string of_rank =
        all.rank ? fmt::format("{}, rank {}", schedule, *all.rank) : schedule;
    for (const Traffic& traffic : all.rows) {
      std::string kind(Name(traffic.kind));
      std::replace(kind.begin(), kind.end(), '_', '-');
      table.Add({of_rank, traffic.communicator, kind, std::to_string(traffic.calls),
                 FormatBytes(traffic.wire_bytes)});
    }
  };
  for (const ScheduleFigures& one : report.schedules) add(one.memory.name, one.traffic);
  for (const EvaluationFigures& one : report.evaluation_schedules) add(one.name, one.traffic);
  if (table.size() == 0) return "";
  const bool has_batches = !report.evaluation_schedules.empty();
  return fmt::format(
      "\nWhat a rank sends in a step{}, as planned (a rank is named where they differ: the one "
      "that sends most)\n{}",
      has_batches ? ", or in a batch of an evaluation" : "", table.Print());
}

std::string MemoryText(const Report& report) {
  Row head = {"rank", "peak"};
  std::set<size_t> used;
  bool any = false;
  for (const MemoryPeak& peak : report.figures.memory) {
    any |= peak.peak_bytes > 0;
    for (size_t i = 0; i < peak.at_peak.size(); ++i) {
      if (peak.peak_of[i] != 0) used.insert(i);
    }
  }
  if (!any) return "";  // nothing was recorded of it: a zero would be wrong
  for (const size_t category : used) {
    std::string name(Name(static_cast<query::MemoryCategory>(category)));
    std::replace(name.begin(), name.end(), '_', ' ');
    head.push_back(name);
  }
  Table table(head, 0);
  for (const MemoryPeak& peak : report.figures.memory) {
    Row row = {std::to_string(peak.rank), FormatBytes(peak.peak_bytes)};
    for (const size_t category : used) row.push_back(FormatBytes(peak.at_peak[category]));
    table.Add(row);
  }
  return "\nPeak memory, and what was live then\n" + table.Print() + ScheduleMemoryText(report);
}

std::string CollectivesText(const Report& report) {
  if (report.figures.slowest_collectives.empty()) return "";
  Table table({"collective", "rank", "step", "time", "wait", "transfer", "last rank", "wire",
               "bus bandwidth"},
              1);
  const size_t listed = std::min<size_t>(10, report.figures.slowest_collectives.size());
  bool incomplete = false;
  for (size_t i = 0; i < listed; ++i) {
    const CollectiveRun& run = report.figures.slowest_collectives[i];
    incomplete |= !run.complete;
    table.Add({run.name + (run.complete ? "" : " *"), std::to_string(run.rank),
               std::to_string(run.step), FormatDuration(run.ended_ns - run.started_ns),
               FormatDuration(run.wait_ns), FormatDuration(run.transfer_ns),
               std::to_string(run.last_rank), FormatBytes(run.wire_bytes),
               FormatBandwidth(run.bus_bandwidth)});
  }
  return fmt::format(
      "\nSlowest collectives{}\n{}{}",
      report.truth == query::Truth::kMeasured ? "" : " (" + TruthWord(report).substr(1) + ")",
      table.Print(),
      incomplete ? "  * rows of some ranks are missing: the wait may be longer\n" : "");
}

std::string StallsText(const Report& report) {
  if (report.figures.scope.empty()) return "";
  if (report.figures.stalls.empty())
    return "\nNo stalls: compute never waited for communication.\n";
  Table table({"waited for", "cause", "per step", "total", "count", "worst"}, 2);
  for (const StallGroup& group : report.figures.stalls) {
    table.Add({group.title, group.sentence, FormatDuration(group.ns_per_step),
               FormatDuration(group.total_ns), std::to_string(group.count),
               fmt::format("{} (rank {}, step {})", FormatDuration(group.worst.stall_ns),
                           group.worst.rank, group.worst.step)});
  }
  return "\nStalls, dearest first (per step: mean over ranks and steps)\n" + table.Print();
}

std::string MarkersText(const Report& report) {
  if (report.markers.empty()) return "";
  Table table({"step", "marker", ""}, 3);
  for (const query::Marker& marker : report.markers) {
    table.Add({std::to_string(marker.step), marker.kind,
               marker.key.empty() ? marker.new_value : query::ChangeText(marker)});
  }
  return "\nMarkers\n" + table.Print();
}

std::string PlacedBy(query::ClockMethod method) {
  switch (method) {
    case query::ClockMethod::kReference:
      return "the common clock";
    case query::ClockMethod::kCollectives:
      return "shared collectives";
    case query::ClockMethod::kTimeOfDay:
      return "time of day (no shared collectives)";
    case query::ClockMethod::kUnknown:
      break;
  }
  return "nothing (no shared collectives, no time of day)";
}

// Times of several machines are right within this only.
std::string ClocksText(const Report& report) {
  if (report.clocks.empty()) return "";
  if (report.clocks.size() == 1) {
    // Dumps of flight recorders do not say whose they are.
    if (report.clocks.front().processes.empty()) return "";
    return fmt::format("\nProcesses on one clock: {}\n", report.clocks.front().processes);
  }
  Table table({"processes", "placed by", "offset", "drift", "collectives", "p50", "p95", "max"}, 2);
  for (const query::Clock& clock : report.clocks) {
    const auto residual = [&clock](int64_t residual_ns) {
      return clock.collectives == 0 ? std::string("-") : FormatDuration(residual_ns);
    };
    table.Add({clock.processes, PlacedBy(clock.method), FormatDuration(clock.offset_ns),
               fmt::format("{:.1f} ppm", static_cast<double>(clock.drift_ppb) / 1e3),
               std::to_string(clock.collectives), residual(clock.residual_p50_ns),
               residual(clock.residual_p95_ns), residual(clock.residual_max_ns)});
  }
  return "\nClocks, and within what the ends of one collective agree (residual)\n" + table.Print();
}

// Where each rank is in the collectives of a group.
std::string PositionsText(const GroupHang& group) {
  const bool is_used =
      std::any_of(group.positions.begin(), group.positions.end(),
                  [](const RankPosition& position) { return position.last_enqueued >= 0; });
  if (!is_used) return "";  // what it sends and receives is told in words
  Table table({"rank", "completed", "started", "asked for", "", "in"}, 0);
  const auto sequence = [](int64_t number) {
    return number < 0 ? std::string("-") : fmt::format("#{}", number);
  };
  for (const RankPosition& position : group.positions) {
    if (position.has_dump) {
      table.Add({std::to_string(position.rank), sequence(position.last_completed),
                 sequence(position.last_started), sequence(position.last_enqueued),
                 position.last_name, position.asked_at});
    } else {
      table.Add({std::to_string(position.rank), "no dump", "", "", "", ""});
    }
  }
  return fmt::format("\nGroup {}{}: the last collectives of each rank\n{}", group.name,
                     SaysPurpose(group.description) ? " (" + group.description + ")" : "",
                     table.Print());
}

std::string HangText(const Hang& hang) {
  constexpr size_t kListedGroups = 10;
  if (hang.sentence.empty()) return "";
  std::string text = "\n" + hang.sentence + "\n";
  size_t listed = 0;
  for (const GroupHang& group : hang.groups) {
    if (++listed > kListedGroups) break;
    text += PositionsText(group);
    if (!group.sentence.empty() && group.sentence != hang.sentence) {
      text += "  " + group.sentence + "\n";
    }
    for (const std::string& peer : group.peers) {
      if (peer != group.sentence) text += "  " + peer + "\n";
    }
  }
  if (listed > kListedGroups) {
    text += fmt::format("{} more groups: --json lists all\n", hang.groups.size() - kListedGroups);
  }
  return text;
}

std::string VerdictText(const Report& report) {
  const Verdict& verdict = report.figures.explanation.verdict;
  return verdict.sentence.empty() ? "" : "\n" + verdict.sentence + "\n";
}

// Last, but always there: what is not in a trace cannot be missed by looking at it.
std::string DroppedText(const Report& report) {
  int64_t total = 0;
  std::vector<std::string> parts;
  for (const auto& [source, count] : report.dropped) {
    total += count;
    if (count > 0) parts.push_back(fmt::format("{} {}", source, count));
  }
  if (total == 0) return "\n0 records dropped\n";
  const std::string what = Join(parts, ", ");
  std::string text =
      report.imported
          ? fmt::format("\nNot understood while importing, {} in all ({})\n", total, what)
          : fmt::format("\n{} dropped ({}): the trace has holes\n", Counted(total, "record"), what);
  for (const auto& [reason, count] : report.losses) {
    text += fmt::format("  {} {}\n", count, reason);
  }
  return text;
}

}  // namespace

std::string PrintDropped(const Report& report) { return DroppedText(report); }

std::string PrintReportText(const Report& report, int num_steps) {
  return Head(report) + ProblemsText(report) + HangText(report.hang) + VerdictText(report) +
         SummaryText(report) + PrintExplanation(report.figures.explanation) + PrintChanges(report) +
         StepsText(report, num_steps) + StallsText(report) + CollectivesText(report) +
         PrintKernels(report.kernels) + PrintEdges(report.edges) + TrafficText(report) +
         MemoryText(report) + DeviceMemoryText(report) + CheckpointsText(report) +
         MarkersText(report) + ClocksText(report) + PrintGpuClocks(report.gpu_clocks) +
         PrintOverhead(report.overhead) + PrintSources(report.sources) + DroppedText(report);
}

}  // namespace shardscope::analysis
