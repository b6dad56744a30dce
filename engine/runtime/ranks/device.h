// Device: what the ranks of a process compute on. The CPU is one (engine/runtime/cpu_device.h); a
// GPU's comes from the plugin (engine/cuda/plugin). Ranks, trainer, control and trace use only
// this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/device.h"
#include "engine/config/launch.h"
#include "engine/executor/step_runner.h"
#include "engine/model/data.h"
#include "engine/model/segments.h"
#include "engine/runtime/ranks/job.h"
#include "engine/runtime/units/sharded_unit.h"
#include "engine/transport/transport.h"
#include "trace/base/status.h"
#include "trace/base/words.h"

namespace shardscope::record {
class Recorder;
}

namespace shardscope::runtime {

// What a step left behind, for its row in the trace and for the progress line.
struct StepOutcome {
  double loss = 0;  // mean over this rank's tokens
  // Whose loss it is: of a pipeline only the last stage has any, of tensor ranks only the first one
  // unless each has a part of the sequence.
  int64_t tokens = 0;
  bool counts = true;    // false: of no rank's tokens the loss counts one, and it is 0
  double grad_norm = 0;  // of the gradient without the loss scale
  double learning_rate = 0;
  double loss_scale = 1;
  bool found_inf = false;  // the gradient is not finite: no update
};

// What the ops of one rank do, and the rank's state between steps. Threads: the methods of OpBodies
// as OpBodies says; the others on the rank's host thread while no step runs.
class RankWork : public executor::OpBodies {
 public:
  // Runs in the control op that starts every step, on the rank's host thread.
  virtual void set_on_control(std::function<void(int64_t step)> on_control) = 0;

  // What the steps from now on run; borrowed until the next call. No step may be half done. All
  // ranks call it together: between two layouts their state moves. Throws TransportError.
  virtual void SetSchedule(const plan::Schedule& schedule) = 0;
  // Emulated links of collectives, by the mesh dimensions of their communicator. In the same way.
  virtual void SetLinks(const config::DimensionLinks& links) = 0;
  // Between the rank and the host's memory; without a rate copies are as fast as they are.
  virtual void SetHostLink(const config::DimensionLink& link) = 0;
  // Before RunStep of the same step.
  virtual void BeginStep(int64_t step, double learning_rate) = 0;
  // Instead, before a RunStep of an evaluation's Schedule: it leaves a sum as the loss, over the
  // rank's tokens that count.
  virtual void BeginEvaluation(const HeldOutBatch& batch) = 0;
  // After RunStep. Bytes that were handed out and no op accounts for, beyond those of the last
  // call: 0 unless something holds tensors that it should not.
  virtual int64_t EndStep() = 0;
  virtual const StepOutcome& outcome() const = 0;
  virtual const model::GradientScaler& scaler() const = 0;  // of the next step

  // What the rank keeps between steps; its tensors lie on the rank's device or, offloaded,
  // in the host's memory.
  virtual const StateLayout& layout() const = 0;
  virtual std::span<ShardedUnit> units() = 0;  // of the layout

  // Which samples of the data come next, as of the last step that has begun.
  virtual const model::Sampler& sampler() const = 0;

  // Numbers that belong to this state beside its tensors, by name: the same on all ranks.
  virtual std::map<std::string, double> Scalars() const = 0;
  virtual void SetScalars(const std::map<std::string, double>& scalars) = 0;

  virtual int64_t allocated_bytes() const = 0;  // handed out and not yet given back
  virtual int64_t reserved_bytes() const = 0;   // from the system or driver, kept ones too
  // Of the rank's GPU, taken by any process; -1: not known, or another rank says it. On the
  // rank's host thread.
  virtual int64_t device_used_bytes() const { return -1; }
  // The highest allocated_bytes() since the last call.
  virtual int64_t TakePeakBytes() = 0;

  // Token ids by step, [samples_per_step, seq + 1] each, up to the last step in which the rank has
  // loaded a batch; empty where it has loaded none, and without keep_batches.
  virtual const std::vector<std::vector<int64_t>>& kept_batches() const = 0;
};

// What the bodies of a rank stand in. All borrowed; they outlive the bodies. `sink` gets the memory
// that comes and goes inside an op; the rest the executor reports.
struct RankContext {
  const Job* job = nullptr;
  const model::Model* model = nullptr;  // the CPU's; its configuration is any device's
  transport::Transport* transport = nullptr;
  executor::ExecutionSink* sink = nullptr;
};

// One row of table capability: what a source could see, and why not.
struct DeviceCapability {
  std::string source;
  words::CapabilityStatus status = words::CapabilityStatus::kOn;
  std::string reason;
};

// Threads: on the main thread, or while no step runs, unless a method says otherwise. Errors of the
// constructors inside are exceptions, as everywhere in engine/runtime.
class Device {
 public:
  virtual ~Device() = default;

  virtual config::DeviceKind kind() const = 0;  // kCpu or kCuda
  virtual std::string name() const = 0;         // "cuda:0, NVIDIA H200, 139.8 GiB": for people

  // Whether a copy of a rank's state in the host's memory, as a checkpoint makes, takes memory of
  // the rank.
  virtual bool copies_take_memory() const = 0;

  // Error: what ranks keep from the first step to the last does not fit.
  virtual Status CheckFits(const Job& /*job*/) const { return Status::Ok(); }

  // The transport that the keys name; a link with bandwidth auto starts at the default rate. With a
  // launch it connects this process to the others, and blocks until they have come. Throws
  // TransportError.
  virtual std::unique_ptr<transport::Transport> MakeTransport(
      const config::Config& config, const std::optional<config::Launch>& launch) = 0;
  // On several threads at once, of one rank each.
  virtual std::unique_ptr<RankWork> MakeWork(int rank, const RankContext& rank_context,
                                             model::Sampler sampler) = 0;
  // `bodies` and `sink` outlive its steps. It goes after the bodies: what they have may need its
  // streams until it is given back.
  virtual std::unique_ptr<executor::StepRunner> MakeRunner(int rank, executor::OpBodies* bodies,
                                                           executor::ExecutionSink* sink) = 0;
  // First thing on each thread that works for `rank`, before MakeWork too.
  virtual void EnterThread(int /*rank*/) {}

  // Whether several ranks compute on one core or GPU, so that their times are not those of a device
  // each.
  virtual bool is_contended() const { return false; }

  // Between two steps, as SetRecording(): keys that may change while a run trains.
  virtual void Apply(const config::Config& /*config*/) {}
  // Any thread: a rank has failed; ends what others wait for on the device.
  virtual void Abort() {}

  // Between two steps, on one thread, while no rank works: whether the next steps leave times and
  // rows of the device. At the start they do. Memory that the driver hands out is recorded always.
  virtual void SetRecording(bool /*is_recording*/) {}

  // The trace is open: rows go to `recorder` until it is null, which is before the file is
  // finished; null may come twice.
  virtual void SetRecorder(record::Recorder* /*recorder*/) {}
  // Before SetRecorder.
  virtual void SetOpIds(executor::OpIds /*ids*/) {}
  virtual std::vector<DeviceCapability> Capabilities() const { return {}; }
};

}  // namespace shardscope::runtime
