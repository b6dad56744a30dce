// Interpreter: runs a Schedule on symbolic values for all ranks, in any interleaving that its
// ActionGraph allows. Buffers that are not there hold poison; an op holds on to what it uses from
// its start to its end, so anything that touches it meanwhile is found.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "engine/plan/schedule.h"
#include "tests/oracle/action_graph.h"
#include "tests/oracle/finding.h"
#include "tests/oracle/values.h"

namespace shardscope::oracle {

// By action. Of the actions that may happen next, the one with the highest priority does.
using Priorities = std::vector<uint32_t>;

struct Outcome {
  std::vector<Finding> findings;  // at most kMostFindings, in the order in which they showed
  // Parameters, gradients and optimizer state of all units and ranks after the step.
  Value result = kPoison;
};

class Interpreter {
 public:
  static constexpr size_t kMostFindings = 256;

  // `schedule` must outlive the interpreter.
  explicit Interpreter(const plan::Schedule& schedule);

  const ActionGraph& graph() const { return graph_; }

  // Runs one step from the start. The findings begin with those that no order changes.
  Outcome Run(const Priorities& priorities);

 private:
  // Buffers are numbered over all ranks; a slot is one of these numbers.
  using Slot = int32_t;
  struct Range {
    int32_t begin = 0;
    int32_t end = 0;
  };
  struct Instance {
    const plan::Op* op = nullptr;
    int32_t rank = 0;
    plan::OpIndex index = plan::kNone;
    // Ranges of uses_.
    Range allocates;
    Range reads;
    Range writes;
    Range frees;
    Value made = kPoison;  // by the op when it started; by the meeting for a collective
  };
  // An op's use of a buffer.
  struct Use {
    Slot slot = 0;
    bool also_written = false;  // a read: the op writes the buffer, too
    bool adds = false;          // a write: into what other ops wrote before
    uint32_t seen_version = 0;  // when the op started
    Value seen = kPoison;       // the same
  };
  struct Memory {
    Value value = kPoison;
    uint32_t version = 0;  // changes with every write, allocation and free
    bool live = false;
    bool is_final = false;  // read in the optimizer phase, as it is to stay
  };

  Range AddUses(const std::vector<plan::BufferId>& buffers, int rank);
  void AddInstance(const plan::Op& op, int rank, plan::OpIndex index);
  void Reset();
  void Perform(Action action);
  void Start(Instance& instance);
  void End(Instance& instance);
  bool TakePlace(int rank, Slot slot);
  void LeavePlace(int rank, Slot slot);
  void Meet(const Meeting& meeting);
  void MeetRoot(const Meeting& meeting);
  bool IsRoot(const Instance& instance) const;
  Value Made(const Instance& instance);
  Value PartOf(Value whole, int rank);
  Value WholeOf(const Meeting& meeting) const;
  Value InputsOf(const Instance& instance) const;
  Term RecomputedBy(const Instance& instance) const;
  Value Written(const Instance& instance, const Use& write) const;
  void Find(Harm harm, const Instance& instance, Slot slot = plan::kNone);
  void FindUnfinished();
  void FindLeaks();
  Value ResultNow() const;

  Memory& At(Slot slot) { return memory_[static_cast<size_t>(slot)]; }
  const plan::Buffer& BufferAt(Slot slot) const { return *buffers_[static_cast<size_t>(slot)]; }

  const plan::Schedule& schedule_;
  const ActionGraph graph_;
  std::vector<Slot> first_slot_;              // by rank
  std::vector<const plan::Buffer*> buffers_;  // by slot
  std::vector<Memory> memory_;                // by slot
  std::vector<int32_t> allocator_;            // by slot: the instance that allocated it
  std::vector<Instance> instances_;
  std::vector<Use> uses_;
  std::set<Slot> begun_gradients_;   // while ops are added: some backward has written them
  std::vector<int32_t> num_before_;  // by action: what still has to happen first
  std::vector<uint64_t> ready_;      // a heap of priority and action
  std::vector<Finding> findings_;
  struct Part {
    Value whole = kPoison;
    int rank = 0;
  };
  std::map<Slot, Slot> places_;  // fixed memory that is taken: what is in it
  std::map<Value, Part> parts_;  // of what was gathered, kept for a gather among fewer ranks
};

// An ordinary interleaving: each seed another style (even, some streams or ranks late, hosts far
// ahead, ops that take long to end).
Priorities RandomOrder(const plan::Schedule& schedule, const ActionGraph& graph, uint64_t seed);

// Two ops of one rank that no edge orders, made to collide.
enum class Collision : uint8_t { kOverlap, kFirstBeforeSecond, kSecondBeforeFirst };
Priorities CollidingOrder(const ActionGraph& graph, int32_t first, int32_t second,
                          Collision collision);

}  // namespace shardscope::oracle
