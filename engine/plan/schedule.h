// Schedule: one immutable plan of a training step that is run, simulated, drawn, explained and
// checked.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/mesh.h"
#include "engine/plan/model_description.h"
#include "engine/plan/op.h"
#include "engine/plan/optimizer_state.h"

namespace shardscope::plan {

// What one rank does, in the order in which its host issues it. A stream is a view of this list.
struct Program {
  std::vector<Op> ops;
  std::vector<Buffer> buffers;
  bool operator==(const Program&) const = default;
};

// Of a Schedule. A check holds one number a stream for each op (checks/happens_before.h).
constexpr size_t kMostStreams = 256;

struct Schedule {
  std::string name;  // "fsdp2 full pre1 fwd1"
  Mesh mesh;
  int num_micro_batches = 1;
  std::vector<Stream> streams;              // stream 0 is the host
  std::vector<Communicator> communicators;  // all of a rank share its link
  std::vector<Segment> segments;
  std::vector<Unit> units;
  StateTensors optimizer_state = DefaultStateTensors();  // of each unit that has any
  std::vector<Program> programs;         // distinct programs; symmetric schedules have one
  std::vector<int32_t> program_of_rank;  // one entry a rank, index into programs
  bool operator==(const Schedule&) const = default;

  int num_ranks() const { return mesh.num_ranks(); }
  MeshDimensions DimensionsOf(CommunicatorIndex communicator) const {
    return communicators[static_cast<size_t>(communicator)].dimensions;
  }
  // Whether its groups are ranks that share the work of layers, and have the same samples.
  bool IsOfTensorRanks(CommunicatorIndex communicator) const {
    return DimensionsOf(communicator) == Only(MeshDimension::kTensor);
  }
  // Ranks of each of its groups.
  int GroupSize(CommunicatorIndex communicator) const {
    return plan::GroupSize(mesh, communicators[static_cast<size_t>(communicator)]);
  }
  const Program& ProgramOf(int rank) const {
    return programs[static_cast<size_t>(program_of_rank[static_cast<size_t>(rank)])];
  }
};

// Those that come together for one op: all ranks of a group, or a sender and its receiver.
struct Meeting {
  CommunicatorIndex communicator = kNone;
  int32_t group = 0;     // of the communicator
  int32_t from = kNone;  // place of the sender in its group; kNone: it is a collective
  int32_t to = kNone;
  auto operator<=>(const Meeting&) const = default;

  bool is_pair() const { return from != kNone; }
};
// Of an op that has a communicator, on `rank`.
Meeting MeetingOf(const Schedule& schedule, int32_t rank, const Op& op);
// Its ranks, ascending.
std::vector<int32_t> RanksOf(const Schedule& schedule, const Meeting& meeting);

// Where an op that has a communicator stands in queue: one waits for the one before it on its
// communicator, a send or receive for the one before it that has the same peer.
struct Queue {
  CommunicatorIndex communicator = kNone;
  int32_t peer = kNone;
  bool receives = false;
  auto operator<=>(const Queue&) const = default;
};
inline Queue QueueOf(const Op& op) {
  return {op.communicator, op.peer, op.kind == OpKind::kReceive};
}

// "B m0 block3 all_gather": phase, micro-batch, unit or segment, kind. For people and NVTX; may
// repeat, joins nothing.
std::string OpName(const Schedule& schedule, const Op& op);

// "F m0 block3 activation": what a send and its receive have in common.
std::string ExchangeName(const Schedule& schedule, const Op& op);

// "block3 m0 unsharded", "block3.mlp m0 activation".
std::string BufferName(const Schedule& schedule, const Buffer& buffer);

// The op whose end releases `dependency` of op `index`: the target itself, or for a stream wait the
// last op issued on that stream before `index`; kNone if nothing was issued there yet.
OpIndex ResolveDependency(const Program& program, OpIndex index, const Dependency& dependency);

// By op, what must have ended before it may start on its stream: explicit event and stream
// dependencies, the previous op of its stream, the previous op of its communicator or with its
// peer. Each sorted, without duplicates, without kNone. O(ops + dependencies).
std::vector<std::vector<OpIndex>> AllPredecessors(const Program& program);

}  // namespace shardscope::plan
