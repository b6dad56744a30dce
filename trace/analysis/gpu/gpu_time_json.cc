#include "trace/analysis/gpu/gpu_time_json.h"

#include <nlohmann/json.hpp>

namespace shardscope::analysis {
namespace {

using GpuJson = nlohmann::ordered_json;

GpuJson RankTimeJson(const GpuRankTime& time) {
  return {{"rank", time.rank},
          {"kernel_time_ns", time.kernel_time_ns},
          {"idle_ns", time.idle_ns},
          {"compute_ns", time.compute_ns},
          {"non_compute_ns", time.non_compute_ns},
          {"communication_ns", time.communication_ns},
          {"overlap_ns", time.overlap_ns},
          {"exposed_ns", time.exposed_ns}};
}

template <typename Row>
GpuJson RowsJson(const std::vector<Row>& rows, GpuJson (*to_json)(const Row&)) {
  GpuJson list = GpuJson::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  return list;
}

GpuJson StepTimeJson(const GpuStepTime& step) {
  return {{"step", step.step}, {"ranks", RowsJson(step.ranks, &RankTimeJson)}};
}

GpuJson TypeTimeJson(const GpuTypeTime& type) {
  return {{"type", type.type}, {"sum_ns", type.sum_ns}};
}

GpuJson KernelTimeJson(const GpuKernelTime& kernel) {
  return {{"name", kernel.name},     {"type", kernel.type},       {"rank", kernel.rank},
          {"count", kernel.count},   {"sum_ns", kernel.sum_ns},   {"min_ns", kernel.min_ns},
          {"max_ns", kernel.max_ns}, {"mean_ns", kernel.mean_ns}, {"std_ns", kernel.std_ns}};
}

GpuJson IdleTimeJson(const GpuIdleTime& idle) {
  return {{"rank", idle.rank},
          {"stream", idle.stream},
          {"host_wait_ns", idle.host_wait_ns},
          {"kernel_wait_ns", idle.kernel_wait_ns},
          {"other_ns", idle.other_ns}};
}

GpuJson DistributionJson(const GpuDistribution& values) {
  return {{"count", values.count}, {"mean", values.mean}, {"std", values.std}, {"min", values.min},
          {"p25", values.p25},     {"p50", values.p50},   {"p75", values.p75}, {"max", values.max}};
}

GpuJson QueueJson(const GpuQueueLength& queue) {
  GpuJson json = {{"rank", queue.rank}, {"stream", queue.stream}};
  json.update(DistributionJson(queue.length));
  return json;
}

GpuJson BandwidthJson(const GpuBandwidth& row) {
  return {{"rank", row.rank},       {"kind", row.kind},
          {"count", row.count},     {"bytes", row.bytes},
          {"time_ns", row.time_ns}, {"bytes_per_second", DistributionJson(row.bytes_per_second)}};
}

}  // namespace

nlohmann::ordered_json GpuTimeJson(const GpuTime& gpu) {
  return {{"definition", Name(gpu.definition)},
          {"ranks", RowsJson(gpu.ranks, &RankTimeJson)},
          {"steps", RowsJson(gpu.steps, &StepTimeJson)},
          {"kernel_types", RowsJson(gpu.types, &TypeTimeJson)},
          {"kernels", RowsJson(gpu.kernels, &KernelTimeJson)},
          {"idle", RowsJson(gpu.idle, &IdleTimeJson)},
          {"queue_length", RowsJson(gpu.queues, &QueueJson)},
          {"memory_bandwidth", RowsJson(gpu.bandwidths, &BandwidthJson)}};
}

}  // namespace shardscope::analysis
