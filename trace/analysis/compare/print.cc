#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "trace/analysis/compare/comparison.h"
#include "trace/analysis/compare/delta_json.h"
#include "trace/analysis/compare/gate.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/enum_count.h"
#include "trace/base/json_line.h"
#include "trace/base/signed_text.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

using CompareJson = nlohmann::ordered_json;

std::string Signed(double ns) { return SignedText(ns, FormatDuration, "+"); }

std::string Within(const Shift& shift) {
  if (!shift.known) return "not known";
  return fmt::format("{} to {}", Signed(static_cast<double>(shift.low_ns)),
                     Signed(static_cast<double>(shift.high_ns)));
}

std::string SharePart(double ns, double all_ns) {
  return all_ns == 0 ? "" : FormatPercent(ns / all_ns);
}

std::string SideText(const char* letter, const ComparedSide& side) {
  std::string text = fmt::format("{}: {}, {} ranks, {} steps {} to {}", letter, side.name,
                                 side.num_ranks, side.num_steps, side.first_step, side.last_step);
  if (!side.knobs_turned.empty()) {
    std::vector<std::string> steps;
    for (const int32_t step : side.knobs_turned) steps.push_back(std::to_string(step));
    text += fmt::format(" (a knob was turned at step {}: they are not alike)", Join(steps, ", "));
  }
  return text + "\n";
}

std::string StepText(const Comparison& comparison) {
  TextTable table({"a step of a rank", "A", "B", "difference", "share", "within (95 %)"}, 1);
  const auto add = [&](std::string name, const Delta& delta) {
    table.Add({std::move(name), FormatDuration(delta.a_ns), FormatDuration(delta.b_ns),
               Signed(delta.ns()), SharePart(delta.ns(), comparison.step.ns()),
               Within(delta.shift)});
  };
  add("step", comparison.step);
  for (size_t at = 0; at < kNumStepParts; ++at)
    add(std::string(Name(static_cast<StepPart>(at))), comparison.parts[at]);
  return "\n" + table.Print();
}

std::string StateWord(const ComparedRow& row) {
  const RowState state = StateOf(row);
  if (state == RowState::kAdded) return "added";
  return state == RowState::kGone ? "gone" : "";
}

std::string RowsText(const Comparison& comparison, int num_rows) {
  TextTable table({"what", "phase", "unit", "", "A", "B", "difference", "share"}, 4);
  for (const ComparedRow& row : comparison.rows) {
    if (num_rows > 0 && table.size() == static_cast<size_t>(num_rows)) break;
    if (row.on_path.ns() == 0 && StateWord(row).empty()) continue;
    const bool is_idle = row.key.part == StepPart::kIdle;
    const std::string what = !is_idle ? fmt::format("{}, {}", Name(row.key.part), row.key.kind)
                             : row.key.kind.empty() ? std::string("idle, end of the step")
                                                    : "idle, before " + row.key.kind;
    const std::string unit =
        row.b_unit.empty() ? row.key.unit : fmt::format("{} = {}", row.key.unit, row.b_unit);
    table.Add({what, row.key.phase, unit, StateWord(row), FormatDuration(row.on_path.a_ns),
               FormatDuration(row.on_path.b_ns), Signed(row.on_path.ns()),
               SharePart(row.on_path.ns(), comparison.step.ns())});
  }
  if (table.size() == 0) return "";
  return "\nWhere the difference is, a step of a rank (rows add up to it), dearest first\n" +
         table.Print();
}

std::string Lead(const std::optional<int>& lead) { return lead ? std::to_string(*lead) : "-"; }

const char* NameOf(DoneFact fact) {
  static constexpr std::array kNames = {"units that all-gathers of forward are issued ahead",
                                        "units that all-gathers of backward are issued ahead",
                                        "units gathered again in backward",
                                        "collectives of a rank a step",
                                        "sent by a rank a step",
                                        "memory peak",
                                        "memory of the GPU's driver"};
  static_assert(kNames.size() == kCountOf<DoneFact>);
  return kNames[static_cast<size_t>(fact)];
}

std::string SetupText(const Comparison& comparison) {
  TextTable table({"set up", "A", "B"}, 3);
  for (const SettingDifference& setting : comparison.settings)
    table.Add({setting.key, setting.a, setting.b});
  for (const DoneDifference& done : DoneDifferences(comparison))
    table.Add({NameOf(done.fact), done.a, done.b});
  return table.size() == 0 ? "" : "\nWhat is set up or done differently\n" + table.Print();
}

std::string WorkText(const Comparison& comparison, int num_rows) {
  TextTable table({comparison.work_is_of_gpu ? "kernel" : "operator", "A", "B", "count A",
                   "count B", "difference"},
                  1);
  constexpr size_t kNameWidth = 60;
  for (const ComparedWork& work : comparison.work) {
    if (num_rows > 0 && table.size() == static_cast<size_t>(num_rows)) break;
    const std::string name =
        work.name.size() > kNameWidth ? work.name.substr(0, kNameWidth) + "..." : work.name;
    table.Add({name, FormatDuration(work.a_ns), FormatDuration(work.b_ns),
               fmt::format("{:.1f}", work.a_count), fmt::format("{:.1f}", work.b_count),
               Signed(work.b_ns - work.a_ns)});
  }
  return table.size() == 0
             ? ""
             : "\nBy name, a step of a rank, largest difference first\n" + table.Print();
}

CompareJson LeadJson(const std::optional<int>& lead) {
  return lead ? CompareJson(*lead) : CompareJson();
}

CompareJson SideJson(const ComparedSide& side) {
  const ScheduleFacts& schedule = side.schedule;
  return {{"name", side.name},
          {"num_ranks", side.num_ranks},
          {"num_steps", side.num_steps},
          {"first_step", side.first_step},
          {"last_step", side.last_step},
          {"step_ns", side.step_ns},
          {"tokens_per_step", side.tokens},
          {"knobs_turned", side.knobs_turned},
          {"schedules", schedule.names},
          {"forward_lead", LeadJson(schedule.forward_lead)},
          {"backward_lead", LeadJson(schedule.backward_lead)},
          {"gathered_units", schedule.gathered_units},
          {"gathered_again", schedule.gathered_again},
          {"collectives_per_step", schedule.collectives},
          {"sent_bytes_per_step", schedule.sent_bytes},
          {"peak_bytes", side.peaks.peak_bytes},
          {"driver_peak_bytes", side.peaks.driver_bytes}};
}

CompareJson RowJson(const ComparedRow& row) {
  return {{"part", Name(row.key.part)},
          {"kind", row.key.kind},
          {"phase", row.key.phase},
          {"unit", row.key.unit},
          {"b_unit", row.b_unit.empty() ? row.key.unit : row.b_unit},
          {"communicator", row.key.communicator},
          {"state", StateWord(row)},
          {"a_count", row.a_count},
          {"b_count", row.b_count},
          {"a_busy_ns", row.a_busy_ns},
          {"b_busy_ns", row.b_busy_ns},
          {"on_path", DeltaJson(row.on_path)}};
}

CompareJson GateJson(const Gate& gate, double most) {
  CompareJson passes;
  if (gate.outcome != GateOutcome::kUnknown) passes = gate.outcome == GateOutcome::kPasses;
  return {{"most", most},
          {"passes", passes},
          {"per", gate.is_per_token ? "token" : "step"},
          {"verdict", Name(gate.verdict)},
          {"slower", gate.slower},
          {"sentence", gate.sentence}};
}

CompareJson ComparisonJson(const Comparison& comparison) {
  CompareJson json;
  json["verdict"] = Name(comparison.verdict);
  json["sentence"] = comparison.sentence;
  json["slower"] = comparison.slower();
  json["a"] = SideJson(comparison.a);
  json["b"] = SideJson(comparison.b);
  json["step"] = DeltaJson(comparison.step);
  json["parts"] = CompareJson::object();
  for (size_t at = 0; at < kNumStepParts; ++at)
    json["parts"][std::string(Name(static_cast<StepPart>(at)))] = DeltaJson(comparison.parts[at]);
  const StepHistogram& histogram = comparison.histogram;
  json["histogram"] = {{"bounds_ns", histogram.bounds_ns},
                       {"logarithmic", histogram.is_logarithmic},
                       {"a", histogram.a},
                       {"b", histogram.b}};
  json["rows"] = CompareJson::array();
  for (const ComparedRow& row : comparison.rows) json["rows"].push_back(RowJson(row));
  json["units_by_order"] = comparison.units.by_order;
  json["units"] = CompareJson::array();
  for (const auto& [a, b] : comparison.units.pairs) json["units"].push_back({{"a", a}, {"b", b}});
  json["settings"] = CompareJson::array();
  for (const SettingDifference& setting : comparison.settings)
    json["settings"].push_back({{"key", setting.key}, {"a", setting.a}, {"b", setting.b}});
  json["work"] = CompareJson::array();
  for (const ComparedWork& work : comparison.work) {
    json["work"].push_back({{"name", work.name},
                            {"a_count", work.a_count},
                            {"b_count", work.b_count},
                            {"a_ns", work.a_ns},
                            {"b_ns", work.b_ns}});
  }
  return json;
}

}  // namespace

std::vector<DoneDifference> DoneDifferences(const Comparison& comparison) {
  const ScheduleFacts& a = comparison.a.schedule;
  const ScheduleFacts& b = comparison.b.schedule;
  std::vector<DoneDifference> differences;
  const auto add = [&differences](DoneFact fact, std::string in_a, std::string in_b) {
    if (in_a != in_b) differences.push_back({fact, std::move(in_a), std::move(in_b)});
  };
  add(DoneFact::kForwardLead, Lead(a.forward_lead), Lead(b.forward_lead));
  add(DoneFact::kBackwardLead, Lead(a.backward_lead), Lead(b.backward_lead));
  add(DoneFact::kGatheredAgain, std::to_string(a.gathered_again), std::to_string(b.gathered_again));
  add(DoneFact::kCollectives, fmt::format("{:.1f}", a.collectives),
      fmt::format("{:.1f}", b.collectives));
  add(DoneFact::kSentBytes, FormatBytes(static_cast<int64_t>(a.sent_bytes)),
      FormatBytes(static_cast<int64_t>(b.sent_bytes)));
  add(DoneFact::kPeakBytes, FormatBytes(comparison.a.peaks.peak_bytes),
      FormatBytes(comparison.b.peaks.peak_bytes));
  add(DoneFact::kDriverBytes, FormatBytes(comparison.a.peaks.driver_bytes),
      FormatBytes(comparison.b.peaks.driver_bytes));
  return differences;
}

std::string PrintComparison(const Comparison& comparison, int num_rows) {
  std::string text =
      comparison.sentence + "\n\n" + SideText("A", comparison.a) + SideText("B", comparison.b);
  if (comparison.a.num_steps == 0 || comparison.b.num_steps == 0) return text;
  if (comparison.units.by_order && !comparison.units.pairs.empty()) {
    text += fmt::format("No name of a unit is in both: {} are matched by their order\n",
                        comparison.units.pairs.size());
  }
  return text + StepText(comparison) + RowsText(comparison, num_rows) + SetupText(comparison) +
         WorkText(comparison, num_rows);
}

std::string PrintComparisonJson(const Comparison& comparison) {
  return JsonText(ComparisonJson(comparison));
}

std::string PrintComparisonJson(const Comparison& comparison, double most) {
  CompareJson json = ComparisonJson(comparison);
  json["gate"] = GateJson(GateOf(comparison, most), most);
  return JsonText(json);
}

}  // namespace shardscope::analysis
