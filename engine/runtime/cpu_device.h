// CpuDevice: the cores of this machine. Ranks compute on them with LibTorch, one thread a stream,
// and share the compute slots.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/executor/compute_slots.h"
#include "engine/runtime/ranks/device.h"

namespace shardscope::runtime {

struct CpuOptions {
  int compute_slots = 2;
  int64_t timeout_ns = 0;  // a rank waits so long for a slot; 0: for ever
  int ranks_here = 1;      // on this machine, in any process
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options)
      : slots_(options.compute_slots, options.timeout_ns), ranks_here_(options.ranks_here) {}
  // As the keys of a run say.
  CpuDevice(const config::Config& config, const std::optional<config::Launch>& launch);

  config::DeviceKind kind() const override { return config::DeviceKind::kCpu; }
  std::string name() const override { return "cpu"; }
  bool copies_take_memory() const override { return true; }
  Status CheckFits(const Job& job) const override;
  std::unique_ptr<transport::Transport> MakeTransport(
      const config::Config& config, const std::optional<config::Launch>& launch) override;
  std::unique_ptr<RankWork> MakeWork(int rank, const RankContext& rank_context,
                                     model::Sampler sampler) override;
  std::unique_ptr<executor::StepRunner> MakeRunner(int rank, executor::OpBodies* bodies,
                                                   executor::ExecutionSink* sink) override;
  bool is_contended() const override;
  // Live knob engine.compute_slots.
  void Apply(const config::Config& config) override;
  void Abort() override { slots_.Abort(); }

 private:
  executor::ComputeSlots slots_;
  const int ranks_here_;
};

}  // namespace shardscope::runtime
