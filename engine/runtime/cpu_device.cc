#include "engine/runtime/cpu_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "engine/executor/cpu_runner.h"
#include "engine/runtime/ranks/cpu_work.h"
#include "engine/runtime/setup.h"
#include "trace/base/units.h"

namespace shardscope::runtime {

CpuDevice::CpuDevice(const config::Config& config, const std::optional<config::Launch>& launch)
    : CpuDevice({.compute_slots = static_cast<int>(config::GetComputeSlots(config)),
                 .timeout_ns = config.GetInt("comm.timeout"),
                 .ranks_here = launch ? launch->num_local_ranks
                                      : static_cast<int>(config.GetInt("run.ranks"))}) {}

// Shards, gradients and the two moments of AdamW are there from the first step to the last.
Status CpuDevice::CheckFits(const Job& job) const {
  auto needed = static_cast<double>(job.initial_layout.bytes());
  if (!job.only_rank) needed *= job.training.num_ranks;
  const double present =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed <= present) return Status::Ok();
  return Status::Error(fmt::format(
      "the model has {} parameters: shards, gradients and optimizer state take {}, and this "
      "machine has {} of memory; lower model.dim or model.layers",
      FormatCount(static_cast<double>(job.num_parameters)),
      FormatBytes(static_cast<int64_t>(needed)), FormatBytes(static_cast<int64_t>(present))));
}

std::unique_ptr<transport::Transport> CpuDevice::MakeTransport(
    const config::Config& config, const std::optional<config::Launch>& launch) {
  const auto num_ranks = static_cast<int>(config.GetInt("run.ranks"));
  const int64_t timeout_ns = config.GetInt("comm.timeout");
  if (launch) {
    return transport::MakeGlooTransport(GlooProcessOf(*launch), timeout_ns);
  }
  if (config.Get("transport") == "gloo") {
    return transport::MakeGlooTransport(num_ranks, timeout_ns);
  }
  if (config.Get("transport") == "emulated") {
    return transport::MakeEmulatedTransport(num_ranks, timeout_ns, StartBandwidth(config),
                                            config.GetInt("link.latency"));
  }
  return transport::MakeSharedMemoryTransport(num_ranks, timeout_ns);
}

std::unique_ptr<RankWork> CpuDevice::MakeWork(int rank, const RankContext& rank_context,
                                              model::Sampler sampler) {
  return std::make_unique<CpuWork>(rank, rank_context, std::move(sampler));
}

std::unique_ptr<executor::StepRunner> CpuDevice::MakeRunner(int rank, executor::OpBodies* bodies,
                                                            executor::ExecutionSink* sink) {
  return std::make_unique<executor::CpuRunner>(rank, bodies, sink, &slots_);
}

bool CpuDevice::is_contended() const {
  const auto num_cores = static_cast<int>(std::thread::hardware_concurrency());  // 0: unknown
  return num_cores > 0 && ranks_here_ > num_cores;
}

void CpuDevice::Apply(const config::Config& config) {
  slots_.SetSlots(static_cast<int>(config::GetComputeSlots(config)));
}

}  // namespace shardscope::runtime
