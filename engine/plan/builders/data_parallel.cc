#include <utility>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/whole_parameters.h"

namespace shardscope::plan {
namespace {

constexpr StreamIndex kBroadcastStream = 2;
constexpr StreamIndex kReduceStream = 3;
constexpr int32_t kRoot = 0;

// torch.nn.DataParallel (torch/nn/parallel/data_parallel.py), of which each GPU is a rank here: for
// each micro-batch the root scatters inputs, broadcasts the model, gathers outputs, and has the sum
// of all gradients after the backward; only it keeps parameters and updates them. Nothing overlaps:
// replicas are made before any forward, and their gradients are reduced after all of the backward,
// as one node of the graph (torch/nn/parallel/_functions.py: Broadcast). An output is a rank's mean
// loss, as of a module that computes it.
class DataParallelBuilder final : public WholeParametersBuilder {
 public:
  DataParallelBuilder(const ModelDescription& model, const Policy& policy, bool is_root)
      : WholeParametersBuilder(model, policy,
                               {{"host", StreamRole::kHost},
                                {"compute", StreamRole::kCompute},
                                {"broadcast", StreamRole::kBroadcast},
                                {"reduce", StreamRole::kReduce}}),
        is_root_(is_root) {}

 protected:
  bool KeepsState() const override { return is_root_; }

  void LoadBatch(BufferId batch) override {
    Op scatter = MakeRooted(OpKind::kScatter, kBroadcastStream);
    scatter.payload_bytes = num_ranks() * batch_bytes();
    if (is_root_) {
      const BufferId inputs = NewBuffer(BufferKind::kInputs, kNone, scatter.payload_bytes);
      Op load = MakeOp(OpKind::kLoadBatch, kNone, kHostStream);
      load.allocates = load.writes = {inputs};
      scatter.dependencies = {AfterEvent(Emit(std::move(load)))};
      scatter.reads = scatter.frees = {inputs};
    }
    scatter.allocates = scatter.writes = {batch};
    EmitRooted(std::move(scatter));
  }

  // Replicas.
  void StartForward() override {
    for (int32_t unit_index = 0; unit_index < num_units(); ++unit_index) {
      if (is_root_) WholeParametersBuilder::PreForward(unit_index);
      Op broadcast = MakeRooted(OpKind::kBroadcast, kBroadcastStream);
      broadcast.unit = unit_index;
      broadcast.dtype = policy().param_dtype;
      broadcast.payload_bytes = UnshardedBytes(unit_index, broadcast.dtype);
      if (is_root_) {
        broadcast.reads = {state(unit_index).parameters};
        broadcast.dependencies = {AfterStream(kComputeStream)};
      } else {
        state(unit_index).parameters =
            NewBuffer(BufferKind::kUnsharded, unit_index, broadcast.payload_bytes);
        broadcast.allocates = broadcast.writes = {state(unit_index).parameters};
      }
      EmitRooted(std::move(broadcast));
    }
    WaitInCompute(kBroadcastStream);
  }

  void PreForward(int32_t) override {}

  void EndForward() override {
    Op gather = MakeRooted(OpKind::kGather, kReduceStream);
    gather.segment = last_segment();
    gather.payload_bytes = num_ranks() * output_bytes();
    gather.dtype = policy().master_dtype;
    gather.reads = {output()};
    gather.dependencies = {AfterStream(kComputeStream)};
    if (is_root_) {
      const BufferId outputs = NewBuffer(BufferKind::kOutputs, kNone, gather.payload_bytes);
      gather.allocates = gather.writes = gather.frees = {outputs};
    }
    EmitRooted(std::move(gather));
    WaitInCompute(kReduceStream);
  }

  void PostBackward(int32_t unit_index) override { ReleaseParameters(unit_index); }

  void EndBackward() override {
    for (int32_t unit_index = num_units() - 1; unit_index >= 0; --unit_index) {
      Reduce(unit_index);
    }
    Op wait = MakeOp(OpKind::kRelease, kNone, kComputeStream);
    wait.dependencies = {AfterStream(kReduceStream)};
    Emit(std::move(wait));
  }

  StreamIndex ReduceStream() const override { return kReduceStream; }

 private:
  Op MakeRooted(OpKind kind, StreamIndex stream) const {
    Op op = MakeOp(kind, kNone, stream);
    op.communicator = 0;
    op.root = kRoot;
    return op;
  }

  void EmitRooted(Op op) {
    op.wire_bytes = WireBytes(op.kind, op.payload_bytes, num_ranks(), is_root_);
    Emit(std::move(op));
  }

  // Others are left with parts of the sum, which are of no use.
  void Reduce(int32_t unit_index) {
    if (!IsTrained(unit_index)) return;
    const BufferId gradient = std::exchange(state(unit_index).gradient, kNone);
    BufferId reduced = gradient;
    if (policy().reduce_dtype != policy().param_dtype) {
      Op copy = MakeReduceCopyIn(unit_index, gradient, kComputeStream);
      copy.frees = {gradient};
      reduced = copy.writes.front();
      Emit(std::move(copy));
    }
    Op reduce = MakeRooted(OpKind::kReduce, kReduceStream);
    reduce.unit = unit_index;
    reduce.dtype = policy().reduce_dtype;
    reduce.payload_bytes = TrainedBytes(unit_index, reduce.dtype);
    reduce.reads = reduce.writes = {reduced};
    reduce.dependencies = {AfterStream(kComputeStream)};
    EmitRooted(std::move(reduce));
    if (is_root_) {
      EmitAccumulate(unit_index, reduced);
      return;
    }
    Op release = MakeOp(OpKind::kRelease, unit_index, kReduceStream);
    release.frees = {reduced};
    Emit(std::move(release));
  }

  const bool is_root_;
};

}  // namespace

Schedule BuildDataParallel(const ModelDescription& model, const Policy& policy) {
  Schedule schedule = DataParallelBuilder(model, policy, true).Build(0);
  const int32_t ranks = policy.mesh.num_ranks();
  if (ranks > 1) {
    Schedule others = DataParallelBuilder(model, policy, false).Build(0);
    schedule.programs.push_back(std::move(others.programs.front()));
  }
  for (int32_t rank = 0; rank < ranks; ++rank) {
    schedule.program_of_rank.push_back(rank == kRoot ? 0 : 1);
  }
  return schedule;
}

}  // namespace shardscope::plan
