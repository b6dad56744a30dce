// The report as JSON: numbers in nanoseconds and bytes, keys as documented in docs.
#include <nlohmann/json.hpp>

#include "trace/analysis/changes.h"
#include "trace/analysis/names.h"
#include "trace/analysis/report.h"
#include "trace/base/time.h"

namespace shardscope::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json StepJson(const StepBreakdown& row) {
  Json json;
  json["step"] = row.step;
  json["rank"] = row.rank;
  json["step_ns"] = row.step_ns;
  json["compute_ns"] = row.compute_ns;
  json["communication_ns"] = row.communication_ns;
  json["copy_ns"] = row.copy_ns;
  json["overlap_ns"] = row.overlap_ns;
  json["exposed_ns"] = row.exposed_ns;
  json["exposed_copy_ns"] = row.exposed_copy_ns;
  json["idle_ns"] = row.idle_ns;
  json["slot_wait_ns"] = row.slot_wait_ns;
  json["tokens"] = row.tokens;
  json["tokens_per_second"] = TokensPerSecond(row);
  json["loss"] = row.loss;
  json["grad_norm"] = row.grad_norm;
  return json;
}

Json PauseJson(const query::Pause& pause) {
  Json json;
  json["before_step"] = pause.step;
  json["cause"] = Name(pause.cause);
  json["pause_ns"] = pause.end_ns - pause.start_ns;
  return json;
}

Json PercentilesJson(const Percentiles& percentiles) {
  Json json;
  json["p50"] = percentiles.p50;
  json["p95"] = percentiles.p95;
  return json;
}

Json SummaryJson(const Summary& summary) {
  Json json;
  json["num_ranks"] = summary.num_ranks;
  json["num_steps"] = summary.num_steps;
  json["warm_up_steps"] = kWarmUpSteps;
  json["step_ns"] = PercentilesJson(summary.step_ns);
  json["compute_ns"] = PercentilesJson(summary.compute_ns);
  json["communication_ns"] = PercentilesJson(summary.communication_ns);
  json["exposed_ns"] = PercentilesJson(summary.exposed_ns);
  json["idle_ns"] = PercentilesJson(summary.idle_ns);
  json["exposed_share"] = summary.exposed_share;
  json["overlap_ratio"] = summary.overlap_ratio;
  json["tokens_per_second"] = summary.tokens_per_second;
  json["first_loss"] = summary.first_loss;
  json["last_loss"] = summary.last_loss;
  return json;
}

// Steps of an empty scope are null.
Json ScopeJson(const ScopedSteps& scope) {
  const auto step = [&](int32_t number) { return scope.empty() ? Json() : Json(number); };
  Json json;
  json["kind"] = Name(scope.kind);
  json["first_step"] = step(scope.first);
  json["last_step"] = step(scope.last);
  json["first_timed_step"] = step(scope.first_timed);
  json["words"] = ScopeWords(scope);
  return json;
}

Json CategoriesJson(const CategoryBytes& bytes) {
  Json json = Json::object();
  for (size_t i = 0; i < bytes.size(); ++i) {
    json[std::string(Name(static_cast<query::MemoryCategory>(i)))] = bytes[i];
  }
  return json;
}

Json MemoryJson(const MemoryPeak& peak) {
  Json json;
  json["rank"] = peak.rank;
  json["peak_bytes"] = peak.peak_bytes;
  json["peak_time_ns"] = peak.peak_time_ns;
  json["by_category"] = CategoriesJson(peak.at_peak);
  json["peak_of_category"] = CategoriesJson(peak.peak_of);
  if (peak.driver_peak_bytes > 0) json["driver_peak_bytes"] = peak.driver_peak_bytes;
  if (peak.device_peak_bytes > 0) json["device_peak_bytes"] = peak.device_peak_bytes;
  return json;
}

Json ScheduleJson(const ScheduleMemory& schedule) {
  Json json;
  json["name"] = schedule.name;
  json["steps"] = schedule.steps;
  json["predicted_peak_bytes"] = schedule.predicted_bytes;
  json["executed_bound_bytes"] = schedule.bound_bytes;
  json["peak_bytes"] = schedule.peak_bytes;
  json["peak_rank"] = schedule.peak_rank;
  return json;
}

Json CollectiveJson(const CollectiveRun& run) {
  Json json;
  json["op_run"] = run.op_run;
  json["name"] = run.name;
  json["rank"] = run.rank;
  json["step"] = run.step;
  json["communicator"] = run.communicator;
  json["sequence"] = run.sequence;
  json["started_ns"] = run.started_ns;
  json["ended_ns"] = run.ended_ns;
  json["duration_ns"] = run.ended_ns - run.started_ns;
  json["wait_ns"] = run.wait_ns;
  json["transfer_ns"] = run.transfer_ns;
  json["last_rank"] = run.last_rank;
  json["payload_bytes"] = run.payload_bytes;
  json["wire_bytes"] = run.wire_bytes;
  json["bus_bandwidth"] = run.bus_bandwidth;
  json["complete"] = run.complete;
  return json;
}

Json StallJson(const StallGroup& group) {
  Json json;
  json["title"] = group.title;
  json["op"] = group.op_name;
  json["blocking_op"] = group.blocking_name;
  json["cause"] = Name(group.cause);
  json["cause_object"] = group.cause_object;
  json["sentence"] = group.sentence;
  json["total_ns"] = group.total_ns;
  json["ns_per_step"] = group.ns_per_step;
  json["count"] = group.count;
  json["worst_ns"] = group.worst.stall_ns;
  json["worst_rank"] = group.worst.rank;
  json["worst_step"] = group.worst.step;
  return json;
}

Json EveryStallJson(const Stall& stall) {
  Json json;
  json["rank"] = stall.rank;
  json["step"] = stall.step;
  json["op"] = stall.op_name;
  json["blocking_op"] = stall.blocking_name;
  json["cause"] = Name(stall.cause);
  json["cause_object"] = stall.cause_object;
  json["sentence"] = stall.sentence;
  json["start_ns"] = stall.start_ns;
  json["stall_ns"] = stall.stall_ns;
  return json;
}

Json KernelsJson(const KernelSummary& kernels) {
  Json json;
  json["ranks"] = kernels.num_ranks;
  json["kernels"] = kernels.kernels;
  json["copies"] = kernels.copies;
  json["joined"] = kernels.joined;
  json["join_rate"] = kernels.join_rate();
  json["without_times"] = kernels.without_times;
  json["compute_ns"] = kernels.compute_ns;
  json["communication_ns"] = kernels.communication_ns;
  json["copy_ns"] = kernels.copy_ns;
  json["overlap_ns"] = kernels.overlap_ns;
  json["exposed_ns"] = kernels.exposed_ns();
  json["overlap_ratio"] = kernels.overlap_ratio();
  json["overhead_ns"] = kernels.overhead_ns;
  json["overlapping_pairs"] = kernels.overlapping_pairs;
  return json;
}

Json EdgeGroupJson(const EdgeGroup& group) {
  Json json;
  json["from"] = group.from;
  json["to"] = group.to;
  json["verdict"] = group.missing ? "missing" : "extra";
  json["count"] = group.count;
  json["first_rank"] = group.first.rank;
  json["first_step"] = group.first.step;
  return json;
}

Json MarkerJson(const query::Marker& marker) {
  Json json;
  json["step"] = marker.step;
  json["time_ns"] = marker.time_ns;
  json["kind"] = marker.kind;
  json["key"] = marker.key;
  json["old_value"] = marker.old_value;
  json["new_value"] = marker.new_value;
  return json;
}

Json ChangeJson(const ChangeEffect& effect) {
  Json json;
  json["step"] = effect.step;
  Json& changes = json["set"];
  for (const query::Marker& marker : effect.markers) {
    changes[marker.key] = {{"old", marker.old_value}, {"new", marker.new_value}};
  }
  json["steps_each"] = effect.num_steps;
  if (effect.num_steps > 0) {
    json["before"] = SummaryJson(effect.before);
    json["after"] = SummaryJson(effect.after);
  }
  return json;
}

Json ClockJson(const query::Clock& clock) {
  Json json;
  json["method"] = Name(clock.method);
  json["processes"] = clock.processes;
  json["offset_ns"] = clock.offset_ns;
  json["drift_ppb"] = clock.drift_ppb;
  json["collectives"] = clock.collectives;
  json["residual_p50_ns"] = clock.residual_p50_ns;
  json["residual_p95_ns"] = clock.residual_p95_ns;
  json["residual_max_ns"] = clock.residual_max_ns;
  return json;
}

Json GpuClockJson(const GpuClockBounds& bounds) {
  Json json;
  json["rank"] = bounds.rank;
  json["device"] = bounds.device;
  json["method"] = bounds.method;
  json["low_ns"] = bounds.low_ns;
  json["high_ns"] = bounds.high_ns;
  json["uncertainty_ns"] = bounds.uncertainty_ns();
  json["drifts"] = bounds.drifts();
  json["readings"] = bounds.readings;
  return json;
}

Json OverheadJson(const Overhead& overhead) {
  if (overhead.left_out.empty()) return nullptr;
  Json json;
  json["rounds"] = overhead.rounds;
  json["ratio"] = overhead.ratio;
  json["lowest"] = overhead.lowest;
  json["highest"] = overhead.highest;
  json["recorded_ns"] = overhead.recorded_ns;
  json["unrecorded_ns"] = overhead.unrecorded_ns;
  json["left_out_steps"] = overhead.left_out;
  return json;
}

template <typename Row>
Json ListJson(const std::vector<Row>& rows, Json (*to_json)(const Row&)) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  return list;
}

Json SourceJson(const SourceState& state) {
  return {{"source", state.source},   {"status", state.status}, {"reason", state.reason},
          {"dropped", state.dropped}, {"ranks", state.ranks},   {"processes", state.processes}};
}

}  // namespace

std::string PrintReportJson(const Report& report) {
  Json json;
  json["name"] = report.name;
  json["run_folder"] = report.run_folder;
  json["state"] = Name(report.state);
  json["truth"] = Name(report.truth);
  json["contended"] = report.contended;
  json["transport"] = report.transport;
  json["link_bandwidth"] = report.link_bandwidth;
  const Figures& figures = report.figures;
  json["scope"] = ScopeJson(figures.scope);
  json["summary"] = SummaryJson(figures.summary);
  json["steps"] = Json::array();
  for (const StepBreakdown& row : report.steps) {
    if (figures.scope.Contains(row.step)) json["steps"].push_back(StepJson(row));
  }
  json["pauses"] = ListJson(report.pauses, &PauseJson);
  json["memory"] = ListJson(figures.memory, &MemoryJson);
  json["schedules"] = ListJson(report.schedules, &ScheduleJson);
  json["collectives"] = ListJson(figures.slowest_collectives, &CollectiveJson);
  json["stalls"] = ListJson(figures.stalls, &StallJson);
  if (report.every_stall) json["every_stall"] = ListJson(*report.every_stall, &EveryStallJson);
  if (report.kernels.num_ranks > 0) {
    json["kernels"] = KernelsJson(report.kernels);
    Json& waits = json["stream_waits"];
    waits["seen"] = report.edges.seen;
    waits["planned"] = report.edges.planned;
    waits["missing"] = report.edges.missing;
    waits["extra"] = report.edges.extra;
    waits["differences"] = ListJson(report.edges.groups, &EdgeGroupJson);
  }
  json["changes"] = ListJson(ChangesInScope(report), &ChangeJson);
  json["markers"] = ListJson(report.markers, &MarkerJson);
  json["errors"] = ListJson(report.errors, &MarkerJson);
  json["unfinished"] = report.unfinished;
  json["clocks"] = ListJson(report.clocks, &ClockJson);
  json["sources"] = ListJson(report.sources, &SourceJson);
  json["gpu_clocks"] = ListJson(report.gpu_clocks, &GpuClockJson);
  json["overhead"] = OverheadJson(report.overhead);
  json["dropped"] = Json::object();
  for (const auto& [source, count] : report.dropped) json["dropped"][source] = count;
  json["losses"] = report.losses;
  // Text in a damaged trace may be no UTF-8; a loss that is no number prints as null.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope::analysis
