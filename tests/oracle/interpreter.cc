#include "tests/oracle/interpreter.h"

#include <algorithm>

namespace shardscope::oracle {

using plan::BufferKind;
using plan::Op;
using plan::OpIndex;
using plan::OpKind;

namespace {

bool IsGradient(const plan::Buffer& buffer) {
  const BufferKind kind = OnDevice(buffer.kind);
  return kind == BufferKind::kGradient || kind == BufferKind::kGradientShard;
}

bool IsBackward(OpKind kind) {
  return kind == OpKind::kBackward || kind == OpKind::kNormBackward ||
         kind == OpKind::kWeightBackward;
}

}  // namespace

Interpreter::Interpreter(const plan::Schedule& schedule) : schedule_(schedule), graph_(schedule) {
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    first_slot_.push_back(static_cast<Slot>(buffers_.size()));
    const plan::Program& program = schedule.ProgramOf(rank);
    for (const plan::Buffer& buffer : program.buffers) buffers_.push_back(&buffer);
    for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
      AddInstance(program.ops[static_cast<size_t>(index)], rank, index);
    }
  }
}

Interpreter::Range Interpreter::AddUses(const std::vector<plan::BufferId>& buffers, int rank) {
  const auto begin = static_cast<int32_t>(uses_.size());
  for (const plan::BufferId id : buffers) {
    uses_.emplace_back().slot = first_slot_[static_cast<size_t>(rank)] + id;
  }
  return {begin, static_cast<int32_t>(uses_.size())};
}

void Interpreter::AddInstance(const Op& op, int rank, OpIndex index) {
  const auto has = [](const std::vector<plan::BufferId>& list, plan::BufferId id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  Instance instance;
  instance.op = &op;
  instance.rank = rank;
  instance.index = index;
  instance.allocates = AddUses(op.allocates, rank);
  instance.reads = AddUses(op.reads, rank);
  instance.writes = AddUses(op.writes, rank);
  instance.frees = AddUses(op.frees, rank);
  for (size_t at = 0; at < op.reads.size(); ++at) {
    uses_[static_cast<size_t>(instance.reads.begin) + at].also_written =
        has(op.writes, op.reads[at]);
  }
  for (size_t at = 0; at < op.writes.size(); ++at) {
    // A unit's gradient: each of its segments writes the part of its own parameters.
    Use& use = uses_[static_cast<size_t>(instance.writes.begin) + at];
    if (!IsBackward(op.kind) || !IsGradient(BufferAt(use.slot))) continue;
    if (has(op.allocates, op.writes[at])) begun_gradients_.erase(use.slot);
    use.adds = !begun_gradients_.insert(use.slot).second;
  }
  instances_.push_back(instance);
}

void Interpreter::Reset() {
  memory_.assign(buffers_.size(), Memory());
  allocator_.assign(buffers_.size(), plan::kNone);
  for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
    const std::vector<plan::Buffer>& buffers = schedule_.ProgramOf(rank).buffers;
    for (size_t id = 0; id < buffers.size(); ++id) {
      if (!buffers[id].persistent) continue;
      Memory& memory = memory_[static_cast<size_t>(first_slot_[static_cast<size_t>(rank)]) + id];
      memory.live = true;
      // The gradient of the step before is none of this one.
      if (IsGradient(buffers[id])) continue;
      memory.value = Symbol(Term::kInitial, OnDevice(buffers[id].kind), buffers[id].unit, rank);
    }
  }
  num_before_ = graph_.num_before();
  places_.clear();
  ready_.clear();
  findings_ = graph_.findings();
}

Outcome Interpreter::Run(const Priorities& priorities) {
  Reset();
  const auto push = [&](Action action) {
    const uint64_t priority = priorities[static_cast<size_t>(action)];
    ready_.push_back(priority << 32 | static_cast<uint32_t>(action));
    std::push_heap(ready_.begin(), ready_.end());
  };
  for (Action action = 0; action < graph_.num_actions(); ++action) {
    if (num_before_[static_cast<size_t>(action)] == 0) push(action);
  }
  Action num_done = 0;
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end());
    const auto action = static_cast<Action>(ready_.back() & 0xffffffffU);
    ready_.pop_back();
    Perform(action);
    ++num_done;
    for (const Action* after = graph_.begin(action); after != graph_.end(action); ++after) {
      if (--num_before_[static_cast<size_t>(*after)] == 0) push(*after);
    }
  }
  if (num_done < graph_.num_actions()) {
    FindUnfinished();
  } else {
    FindLeaks();
  }
  return {std::move(findings_), ResultNow()};
}

void Interpreter::Perform(Action action) {
  if (action >= graph_.FirstMeeting()) {
    Meet(graph_.meetings()[static_cast<size_t>(action - graph_.FirstMeeting())]);
    return;
  }
  Instance& instance = instances_[static_cast<size_t>(action / 3)];
  const auto stage = static_cast<Stage>(action % 3);
  if (stage == Stage::kStart) Start(instance);
  if (stage == Stage::kEnd) End(instance);
}

void Interpreter::Start(Instance& instance) {
  for (int32_t at = instance.allocates.begin; at < instance.allocates.end; ++at) {
    const Slot slot = uses_[static_cast<size_t>(at)].slot;
    Memory& memory = At(slot);
    if (memory.live || !TakePlace(instance.rank, slot)) {
      Find(Harm::kDoubleAllocation, instance, slot);
    }
    memory = {kPoison, memory.version + 1, true};
    allocator_[static_cast<size_t>(slot)] = graph_.InstanceOf(instance.rank, instance.index);
  }
  for (int32_t at = instance.reads.begin; at < instance.reads.end; ++at) {
    Use& use = uses_[static_cast<size_t>(at)];
    const Memory& memory = At(use.slot);
    if (!memory.live) {
      Find(Harm::kDeadUse, instance, use.slot);
    } else if (memory.value == kPoison) {
      Find(Harm::kPoisonRead, instance, use.slot);
    }
    use.seen = memory.value;
    use.seen_version = memory.version;
    // A gradient that the optimizer has read, parameters that are gathered after their update.
    if (instance.op->phase == plan::Phase::kOptimizer &&
        (IsGradient(BufferAt(use.slot)) || instance.op->kind != OpKind::kOptimizer)) {
      At(use.slot).is_final = true;
    }
  }
  for (int32_t at = instance.writes.begin; at < instance.writes.end; ++at) {
    Use& use = uses_[static_cast<size_t>(at)];
    Memory& memory = At(use.slot);
    if (!memory.live) Find(Harm::kDeadUse, instance, use.slot);
    const plan::Buffer& buffer = BufferAt(use.slot);
    const bool updates = instance.op->kind == OpKind::kOptimizer;
    if (buffer.persistent && (IsGradient(buffer) || updates) && memory.is_final)
      Find(Harm::kChangedUnderUse, instance, use.slot);
    if (use.adds && memory.live && memory.value == kPoison) {
      Find(Harm::kPoisonRead, instance, use.slot);
    }
    use.seen = memory.value;
    // Half written until the op ends.
    memory.value = kPoison;
    use.seen_version = ++memory.version;
  }
  instance.made = Made(instance);
}

void Interpreter::End(Instance& instance) {
  for (int32_t at = instance.reads.begin; at < instance.reads.end; ++at) {
    const Use& use = uses_[static_cast<size_t>(at)];
    if (use.also_written || At(use.slot).version == use.seen_version) continue;
    Find(Harm::kChangedUnderUse, instance, use.slot);
  }
  for (int32_t at = instance.writes.begin; at < instance.writes.end; ++at) {
    const Use& use = uses_[static_cast<size_t>(at)];
    Memory& memory = At(use.slot);
    if (memory.version != use.seen_version) Find(Harm::kChangedUnderUse, instance, use.slot);
    memory.value = memory.live ? Written(instance, use) : kPoison;
  }
  for (int32_t at = instance.frees.begin; at < instance.frees.end; ++at) {
    const Slot slot = uses_[static_cast<size_t>(at)].slot;
    Memory& memory = At(slot);
    if (!memory.live || BufferAt(slot).persistent) Find(Harm::kBadFree, instance, slot);
    LeavePlace(instance.rank, slot);
    memory = {kPoison, memory.version + 1, false};
  }
}

// Whether nothing else is in the fixed memory that the buffer is to have, if it is to have some.
bool Interpreter::TakePlace(int rank, Slot slot) {
  const plan::BufferId place = BufferAt(slot).slot;
  if (place == plan::kNone) return true;
  return places_.try_emplace(first_slot_[static_cast<size_t>(rank)] + place, slot).second;
}

void Interpreter::LeavePlace(int rank, Slot slot) {
  const plan::BufferId place = BufferAt(slot).slot;
  if (place == plan::kNone) return;
  const auto taken = places_.find(first_slot_[static_cast<size_t>(rank)] + place);
  if (taken != places_.end() && taken->second == slot) places_.erase(taken);
}

void Interpreter::Meet(const Meeting& meeting) {
  const OpKind kind = instances_[static_cast<size_t>(meeting.instances.front())].op->kind;
  if (kind == OpKind::kSend) {
    // The receiver comes last; without one there is nothing to be had.
    const Value sent = instances_[static_cast<size_t>(meeting.instances.front())].made;
    instances_[static_cast<size_t>(meeting.instances.back())].made = sent;
    return;
  }
  const bool sums = kind == OpKind::kAllReduce || kind == OpKind::kReduce;
  if (sums && meeting.instances.size() == 1) return;  // of one: itself
  if (kind == OpKind::kBroadcast || kind == OpKind::kScatter) return MeetRoot(meeting);
  if (const Value whole = WholeOf(meeting); whole != kPoison) {
    for (const int32_t member : meeting.instances) {
      instances_[static_cast<size_t>(member)].made = whole;
    }
    return;
  }
  Value all = Symbol(kind == OpKind::kAllGather       ? Term::kGather
                     : kind == OpKind::kReduceScatter ? Term::kReduceScatter
                                                      : Term::kAllReduce);
  // Every rank brought its own value, in rank order.
  for (const int32_t member : meeting.instances) {
    all = Mix(all, instances_[static_cast<size_t>(member)].made);
  }
  for (const int32_t member : meeting.instances) {
    Instance& instance = instances_[static_cast<size_t>(member)];
    instance.made =
        kind == OpKind::kReduceScatter ? Mix(all, static_cast<Value>(instance.rank)) : all;
    // Of what others have then a part may be there.
    if (instance.op->root != plan::kNone && !IsRoot(instance)) instance.made = kPoison;
  }
}

Value Interpreter::PartOf(Value whole, int rank) {
  const Value part = Symbol(Term::kPart, whole, rank);
  parts_[part] = {whole, rank};
  return part;
}

// What ranks that bring their own parts of it gather once more; else poison.
Value Interpreter::WholeOf(const Meeting& meeting) const {
  Value whole = kPoison;
  for (const int32_t member : meeting.instances) {
    const Instance& instance = instances_[static_cast<size_t>(member)];
    const bool is_of_fewer =
        schedule_.communicators[static_cast<size_t>(instance.op->communicator)].run > 0;
    const auto part = parts_.find(instance.made);
    if (!is_of_fewer || part == parts_.end() || part->second.rank != instance.rank) return kPoison;
    if (whole != kPoison && whole != part->second.whole) return kPoison;
    whole = part->second.whole;
  }
  return whole;
}

bool Interpreter::IsRoot(const Instance& instance) const {
  const plan::Communicator& communicator =
      schedule_.communicators[static_cast<size_t>(instance.op->communicator)];
  return plan::PlaceOf(schedule_.mesh, communicator, instance.rank).place == instance.op->root;
}

// What the root brought is what all have, or have a part of.
void Interpreter::MeetRoot(const Meeting& meeting) {
  Value brought = kPoison;
  for (const int32_t member : meeting.instances) {
    const Instance& instance = instances_[static_cast<size_t>(member)];
    if (IsRoot(instance)) brought = instance.made;
  }
  for (const int32_t member : meeting.instances) {
    Instance& instance = instances_[static_cast<size_t>(member)];
    instance.made =
        instance.op->kind == OpKind::kBroadcast
            ? brought
            : Mix(brought, static_cast<Value>(SamplesOf(schedule_.mesh, instance.rank)));
  }
}

// For a collective: what this rank brings.
Value Interpreter::Made(const Instance& instance) {
  const Op& op = *instance.op;
  const auto read = [&](int32_t at) {
    return uses_[static_cast<size_t>(instance.reads.begin + at)];
  };
  switch (op.kind) {
    case OpKind::kControl:
    case OpKind::kReshard:
    case OpKind::kRelease:
      return kPoison;
    case OpKind::kReceive:
      return kPoison;
    case OpKind::kLoadBatch:
      if (BufferAt(uses_[static_cast<size_t>(instance.writes.begin)].slot).kind ==
          BufferKind::kInputs) {
        return Symbol(Term::kInputs, op.micro_batch);
      }
      return Symbol(Term::kBatch, SamplesOf(schedule_.mesh, instance.rank), op.micro_batch);
    case OpKind::kCopyIn: {
      if (op.reads.empty()) return kPoison;
      const bool keeps_part =
          !op.writes.empty() &&
          BufferAt(uses_[static_cast<size_t>(instance.writes.begin)].slot).kind ==
              BufferKind::kPostForwardShard;
      return keeps_part ? PartOf(read(0).seen, instance.rank) : read(0).seen;
    }
    case OpKind::kCast:
    case OpKind::kCopyToDevice:
    case OpKind::kCopyToHost:
    case OpKind::kCopyOut:
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
    case OpKind::kAllReduce:
    case OpKind::kBroadcast:
    case OpKind::kScatter:
    case OpKind::kGather:
    case OpKind::kReduce:
    case OpKind::kSend:
      return op.reads.empty() ? kPoison : read(0).seen;
    case OpKind::kAccumulate: {
      // Reads what came in, and what is there already unless this is the first micro-batch.
      if (op.reads.size() < 2) return op.reads.empty() ? kPoison : read(0).seen;
      const bool first_is_kept = read(0).also_written;
      return Symbol(Term::kAdd, read(first_is_kept ? 0 : 1).seen, read(first_is_kept ? 1 : 0).seen);
    }
    case OpKind::kForward:
      return Symbol(Term::kForward, op.segment, InputsOf(instance));
    case OpKind::kNormForward:
      return Symbol(Term::kNormForward, op.segment, InputsOf(instance));
    case OpKind::kRecompute:
      return Symbol(RecomputedBy(instance), op.segment, InputsOf(instance));
    case OpKind::kBackward:
      return Symbol(Term::kBackward, op.segment, InputsOf(instance));
    case OpKind::kNormBackward:
      return Symbol(Term::kNormBackward, op.segment, InputsOf(instance));
    case OpKind::kWeightBackward:
      return Symbol(Term::kWeightBackward, op.segment, InputsOf(instance));
    case OpKind::kUnscale:
      return Symbol(Term::kUnscale, InputsOf(instance));
    case OpKind::kGradNorm:
      return Symbol(Term::kNorm, InputsOf(instance));
    case OpKind::kOptimizer:
      return Symbol(Term::kOptimizer, InputsOf(instance));
  }
  return kPoison;
}

// What forward or its norm has made already is the same again; else it is what was not kept.
Term Interpreter::RecomputedBy(const Instance& instance) const {
  for (int32_t at = instance.writes.begin; at < instance.writes.end; ++at) {
    const plan::Buffer& buffer = BufferAt(uses_[static_cast<size_t>(at)].slot);
    if (buffer.kind == BufferKind::kNormOutput) return Term::kNormForward;
  }
  for (int32_t at = instance.reads.begin; at < instance.reads.end; ++at) {
    const plan::Buffer& buffer = BufferAt(uses_[static_cast<size_t>(at)].slot);
    const bool is_own = buffer.segment == instance.op->segment;
    if (is_own && buffer.kind == BufferKind::kActivation) return Term::kRecompute;
  }
  return Term::kForward;
}

Value Interpreter::InputsOf(const Instance& instance) const {
  Value inputs = 0;
  for (int32_t at = instance.reads.begin; at < instance.reads.end; ++at) {
    const Use& use = uses_[static_cast<size_t>(at)];
    inputs += Input(BufferAt(use.slot), use.seen);
  }
  return inputs;
}

Value Interpreter::Written(const Instance& instance, const Use& write) const {
  const OpKind kind = instance.op->kind;
  if (!IsBackward(kind) && kind != OpKind::kOptimizer) return instance.made;
  // These write several things.
  const plan::Buffer& buffer = BufferAt(write.slot);
  const BufferKind role = IsGradient(buffer) ? BufferKind::kGradient : OnDevice(buffer.kind);
  const Value own = Mix(instance.made, static_cast<Value>(role));
  return write.adds ? Symbol(Term::kAdd, write.seen, own) : own;
}

void Interpreter::Find(Harm harm, const Instance& instance, Slot slot) {
  if (findings_.size() >= kMostFindings) return;
  Finding finding = {harm, instance.rank, instance.index};
  if (slot != plan::kNone) {
    finding.buffer = slot - first_slot_[static_cast<size_t>(instance.rank)];
  }
  findings_.push_back(finding);
}

void Interpreter::FindUnfinished() {
  for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
    const auto num_ops = static_cast<OpIndex>(schedule_.ProgramOf(rank).ops.size());
    for (OpIndex index = 0; index < num_ops; ++index) {
      const int32_t instance = graph_.InstanceOf(rank, index);
      const Action end = graph_.ActionOf(instance, Stage::kEnd);
      if (num_before_[static_cast<size_t>(end)] == 0) continue;
      Find(Harm::kDeadlock, instances_[static_cast<size_t>(instance)]);
      break;
    }
  }
}

void Interpreter::FindLeaks() {
  for (Slot slot = 0; slot < static_cast<Slot>(memory_.size()); ++slot) {
    if (!At(slot).live || BufferAt(slot).persistent) continue;
    const int32_t allocator = allocator_[static_cast<size_t>(slot)];
    Find(Harm::kLeak, instances_[static_cast<size_t>(allocator)], slot);
  }
}

Value Interpreter::ResultNow() const {
  Value result = 0;
  for (size_t slot = 0; slot < memory_.size(); ++slot) {
    const BufferKind kind = buffers_[slot]->kind;
    const bool is_place = kind == BufferKind::kParameterSlot || kind == BufferKind::kGradientSlot;
    if (buffers_[slot]->persistent && !is_place) {
      const auto rank =
          std::upper_bound(first_slot_.begin(), first_slot_.end(), static_cast<Slot>(slot)) -
          first_slot_.begin() - 1;
      result += Symbol(Term::kInput, OnDevice(buffers_[slot]->kind), buffers_[slot]->unit, rank,
                       memory_[slot].value);
    }
  }
  return result;
}

Priorities RandomOrder(const plan::Schedule& schedule, const ActionGraph& graph, uint64_t seed) {
  enum Style : uint8_t { kEven, kStreamsApart, kRanksApart, kHostsAhead, kSlowOps, kNumStyles };
  const auto style = static_cast<Style>(seed % kNumStyles);
  Random random(seed);
  // The upper bits say who goes first, the lower ones are even.
  constexpr int kBiasShift = 20;
  constexpr uint32_t kEvenMask = (1U << 24) - 1;
  Priorities priorities(static_cast<size_t>(graph.num_actions()));
  for (uint32_t& priority : priorities) priority = static_cast<uint32_t>(random.Next()) & kEvenMask;
  if (style == kEven) return priorities;
  std::vector<uint32_t> stream_bias(schedule.streams.size());
  size_t action = 0;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    const auto rank_bias = static_cast<uint32_t>(random.Below(1000));
    for (uint32_t& bias : stream_bias) bias = static_cast<uint32_t>(random.Below(1000));
    for (const Op& op : schedule.ProgramOf(rank).ops) {
      for (const Stage stage : {Stage::kIssue, Stage::kStart, Stage::kEnd}) {
        uint32_t bias = 0;
        if (style == kStreamsApart) bias = stream_bias[static_cast<size_t>(op.stream)];
        if (style == kRanksApart) bias = rank_bias;
        if (style == kHostsAhead) bias = stage == Stage::kIssue ? 1000 : 0;
        if (style == kSlowOps) bias = stage == Stage::kEnd ? 0 : 1000;
        priorities[action++] += bias << kBiasShift;
      }
    }
  }
  return priorities;
}

Priorities CollidingOrder(const ActionGraph& graph, int32_t first, int32_t second,
                          Collision collision) {
  constexpr uint32_t kLast = 0;
  constexpr uint32_t kOther = 1000;
  constexpr uint32_t kNow = 1'000'000'000;
  Priorities priorities(static_cast<size_t>(graph.num_actions()), kOther);
  const auto raise = [&](int32_t instance, Stage stage) {
    const std::vector<bool> needed = graph.Ancestors(graph.ActionOf(instance, stage));
    for (size_t action = 0; action < needed.size(); ++action) {
      if (needed[action]) priorities[action] = kNow;
    }
  };
  const auto lower = [&](int32_t instance, Stage stage) {
    priorities[static_cast<size_t>(graph.ActionOf(instance, stage))] = kLast;
  };
  if (collision == Collision::kOverlap) {
    // Both start before either ends.
    raise(first, Stage::kStart);
    raise(second, Stage::kStart);
    return priorities;
  }
  const bool first_goes = collision == Collision::kFirstBeforeSecond;
  const int32_t late = first_goes ? second : first;
  lower(late, Stage::kStart);
  lower(late, Stage::kEnd);
  raise(first_goes ? first : second, Stage::kEnd);
  return priorities;
}

}  // namespace shardscope::oracle
