// RankOps: what the ops of one rank do that is the same on every device: which op does what, which
// memory it reads and writes, batches, casts, copies, and what collectives send. CpuWork
// computes on the CPU, CudaWork (engine/cuda/runtime) on a GPU.
//
// Threads: as OpBodies says. Entries of the buffer tables are written by one op and read by ops
// that the Schedule orders after it, so they need no lock.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/data.h"
#include "engine/model/segments.h"
#include "engine/runtime/memory/rank_memory.h"
#include "engine/runtime/ranks/device.h"
#include "engine/runtime/units/sharded_unit.h"
#include "engine/runtime/units/unit_views.h"
#include "engine/transport/link.h"

namespace shardscope::runtime {

// Where a parameter lies: in which unit, and which of its parameters it is.
struct UnitParameter {
  int32_t unit = plan::kNone;
  size_t index = 0;
};

class RankOps : public RankWork {
 public:
  void set_on_control(std::function<void(int64_t step)> on_control) override {
    on_control_ = std::move(on_control);
  }
  void SetSchedule(const plan::Schedule& schedule) override;
  void SetLinks(const config::DimensionLinks& links) override { links_ = links; }
  void SetHostLink(const config::DimensionLink& link) override;
  void BeginEvaluation(const HeldOutBatch& batch) override;
  void BeginStep(int64_t step, double learning_rate) override;
  int64_t EndStep() final;
  const StepOutcome& outcome() const override { return outcome_; }

  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override;
  int64_t Free(const executor::OpContext& context, plan::BufferId buffer) override;

  const StateLayout& layout() const override { return layout_; }
  const model::Sampler& sampler() const override { return sampler_; }
  std::span<ShardedUnit> units() override { return units_; }
  const std::vector<std::vector<int64_t>>& kept_batches() const override { return kept_batches_; }
  const model::GradientScaler& scaler() const override { return scaler_; }
  std::map<std::string, double> Scalars() const override;
  void SetScalars(const std::map<std::string, double>& scalars) override;

 protected:
  // One transient buffer of the running Schedule. What lies in plain memory lies where the device
  // put it.
  struct Bound {
    int64_t bytes = 0;
    int64_t gap_bytes = 0;     // beside `bytes`: alignment, or what a kernel keeps for its backward
    model::Saved saved;        // of BufferForm::kSaved and kSavedNorm
    at::Tensor tensor;         // of BufferForm::kTensor
    model::TokenBatch tokens;  // of BufferKind::kBatch
  };

  // `model` computes on `device`, where shards and buffers lie unless the host
  // has them; borrowed.
  RankOps(int rank, const model::SegmentModel* model, at::Device device,
          const RankContext& rank_context, model::Sampler sampler);

  // The rank's shards, drawn on the host so that every device starts from the same bits. Once, by
  // the subclass's constructor.
  void MakeUnits();

  // Calls `work`, with errors as the executor takes them: LibTorch's text without its backtrace,
  // a late rank as the other rank's fault. Errors of an accelerator pass: their device words them.
  static void Guarded(const std::function<void()>& work);
  // Throws, with the remedy, where a step cannot go on with a gradient of this norm.
  static void CheckGradientNorm(double norm);
  // The op, inside whatever scope the device needs. May throw anything.
  void Dispatch(const executor::OpContext& context);

  // Whether a buffer lies in plain memory; the others are tensors.
  static bool IsBlock(plan::BufferKind kind) {
    const plan::BufferForm form = plan::TraitsOf(kind).form;
    return form == plan::BufferForm::kBlock || form == plan::BufferForm::kRows;
  }
  Bound& At(plan::BufferId buffer) { return bound_[static_cast<size_t>(buffer)]; }
  const std::vector<Bound>& bound() const { return bound_; }
  const UnitLayout& LayoutOf(int32_t unit) const {
    return units_[static_cast<size_t>(unit)].layout();
  }
  // Of what is trained of it.
  const UnitLayout& GradientLayout(int32_t unit) const { return LayoutOf(unit).trained(); }
  int64_t GapOf(const plan::Buffer& buffer) const {
    return buffer.unit == plan::kNone ? 0 : GapBytes(LayoutOf(buffer.unit), buffer);
  }
  UnitMemory UnitMemoryOf(const executor::OpContext& context, plan::BufferId buffer,
                          plan::DType dtype);
  // A unit's unsharded gradient, of one micro-batch or added up.
  UnitMemory GradientMemory(const executor::OpContext& context, plan::BufferId buffer);
  // The first buffer of `kind` among `ids`, or kNone.
  static plan::BufferId Find(const executor::OpContext& context,
                             const std::vector<plan::BufferId>& ids, plan::BufferKind kind);
  // What lies beside `buffer`, signed.
  void ReportGap(const executor::OpContext& context, plan::BufferId buffer, int64_t bytes);
  double GradientScale() const {
    return model::GradientScale(layout_.mesh.SizeOf(plan::kDataDimensions),
                                job_->training.micro_batches);
  }
  double LearningRate(int64_t step) const {
    return model::LearningRateAt(job_->training, learning_rate_, step);
  }
  // What the host does with gradients and state in its memory; norm and whether it is finite are
  // there too.
  void UnscaleOnHost(const executor::OpContext& context);
  void GradNormOnHost(const executor::OpContext& context);
  void OptimizerOnHost(const executor::OpContext& context);
  // What the optimizer's update takes, but for the gradient's factor.
  UpdateArgs UpdateOf(int64_t step) const {
    return {.optimizer = job_->training.optimizer,
            .learning_rate = LearningRate(step),
            .step = step - scaler_.num_skipped};
  }

  // Calls `work`, whose tensors are memory of the rank.
  virtual void WithMemory(const std::function<void()>& work) = 0;
  // The same, of what it keeps between steps in that layout.
  virtual void WithStateMemory(const StateLayout& /*layout*/, const std::function<void()>& work) {
    WithMemory(work);
  }
  // Another Schedule takes the place of the last one, of which nothing is left.
  virtual void OnSchedule(const plan::Schedule& schedule) = 0;
  // Memory of a transient buffer.
  virtual void TakeBlock(plan::BufferId buffer, int64_t bytes) = 0;
  virtual void GiveBlock(plan::BufferId buffer, int64_t bytes) = 0;
  virtual std::byte* BlockOf(plan::BufferId buffer) = 0;
  virtual void CountMemory(plan::MemoryCategory category, int64_t bytes) {
    memory_.Add(category, bytes);
  }
  // A micro-batch's mean loss, one wide scalar.
  virtual void AddLoss(const executor::OpContext& context, const at::Tensor& loss) = 0;
  // EndStep(), before the scaler takes the step.
  virtual int64_t Finish() = 0;
  virtual void Unscale(const executor::OpContext& context) = 0;
  virtual void GradNorm(const executor::OpContext& context) = 0;
  virtual void Optimizer(const executor::OpContext& context) = 0;

  // Calls collective(call).
  using Collective = std::function<void(const transport::Call& call)>;
  virtual void Communicate(const executor::OpContext& context, const Collective& collective) = 0;
  transport::CallLink LinkOf(const plan::Schedule& schedule,
                             plan::CommunicatorIndex communicator) const;
  transport::Call CallOf(const executor::OpContext& context, const std::string& name) const;

  // For devices that account for what an op takes for itself. Recomputes too.
  virtual void Forward(const executor::OpContext& context);
  virtual void Backward(const executor::OpContext& context);

  const int rank_;
  const at::Device device_;
  const RankContext rank_context_;
  const Job* const job_;
  StateLayout layout_;
  config::DimensionLinks links_;
  // Between the rank and the host's memory; none: as fast as memory is.
  struct HostLinks {
    std::optional<transport::Link> to_device;
    std::optional<transport::Link> to_host;
  };
  HostLinks host_links_;
  std::vector<ShardedUnit> units_;
  StepOutcome outcome_;
  model::GradientScaler scaler_;
  RankMemory memory_;

 private:
  // Targets that count in the loss of a step, of all ranks. The compute stream's.
  struct TargetCount {
    model::Sampler sampler;
    int64_t step = -1;
    int64_t targets = 0;
    HeldOutBatch held_out;  // of an evaluation, whose batches say themselves what counts
  };
  void BeginOutcome(double learning_rate);
  void MakeSlots(const plan::Program& program);
  void MoveState(StateLayout layout);
  void LeaveHostMemory();
  void CountState(int sign);  // 1 as it comes, -1 as it goes
  std::byte* MemoryOf(const executor::OpContext& context, plan::BufferId buffer);
  // Of the batch that an op reads; nothing in them if it reads none.
  model::TokenBatch TokensOf(const executor::OpContext& context);
  static bool IsEvaluation(const executor::OpContext& context) {
    return context.op().phase == plan::Phase::kEvaluation;
  }
  static bool IsLastSegment(const executor::OpContext& context) {
    return static_cast<size_t>(context.op().segment) + 1 == context.schedule->segments.size();
  }
  // TokenBatch::mean_over where the loss leaves tokens out.
  double LossRows(int64_t step);
  std::vector<at::Tensor> ParameterViews(const executor::OpContext& context, int32_t segment);
  std::vector<at::Tensor> GradientViews(const executor::OpContext& context, int32_t segment);
  std::vector<at::Tensor> Views(const executor::OpContext& context, int32_t segment,
                                const std::vector<plan::BufferId>& ids, bool is_trained,
                                std::initializer_list<plan::BufferKind> kinds);
  void LoadBatch(const executor::OpContext& context);
  // Those of a rank among all that read any, as sequences of model.seq + 1 tokens.
  std::vector<int64_t> SamplesOf(const executor::OpContext& context, int place);
  std::vector<int64_t> HeldOutSamplesOf(const executor::OpContext& context, int place) const;
  // In the memory of a batch, its inputs and targets: [2, batch * seq].
  model::TokenBatch TokensIn(plan::BufferId batch);
  void KeepBatch(const executor::OpContext& context, const std::vector<int64_t>& samples);
  void Cast(const executor::OpContext& context);
  void CopyIn(const executor::OpContext& context);
  void CopyPostForwardShard(const executor::OpContext& context);
  void CopyOut(const executor::OpContext& context);
  void RenewOwnRows(const executor::OpContext& context);
  void CopyAcross(const executor::OpContext& context);
  void Accumulate(const executor::OpContext& context);
  void AllGather(const executor::OpContext& context);
  void ReduceScatter(const executor::OpContext& context);
  // Of the parts of a sequence, which tensor ranks have; a piece a sample.
  void GatherSequence(const executor::OpContext& context);
  void ScatterSequence(const executor::OpContext& context);
  void AllReduce(const executor::OpContext& context);
  void Broadcast(const executor::OpContext& context);
  void Scatter(const executor::OpContext& context);
  void Gather(const executor::OpContext& context);
  void AllReduce(const executor::OpContext& context,
                 const std::vector<transport::AllReducePiece>& pieces, double scale);
  // Sends or receives a segment's output or the gradient of that.
  void Exchange(const executor::OpContext& context);
  // What a segment or its norm puts out, its part of a sum, or a gradient of that: [T, D]. Between
  // its stages a micro-batch is memory of the rank.
  at::Tensor RowsIn(const executor::OpContext& context, plan::BufferId buffer);
  at::Tensor InputOf(const executor::OpContext& context);
  void WeightBackward(const executor::OpContext& context);
  // What forward has saved, with what its norm has where that is an op of its own.
  model::Saved SavedOf(const executor::OpContext& context);
  // Of the ranks that share the work of layers, the one that adds what is to be added once.
  bool IsFirstTensor() const {
    return layout_.mesh.Coordinate(rank_, plan::MeshDimension::kTensor) == 0;
  }

  const model::SegmentModel& model_;
  model::Sampler sampler_;
  TargetCount count_;
  std::vector<std::vector<UnitParameter>> segment_parameters_;  // by segment
  std::function<void(int64_t step)> on_control_;

  std::vector<plan::Group> groups_;             // of this rank, by communicator of the Schedule
  std::map<plan::Meeting, plan::Group> pairs_;  // likewise, with its peers
  model::SequencePart part_;                    // of each sample, that the rank has
  bool scatters_ = false;  // gradients are reduce-scattered before any all-reduce of them
  bool reduces_ = false;   // any collective adds up gradients

  // The running step.
  std::vector<Bound> bound_;  // by BufferId
  double learning_rate_ = 0;
  std::map<plan::BufferId, at::Tensor> slots_;  // of the running Schedule
  std::vector<std::vector<int64_t>> kept_batches_;
};

}  // namespace shardscope::runtime
