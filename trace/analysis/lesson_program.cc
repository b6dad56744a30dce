#include "trace/analysis/lesson_program.h"

#include "trace/base/time.h"

namespace shardscope::analysis {
namespace {

using query::MemoryCategory;

// Builds the program of one step; names in the comments are those of FSDP2.
class LessonProgram {
 public:
  LessonProgram(TestSnapshot* test, int ranks, bool prefetch)
      : test_(test), ranks_(ranks), prefetch_(prefetch), units_(LessonUnits()) {
    copy_out_.resize(units_.size());
    Add("control", "", "", "", {}, 30 * kNsPerUs);
    Add("load_batch", "forward", "", "", {}, 90 * kNsPerUs);
    Forward();
    Backward();
    Optimizer();
  }
  const std::vector<LessonOp>& ops() const { return ops_; }

 private:
  size_t Add(const std::string& kind, const std::string& phase, const std::string& unit,
             const std::string& segment, const std::vector<size_t>& waits,
             int64_t duration_ns = 0) {
    std::vector<int64_t> predecessors;
    for (const size_t wait : waits) predecessors.push_back(ops_[wait].plan_op);
    LessonOp op;
    op.plan_op = test_->Plan(kind, phase, unit, segment, predecessors);
    op.duration_ns = duration_ns;
    op.waits = waits;
    ops_.push_back(op);
    return ops_.size() - 1;
  }

  void Allocate(size_t op, MemoryCategory category, int64_t bytes) {
    ops_[op].memory.push_back({category, bytes});
  }
  void Free(size_t op, MemoryCategory category, int64_t bytes) {
    ops_[op].memory.push_back({category, -bytes});
  }

  size_t AddCollective(const std::string& kind, const std::string& phase, const std::string& unit,
                       int64_t bytes, const std::vector<size_t>& waits) {
    const size_t index = Add(kind, phase, unit, "", waits);
    query::PlanOp& op = test_->op(ops_[index].plan_op);
    op.payload_bytes = bytes;
    op.wire_bytes = bytes * (ranks_ - 1) / ranks_ * (kind == "all_reduce" ? 2 : 1);
    return index;
  }

  void Gather(size_t i, const std::string& phase) {
    const LessonUnit& unit = units_[i];
    const size_t copy_in = Add("copy_in", phase, unit.name, "", {});
    test_->op(ops_[copy_in].plan_op).stream = "copy";
    ops_[copy_in].bytes = unit.bytes / ranks_;
    Allocate(copy_in, MemoryCategory::kCommunicationBuffer, unit.bytes);
    copy_out_[i] = AddCollective("all_gather", phase, unit.name, unit.bytes, {copy_in});
  }

  void CopyOut(size_t i, const std::string& phase) {
    const size_t op = Add("copy_out", phase, units_[i].name, "", {copy_out_[i]});
    ops_[op].bytes = units_[i].bytes;
    Allocate(op, MemoryCategory::kUnshardedParameter, units_[i].bytes);
    Free(op, MemoryCategory::kCommunicationBuffer, units_[i].bytes);
  }

  void Reshard(size_t i, const std::string& phase) {
    const size_t op = Add("reshard", phase, units_[i].name, "", {});
    Free(op, MemoryCategory::kUnshardedParameter, units_[i].bytes);
  }

  void Forward() {
    if (prefetch_) Gather(0, "forward");
    for (size_t i = 0; i < units_.size(); ++i) {
      if (!prefetch_) Gather(i, "forward");
      CopyOut(i, "forward");
      if (prefetch_ && i + 1 < units_.size()) Gather(i + 1, "forward");
      for (const auto& [segment, forward_ns] : units_[i].segments) {
        const size_t op = Add("forward", "forward", "", segment, {}, forward_ns);
        Allocate(op, MemoryCategory::kActivation, units_[i].activation_bytes);
      }
      if (i + 1 < units_.size()) Reshard(i, "forward");  // the last unit is needed at once
    }
  }

  void Backward() {
    for (size_t i = units_.size(); i-- > 0;) {
      const bool kept = i + 1 == units_.size();
      if (!kept && !prefetch_) Gather(i, "backward");
      if (!kept) CopyOut(i, "backward");
      if (prefetch_ && i > 0) Gather(i - 1, "backward");
      const LessonUnit& unit = units_[i];
      for (size_t s = unit.segments.size(); s-- > 0;) {
        const auto& [segment, forward_ns] = unit.segments[s];
        const size_t op = Add("backward", "backward", "", segment, {}, 2 * forward_ns);
        if (s + 1 == unit.segments.size()) Allocate(op, MemoryCategory::kGradient, unit.bytes);
        Free(op, MemoryCategory::kActivation, unit.activation_bytes);
      }
      Reshard(i, "backward");
      Scatter(unit);
    }
  }

  void Scatter(const LessonUnit& unit) {
    const size_t copy_in = Add("copy_in", "backward", unit.name, "", {});
    ops_[copy_in].bytes = unit.bytes;
    Allocate(copy_in, MemoryCategory::kCommunicationBuffer, unit.bytes);
    Free(copy_in, MemoryCategory::kGradient, unit.bytes);
    const size_t scatter =
        AddCollective("reduce_scatter", "backward", unit.name, unit.bytes, {copy_in});
    Allocate(scatter, MemoryCategory::kCommunicationBuffer, unit.bytes / ranks_);
    Free(scatter, MemoryCategory::kCommunicationBuffer, unit.bytes);
    const size_t accumulate = Add("accumulate", "backward", unit.name, "", {scatter});
    ops_[accumulate].bytes = unit.bytes / ranks_;
    Free(accumulate, MemoryCategory::kCommunicationBuffer, unit.bytes / ranks_);
    gradients_.push_back(accumulate);
  }

  void Optimizer() {
    const size_t norm = Add("grad_norm", "optimizer", "", "", gradients_, 150 * kNsPerUs);
    const size_t all_reduce = AddCollective("all_reduce", "optimizer", "", 4, {norm});
    for (const LessonUnit& unit : units_) {
      const int64_t duration_ns = unit.bytes / ranks_;  // 1 ns a byte
      Add("optimizer", "optimizer", unit.name, "", {all_reduce}, duration_ns);
    }
  }

  TestSnapshot* test_;
  int ranks_;
  bool prefetch_;
  std::vector<LessonUnit> units_;
  std::vector<LessonOp> ops_;
  std::vector<size_t> copy_out_;   // of a unit: the all-gather that its copy-out waits for
  std::vector<size_t> gradients_;  // what the gradient norm waits for
};

}  // namespace

std::vector<LessonUnit> LessonUnits() {
  std::vector<LessonUnit> units = {
      {"embedding", {{"embedding", 700 * kNsPerUs}}, 262'144, 1'048'576}};
  for (const char* block : {"block0", "block1", "block2"}) {
    const std::string name = block;
    units.push_back({name,
                     {{name + ".attention", 2'300 * kNsPerUs}, {name + ".mlp", 3'300 * kNsPerUs}},
                     3'147'776,
                     3'145'728});
  }
  units.push_back({"head", {{"head", 1'600 * kNsPerUs}}, 263'168, 2'097'152});
  return units;
}

std::vector<LessonOp> PlanLesson(TestSnapshot* test, int ranks, bool prefetch) {
  return LessonProgram(test, ranks, prefetch).ops();
}

}  // namespace shardscope::analysis
