// The report as JSON: numbers in nanoseconds and bytes, keys as documented in docs.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "trace/analysis/changes.h"
#include "trace/analysis/compare/delta_json.h"
#include "trace/analysis/gpu/gpu_time_json.h"
#include "trace/analysis/names.h"
#include "trace/analysis/report/report.h"
#include "trace/base/json_line.h"

namespace shardscope::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json StepJson(const StepBreakdown& row) {
  return {{"step", row.step},
          {"rank", row.rank},
          {"step_ns", row.step_ns},
          {"compute_ns", row.time.compute_ns},
          {"communication_ns", row.time.communication_ns},
          {"copy_ns", row.time.copy_ns},
          {"overlap_ns", row.time.overlap_ns},
          {"exposed_ns", row.time.exposed_ns},
          {"exposed_copy_ns", row.time.exposed_copy_ns},
          {"idle_ns", row.time.idle_ns},
          {"slot_wait_ns", row.slot_wait_ns},
          {"tokens", row.tokens},
          {"tokens_per_second", TokensPerSecond(row)},
          {"loss", row.loss},
          {"grad_norm", row.grad_norm}};
}

Json PauseJson(const query::Pause& pause) {
  return {{"before_step", pause.step},
          {"cause", Name(pause.cause)},
          {"pause_ns", pause.end_ns - pause.start_ns}};
}

Json CheckpointJson(const CheckpointFigures& one) {
  return {{"before_step", one.step}, {"ranks", one.num_ranks}, {"bytes", one.bytes},
          {"wait_ns", one.wait_ns},  {"copy_ns", one.copy_ns}, {"write_ns", one.write_ns},
          {"whole", one.is_whole},   {"folder", one.folder},   {"error", one.error}};
}

// null: the run began with its first step.
Json ResumedJson(const std::optional<ResumedFrom>& resumed) {
  if (!resumed) return nullptr;
  return {{"run_id", resumed->run_id}, {"step", resumed->step}, {"folder", resumed->folder}};
}

Json EvaluationJson(const query::Evaluation& evaluation) {
  return {{"before_step", evaluation.step},
          {"loss", evaluation.loss},
          {"tokens", evaluation.tokens},
          {"batches", evaluation.batches},
          {"evaluation_ns", evaluation.end_ns - evaluation.start_ns}};
}

Json PercentilesJson(const Percentiles& percentiles) {
  return {{"p50", percentiles.p50}, {"p95", percentiles.p95}};
}

Json SummaryJson(const Summary& summary, bool imported) {
  return {{"num_ranks", summary.num_ranks},
          {"num_steps", summary.num_steps},
          {"warm_up_steps", imported ? 0 : kWarmUpSteps},
          {"step_ns", PercentilesJson(summary.step_ns)},
          {"compute_ns", PercentilesJson(summary.compute_ns)},
          {"communication_ns", PercentilesJson(summary.communication_ns)},
          {"exposed_ns", PercentilesJson(summary.exposed_ns)},
          {"idle_ns", PercentilesJson(summary.idle_ns)},
          {"exposed_share", summary.exposed_share},
          {"overlap_ratio", summary.overlap_ratio},
          {"tokens_per_second", summary.tokens_per_second},
          {"first_loss", summary.first_loss},
          {"last_loss", summary.last_loss}};
}

// Steps of an empty scope are null.
Json ScopeJson(const ScopedSteps& scope) {
  const auto step = [&](int32_t number) { return scope.empty() ? Json() : Json(number); };
  return {{"kind", Name(scope.kind)},
          {"first_step", step(scope.first)},
          {"last_step", step(scope.last)},
          {"first_timed_step", step(scope.first_timed)},
          {"words", ScopeWords(scope)}};
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

template <typename Row>
Json ListJson(const std::vector<Row>& rows, Json (*to_json)(const Row&)) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  return list;
}

Json TrafficJson(const Traffic& traffic) {
  return {{"communicator", traffic.communicator},
          {"kind", Name(traffic.kind)},
          {"calls", traffic.calls},
          {"wire_bytes", traffic.wire_bytes}};
}

// null: all ranks send the same.
Json TrafficRankJson(const RankTraffic& traffic) {
  return traffic.rank ? Json(*traffic.rank) : Json();
}

Json ScheduleJson(const ScheduleFigures& schedule) {
  const ScheduleMemory& memory = schedule.memory;
  return {{"name", memory.name},
          {"steps", memory.steps},
          {"predicted_peak_bytes", memory.predicted_bytes},
          {"executed_bound_bytes", memory.bound_bytes},
          {"peak_bytes", memory.peak_bytes},
          {"peak_rank", memory.peak_rank},
          {"traffic_rank", TrafficRankJson(schedule.traffic)},
          {"traffic", ListJson(schedule.traffic.rows, &TrafficJson)}};
}

Json EvaluationScheduleJson(const EvaluationFigures& schedule) {
  return {{"name", schedule.name},
          {"traffic_rank", TrafficRankJson(schedule.traffic)},
          {"traffic", ListJson(schedule.traffic.rows, &TrafficJson)}};
}

Json TrainedJson(const std::optional<Trained>& trained) {
  if (!trained) return nullptr;
  return {{"parameters", trained->parameters},
          {"trained_parameters", trained->trained},
          {"spared_gradient_bytes", trained->spared_gradient_bytes},
          {"spared_optimizer_bytes", trained->spared_optimizer_bytes}};
}

Json CollectiveJson(const CollectiveRun& run) {
  return {{"op_run", run.op_run.value()},
          {"name", run.name},
          {"rank", run.rank},
          {"step", run.step},
          {"communicator", run.communicator},
          {"sequence", run.sequence},
          {"started_ns", run.started_ns},
          {"ended_ns", run.ended_ns},
          {"duration_ns", run.ended_ns - run.started_ns},
          {"wait_ns", run.wait_ns},
          {"transfer_ns", run.transfer_ns},
          {"last_rank", run.last_rank},
          {"payload_bytes", run.payload_bytes},
          {"wire_bytes", run.wire_bytes},
          {"bus_bandwidth", run.bus_bandwidth},
          {"complete", run.complete}};
}

Json ArrivalJson(const Arrival& arrival) {
  return {{"rank", arrival.rank}, {"after_first_ns", arrival.after_first_ns}};
}

Json SumsJson(const CollectiveSums& sums) {
  return {{"calls", sums.calls},
          {"payload_bytes", sums.payload_bytes},
          {"wire_bytes", sums.wire_bytes},
          {"wait_ns", sums.wait_ns},
          {"transfer_ns", sums.transfer_ns},
          {"exposed_ns", sums.exposed_ns},
          {"bus_bandwidth", sums.bus_bandwidth()},
          {"emulated", sums.is_emulated}};
}

Json CollectiveGroupJson(const CollectiveGroup& group) {
  Json json = SumsJson(group.sums);
  json["kind"] = group.key.kind;
  json["unit"] = group.key.unit;
  json["communicator"] = group.key.communicator;
  json["longest_op_run"] = group.longest.value();
  json["longest_ns"] = group.longest_ns;
  return json;
}

Json CollectiveStepJson(const CollectiveStep& step) {
  Json json = SumsJson(step.sums);
  json["step"] = step.step;
  return json;
}

// Pairs that send nothing are left out.
Json MatrixJson(const CommunicationMatrix& matrix) {
  Json json;
  json["ranks"] = matrix.ranks;
  json["unplaced_bytes"] = matrix.unplaced_bytes;
  Json& sent = json["sent"] = Json::array();
  for (size_t from = 0; from < matrix.ranks.size(); ++from) {
    for (size_t to = 0; to < matrix.ranks.size(); ++to) {
      if (matrix.At(from, to) == 0) continue;
      sent.push_back(
          {{"from", matrix.ranks[from]}, {"to", matrix.ranks[to]}, {"bytes", matrix.At(from, to)}});
    }
  }
  return json;
}

Json CollectiveTableJson(const CollectiveTable& table) {
  return {{"rank_steps", table.num_rank_steps},
          {"groups", ListJson(table.groups, &CollectiveGroupJson)},
          {"steps", ListJson(table.steps, &CollectiveStepJson)},
          {"matrix", MatrixJson(table.matrix)}};
}

Json StallJson(const StallGroup& group) {
  return {{"title", group.title},
          {"op", group.op_name},
          {"blocking_op", group.blocking_name},
          {"cause", Name(group.cause)},
          {"cause_object", group.cause_object},
          {"sentence", group.sentence},
          {"total_ns", group.total_ns},
          {"ns_per_step", group.ns_per_step},
          {"count", group.count},
          {"worst_ns", group.worst.stall_ns},
          {"worst_rank", group.worst.rank},
          {"worst_step", group.worst.step}};
}

Json EveryStallJson(const Stall& stall) {
  return {{"rank", stall.rank},         {"step", stall.step},
          {"op", stall.op_name},        {"blocking_op", stall.blocking_name},
          {"cause", Name(stall.cause)}, {"cause_object", stall.cause_object},
          {"sentence", stall.sentence}, {"start_ns", stall.start_ns},
          {"stall_ns", stall.stall_ns}};
}

Json KernelsJson(const KernelSummary& kernels) {
  return {{"ranks", kernels.num_ranks},         {"kernels", kernels.kernels},
          {"copies", kernels.copies},           {"joined", kernels.joined},
          {"join_rate", kernels.join_rate()},   {"without_times", kernels.without_times},
          {"compute_ns", kernels.compute_ns},   {"communication_ns", kernels.communication_ns},
          {"copy_ns", kernels.copy_ns},         {"overlap_ns", kernels.overlap_ns},
          {"exposed_ns", kernels.exposed_ns()}, {"overlap_ratio", kernels.overlap_ratio()},
          {"overhead_ns", kernels.overhead_ns}, {"overlapping_pairs", kernels.overlapping_pairs}};
}

Json EdgeGroupJson(const EdgeGroup& group) {
  return {{"from", group.from},
          {"to", group.to},
          {"verdict", group.missing ? "missing" : "extra"},
          {"count", group.count},
          {"first_rank", group.first.rank},
          {"first_step", group.first.step}};
}

Json MarkerJson(const query::Marker& marker) {
  return {{"step", marker.step}, {"time_ns", marker.time_ns},     {"kind", marker.kind},
          {"key", marker.key},   {"old_value", marker.old_value}, {"new_value", marker.new_value}};
}

// Without tokens or a norm null, as JSON has no NaN.
Json StepRowJson(const StepRow& row) {
  return {{"step", row.step},
          {"ranks", row.num_ranks},
          {"start_ns", row.start_ns},
          {"step_ns", row.step_ns},
          {"slowest_rank", row.slowest_rank},
          {"slowest_exposed_ns", row.slowest_exposed_ns},
          {"mean_step_ns", row.mean_step_ns},
          {"compute_ns", row.compute_ns},
          {"communication_ns", row.communication_ns},
          {"exposed_ns", row.exposed_ns},
          {"exposed_copy_ns", row.exposed_copy_ns},
          {"idle_ns", row.idle_ns},
          {"tokens", row.tokens},
          {"tokens_per_second", row.tokens_per_second()},
          {"loss", row.loss},
          {"grad_norm", row.grad_norm},
          {"warm_up", row.is_warm_up},
          {"events", ListJson(row.events, &MarkerJson)}};
}

Json ChangeJson(const ChangeEffect& effect) {
  Json json;
  json["step"] = effect.step;
  Json& changes = json["set"];
  for (const query::Marker& marker : effect.markers) {
    changes[marker.key] = {{"old", marker.old_value}, {"new", marker.new_value}};
  }
  json["steps_each"] = std::min(effect.before.num_steps, effect.after.num_steps);
  json["steps_before"] = effect.before.num_steps;
  json["steps_after"] = effect.after.num_steps;
  json["step_verdict"] = Name(effect.step_verdict());
  json["exposed_verdict"] = Name(effect.exposed_verdict());
  if (effect.has_both()) {
    json["before"] = SummaryJson(effect.before, false);
    json["after"] = SummaryJson(effect.after, false);
    json["step_difference"] = DeltaJson(effect.step_ns);
    json["exposed_difference"] = DeltaJson(effect.exposed_ns);
  }
  return json;
}

Json ClockJson(const query::Clock& clock) {
  return {{"method", Name(clock.method)},
          {"processes", clock.processes},
          {"offset_ns", clock.offset_ns},
          {"drift_ppb", clock.drift_ppb},
          {"collectives", clock.collectives},
          {"residual_p50_ns", clock.residual_p50_ns},
          {"residual_p95_ns", clock.residual_p95_ns},
          {"residual_max_ns", clock.residual_max_ns}};
}

Json GpuClockJson(const GpuClockBounds& bounds) {
  return {{"rank", bounds.rank},       {"device", bounds.device},
          {"method", bounds.method},   {"low_ns", bounds.low_ns},
          {"high_ns", bounds.high_ns}, {"uncertainty_ns", bounds.uncertainty_ns()},
          {"drifts", bounds.drifts()}, {"readings", bounds.readings}};
}

Json OverheadJson(const Overhead& overhead) {
  if (overhead.left_out.empty()) return nullptr;
  return {{"rounds", overhead.rounds},           {"ratio", overhead.ratio},
          {"lowest", overhead.lowest},           {"highest", overhead.highest},
          {"recorded_ns", overhead.recorded_ns}, {"unrecorded_ns", overhead.unrecorded_ns},
          {"left_out_steps", overhead.left_out}};
}

Json SourceJson(const SourceState& state) {
  return {{"source", state.source},   {"status", state.status}, {"reason", state.reason},
          {"dropped", state.dropped}, {"ranks", state.ranks},   {"processes", state.processes}};
}

Json VerdictJson(const Verdict& verdict) {
  const bool has_cause = verdict.bound != Bound::kUnknown && verdict.bound != Bound::kCompute;
  return {{"bound", Name(verdict.bound)},
          {"cause", has_cause ? Json(Name(verdict.cause)) : Json()},
          {"share", verdict.share},
          {"recomputed", verdict.recomputed},
          {"sentence", verdict.sentence}};
}

Json RecognisedJson(const Recognised& group) {
  return {{"communicator", group.communicator},
          {"parallelism", group.parallelism},
          {"evidence", group.evidence},
          {"num_units", group.num_units}};
}

Json AdviceJson(const Advice& advice) {
  return {{"cause", Name(advice.kind)},
          {"title", advice.title},
          {"remedy", advice.remedy},
          {"evidence", advice.evidence},
          {"saving_ns_per_step", advice.saving_ns_per_step},
          {"worst_rank", advice.rank},
          {"worst_step", advice.step}};
}

// What one rank costs the group is in the other losses as well, which add up to all that is lost.
Json LossJson(const Loss& loss) {
  return {{"cause", Name(loss.kind)},
          {"ns_per_step", loss.ns_per_step},
          {"within_others", loss.kind == LossKind::kSlowRank}};
}

Json DelayJson(const RankDelay& delay) {
  return {{"rank", delay.rank},          {"stage", delay.stage},
          {"lasting", delay.is_lasting}, {"ns_per_step", delay.ns_per_step},
          {"share", delay.share},        {"total_ns", delay.total_ns},
          {"worst_ns", delay.worst_ns},  {"worst_step", delay.worst_step}};
}

// A step is the sum of its increments.
Json FrontJson(const Front& front) {
  Json json;
  json["delays"] = ListJson(front.delays, &DelayJson);
  Json& steps = json["steps"] = Json::array();
  for (const FrontPart& part : front.parts) {
    if (steps.empty() || steps.back()["step"] != part.step) {
      steps.push_back({{"step", part.step}, {"step_ns", 0}, {"increments", Json::array()}});
    }
    Json& step = steps.back();
    step["step_ns"] = step["step_ns"].get<int64_t>() + part.front_ns;
    step["increments"].push_back({{"stage", part.stage},
                                  {"rank", part.rank},
                                  {"front_ns", part.front_ns},
                                  {"delay_ns", part.delay_ns}});
  }
  return json;
}

Json PositionJson(const RankPosition& position) {
  return {{"rank", position.rank},
          {"has_dump", position.has_dump},
          {"last_enqueued", position.last_enqueued},
          {"last_started", position.last_started},
          {"last_completed", position.last_completed},
          {"last_name", position.last_name},
          {"asked_at", position.asked_at}};
}

Json MismatchJson(const std::optional<Mismatch>& mismatch) {
  if (!mismatch) return nullptr;
  return {{"kind", Name(mismatch->kind)},
          {"sequence", mismatch->sequence},
          {"ranks", mismatch->ranks},
          {"asked", mismatch->asked},
          {"other_ranks", mismatch->other_ranks},
          {"others_asked", mismatch->others_asked}};
}

Json PendingJson(const std::optional<PendingCollective>& pending) {
  if (!pending) return nullptr;
  return {{"sequence", pending->sequence},     {"name", pending->name},
          {"waiting", pending->waiting},       {"not_started", pending->not_started},
          {"not_issued", pending->not_issued}, {"without_dump", pending->without_dump},
          {"completed", pending->completed}};
}

Json GroupHangJson(const GroupHang& group) {
  return {{"group", group.name},
          {"description", group.description},
          {"sentence", group.sentence},
          {"positions", ListJson(group.positions, &PositionJson)},
          {"mismatch", MismatchJson(group.mismatch)},
          {"pending", PendingJson(group.pending)},
          {"peers", group.peers}};
}

// null: the trace has no dump of a flight recorder.
Json HangJson(const Hang& hang) {
  if (hang.sentence.empty()) return nullptr;
  return {{"sentence", hang.sentence},
          {"is_hang", hang.is_hang},
          {"dumps", hang.num_dumps},
          {"groups", ListJson(hang.groups, &GroupHangJson)}};
}

Json PathJson(const PathGroup& group) {
  return {{"kind", Name(group.kind)},
          {"name", group.name},
          {"ns_per_step", group.ns_per_step},
          {"share", group.share}};
}

void AddRunJson(const Report& report, Json* json) {
  (*json)["name"] = report.name;
  (*json)["run_folder"] = report.run_folder;
  (*json)["state"] = StateWord(report);
  (*json)["cut_files"] = report.cut_files;
  (*json)["truth"] = Name(report.truth);
  (*json)["contended"] = report.contended;
  (*json)["setup"] =
      report.setup.empty()
          ? Json::object()
          : Json(std::map<std::string, std::string>(report.setup.begin(), report.setup.end()));
  (*json)["transport"] = report.link.transport;
  (*json)["link_bandwidth"] = report.link.bandwidth;
}

// How long steps take, and why.
void AddStepsJson(const Report& report, Json* json) {
  const Figures& figures = report.figures;
  const Explanation& explanation = figures.explanation;
  (*json)["hang"] = HangJson(report.hang);
  if (report.imported) (*json)["recognised"] = ListJson(explanation.recognised, &RecognisedJson);
  (*json)["verdict"] = VerdictJson(explanation.verdict);
  (*json)["advice"] = ListJson(explanation.advice, &AdviceJson);
  (*json)["scope"] = ScopeJson(figures.scope);
  (*json)["summary"] = SummaryJson(figures.summary, report.imported);
  Json& steps = (*json)["steps"] = Json::array();
  for (const StepBreakdown& row : report.steps) {
    if (figures.scope.Contains(row.step)) steps.push_back(StepJson(row));
  }
  (*json)["losses_per_step"] = ListJson(explanation.losses.losses, &LossJson);
  (*json)["front"] = FrontJson(explanation.front);
  (*json)["critical_path"] = ListJson(explanation.path, &PathJson);
}

// What the training did besides its steps, and where it led.
void AddTrainingJson(const Report& report, Json* json) {
  (*json)["pauses"] = ListJson(report.pauses, &PauseJson);
  (*json)["checkpoints"] = ListJson(report.checkpoints, &CheckpointJson);
  (*json)["resumed"] = ResumedJson(report.resumed);
  (*json)["skipped_steps"] = SkipsInScope(report).size();
  (*json)["evaluations"] = ListJson(report.evaluations, &EvaluationJson);
  (*json)["evaluation_schedules"] = ListJson(report.evaluation_schedules, &EvaluationScheduleJson);
  (*json)["trained"] = TrainedJson(report.trained);
}

void AddTablesJson(const Report& report, Json* json) {
  const Figures& figures = report.figures;
  (*json)["memory"] = ListJson(figures.memory, &MemoryJson);
  (*json)["schedules"] = ListJson(report.schedules, &ScheduleJson);
  (*json)["collectives"] = ListJson(figures.slowest_collectives, &CollectiveJson);
  for (size_t at = 0; at < report.arrivals.size(); ++at) {
    (*json)["collectives"][at]["arrivals"] = ListJson(report.arrivals[at], &ArrivalJson);
  }
  (*json)["stalls"] = ListJson(figures.stalls, &StallJson);
  if (report.step_table) (*json)["step_table"] = ListJson(*report.step_table, &StepRowJson);
  if (report.collectives) (*json)["all_collectives"] = CollectiveTableJson(*report.collectives);
  if (report.every_stall) (*json)["every_stall"] = ListJson(*report.every_stall, &EveryStallJson);
}

void AddGpuWorkJson(const Report& report, Json* json) {
  (*json)["kernels"] = KernelsJson(report.kernels);
  Json& waits = (*json)["stream_waits"];
  waits["seen"] = report.edges.seen;
  waits["planned"] = report.edges.planned;
  waits["missing"] = report.edges.missing;
  waits["extra"] = report.edges.extra;
  waits["differences"] = ListJson(report.edges.groups, &EdgeGroupJson);
}

// What was changed and went wrong, how all was recorded, and what of it was lost.
void AddRecordingJson(const Report& report, Json* json) {
  (*json)["changes"] = ListJson(ChangesInScope(report), &ChangeJson);
  (*json)["markers"] = ListJson(report.markers, &MarkerJson);
  (*json)["errors"] = ListJson(report.errors, &MarkerJson);
  (*json)["unfinished"] = report.unfinished;
  (*json)["clocks"] = ListJson(report.clocks, &ClockJson);
  (*json)["sources"] = ListJson(report.sources, &SourceJson);
  (*json)["gpu_clocks"] = ListJson(report.gpu_clocks, &GpuClockJson);
  (*json)["overhead"] = OverheadJson(report.overhead);
  Json& dropped = (*json)["dropped"] = Json::object();
  for (const auto& [source, count] : report.dropped) dropped[source] = count;
  (*json)["losses"] = report.losses;
}

}  // namespace

std::string PrintReportJson(const Report& report, const GpuTime* gpu) {
  Json json;
  AddRunJson(report, &json);
  AddStepsJson(report, &json);
  AddTrainingJson(report, &json);
  AddTablesJson(report, &json);
  if (report.kernels.num_ranks > 0) AddGpuWorkJson(report, &json);
  AddRecordingJson(report, &json);
  if (gpu != nullptr && !gpu->ranks.empty()) json["gpu"] = GpuTimeJson(*gpu);
  // Text in a damaged trace may be no UTF-8; a loss that is no number prints as null.
  return JsonText(json);
}

}  // namespace shardscope::analysis
