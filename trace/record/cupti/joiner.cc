#include "trace/record/cupti/joiner.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

namespace shardscope::cupti {
namespace {

// Calls and ops are kept this long behind the fence: a kernel may run, and its record be late, so
// long.
constexpr int64_t kKeepNs = 30'000'000'000;

// 32-bit correlation ids count up and wrap: `a` came before `b` if the shorter way leads forward.
bool Precedes(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

// What kernels and copies have in common.
template <typename Record>
Work WorkOf(const Record& record, WorkKind kind) {
  Work work;
  work.kind = kind;
  work.stream = record.stream;
  work.correlation = record.correlation;
  work.start_ns = record.start_ns;
  work.end_ns = record.end_ns;
  return work;
}

Work WorkOf(const Kernel& kernel) {
  Work work = WorkOf(kernel, WorkKind::kKernel);
  work.kernel = kernel;
  return work;
}

Work WorkOf(const Copy& copy) {
  Work work = WorkOf(copy, WorkKind::kCopy);
  work.copy = copy;
  return work;
}

auto OrderOf(const Work& work) {
  return std::tuple(work.start_ns, work.end_ns, work.stream, work.correlation, work.kind,
                    work.kernel.graph_node, work.copy.bytes);
}

}  // namespace

void Joiner::Add(const HostOp& op, int32_t rank) {
  ops_[op.thread].push_back({op, rank});
  op_works_[op.key].op = op.key;
  sorted_ = false;
}

void Joiner::AddCall(const ApiCall& call) {
  const auto [entry, is_new] =
      calls_.try_emplace(call.correlation, Call{call.start_ns, call.end_ns, call.thread});
  // A runtime call and the driver call in it may share the id.
  if (!is_new && call.start_ns < entry->second.start_ns) {
    entry->second = {call.start_ns, call.end_ns, call.thread};
  }
}

void Joiner::Add(const Batch& batch) {
  for (const ApiCall& call : batch.calls) AddCall(call);
  for (const Kernel& kernel : batch.kernels) works_.push_back(WorkOf(kernel));
  for (const Copy& copy : batch.copies) works_.push_back(WorkOf(copy));
  waits_.insert(waits_.end(), batch.waits.begin(), batch.waits.end());
  for (const EventRecord& record : batch.event_records) {
    if (record.recording != kNoRecording) recordings_[record.recording] = {record, last_fence_ns_};
  }
}

void Joiner::Sort() {
  if (sorted_) return;
  for (auto& [thread, ops] : ops_) {
    std::stable_sort(ops.begin(), ops.end(), [](const OpenOp& a, const OpenOp& b) {
      return std::tuple(a.op.start_ns, -a.op.end_ns, a.op.key) <
             std::tuple(b.op.start_ns, -b.op.end_ns, b.op.key);
    });
    int64_t latest_end_ns = 0;
    for (OpenOp& open : ops) {
      open.latest_end_ns = latest_end_ns = std::max(latest_end_ns, open.op.end_ns);
    }
  }
  sorted_ = true;
}

const Joiner::Call* Joiner::FindCall(const Work& work) const {
  auto call = calls_.find(work.correlation);
  if (call == calls_.end() && work.copy.runtime_correlation != 0) {
    call = calls_.find(work.copy.runtime_correlation);
  }
  return call == calls_.end() ? nullptr : &call->second;
}

const Joiner::OpenOp* Joiner::FindOp(const Call& call) const {
  const auto thread = ops_.find(call.thread);
  if (thread == ops_.end()) return nullptr;
  const std::vector<OpenOp>& ops = thread->second;
  auto after =
      std::upper_bound(ops.begin(), ops.end(), call.start_ns,
                       [](int64_t time, const OpenOp& open) { return time < open.op.start_ns; });
  // Innermost first: ops of a thread nest, so the latest that is still open is the one.
  while (after != ops.begin()) {
    --after;
    if (after->latest_end_ns <= call.start_ns) return nullptr;
    if (after->op.end_ns > call.start_ns) return &*after;
  }
  return nullptr;
}

Work Joiner::Join(Work work) {
  const auto owner = owners_.find(work.stream);
  if (owner != owners_.end()) work.rank = owner->second;
  if (!work.HasTimes()) ++counts_.without_times;
  const Call* call = FindCall(work);
  if (call == nullptr) {
    ++counts_.without_call;
    return work;
  }
  work.call_start_ns = call->start_ns;
  work.call_end_ns = call->end_ns;
  const OpenOp* op = FindOp(*call);
  if (op == nullptr) {
    ++counts_.without_op;
    return work;
  }
  work.op = op->op.key;
  if (op->rank != kNoRank) {
    if (work.rank != kNoRank && work.rank != op->rank) ++counts_.wrong_rank;
    if (work.rank == kNoRank) work.rank = op->rank;
  }
  return work;
}

void Joiner::TakeWorks(int64_t fence_ns, Joined& joined) {
  std::vector<Work> later;
  for (const Work& work : works_) {
    const Call* call = FindCall(work);
    const int64_t issued_ns = call == nullptr ? work.start_ns : call->start_ns;
    if (issued_ns < fence_ns) {
      joined.works.push_back(Join(work));
    } else {
      later.push_back(work);
    }
  }
  works_ = std::move(later);
  std::sort(joined.works.begin(), joined.works.end(),
            [](const Work& a, const Work& b) { return OrderOf(a) < OrderOf(b); });
  for (const Work& work : joined.works) {
    streams_[work.stream].push_back({work.correlation, work.op});
    const auto op = op_works_.find(work.op);
    if (op == op_works_.end()) continue;
    OpWork& sum = op->second;
    ++sum.num_works;
    if (!work.HasTimes()) continue;
    sum.start_ns = sum.start_ns == 0 ? work.start_ns : std::min(sum.start_ns, work.start_ns);
    sum.end_ns = std::max(sum.end_ns, work.end_ns);
  }
}

void Joiner::TakeOps(int64_t fence_ns, Joined& joined) {
  std::vector<const OpenOp*> done;
  for (const auto& [thread, ops] : ops_) {
    for (const OpenOp& open : ops) {
      if (open.op.end_ns < fence_ns && op_works_.count(open.op.key) > 0) done.push_back(&open);
    }
  }
  std::sort(done.begin(), done.end(), [](const OpenOp* a, const OpenOp* b) {
    return std::tuple(a->op.start_ns, a->op.key) < std::tuple(b->op.start_ns, b->op.key);
  });
  for (const OpenOp* open : done) {
    joined.ops.push_back(op_works_.at(open->op.key));
    op_works_.erase(open->op.key);
  }
}

void Joiner::TakeEdges(Joined& joined) const {
  std::set<Edge> edges;
  for (const Wait& wait : waits_) {
    if (wait.kind != WaitKind::kStreamWaitsForEvent || wait.recording == kNoRecording) continue;
    const auto recording = recordings_.find(wait.recording);
    if (recording == recordings_.end() || recording->second.record.stream == wait.stream) continue;
    const auto from = streams_.find(recording->second.record.stream);
    const auto to = streams_.find(wait.stream);
    if (from == streams_.end() || to == streams_.end()) continue;
    // Streams are in the order of their calls (see Take).
    const auto precedes = [](const StreamEvent& event, uint32_t correlation) {
      return Precedes(event.correlation, correlation);
    };
    const auto first =
        std::lower_bound(to->second.begin(), to->second.end(), wait.correlation, precedes);
    const auto after = std::lower_bound(from->second.begin(), from->second.end(),
                                        recording->second.record.correlation, precedes);
    if (first == to->second.end() || after == from->second.begin()) continue;
    const Edge edge = {std::prev(after)->op, first->op};
    if (edge.from_op != kNoOp && edge.to_op != kNoOp) edges.insert(edge);
  }
  joined.edges.assign(edges.begin(), edges.end());
}

void Joiner::Forget(int64_t fence_ns) {
  const int64_t horizon_ns = fence_ns < kKeepNs ? 0 : fence_ns - kKeepNs;
  std::erase_if(calls_, [&](const auto& entry) { return entry.second.start_ns < horizon_ns; });
  for (auto& [thread, ops] : ops_) {
    std::erase_if(ops, [&](const OpenOp& open) { return open.op.end_ns < horizon_ns; });
  }
  std::erase_if(waits_, [&](const Wait& wait) { return wait.start_ns < fence_ns; });
  std::erase_if(recordings_, [&](const auto& entry) { return entry.second.came_ns < horizon_ns; });
  for (auto& [stream, events] : streams_) {
    // The last work stays as the source of edges to come.
    if (events.size() > 1) events.erase(events.begin(), std::prev(events.end()));
  }
}

Joined Joiner::Take(int64_t fence_ns) {
  Sort();
  Joined joined;
  TakeWorks(fence_ns, joined);
  for (auto& [stream, events] : streams_) {
    std::stable_sort(events.begin(), events.end(), [](const StreamEvent& a, const StreamEvent& b) {
      return Precedes(a.correlation, b.correlation);
    });
  }
  TakeEdges(joined);
  TakeOps(fence_ns, joined);
  Forget(fence_ns);
  last_fence_ns_ = fence_ns;
  return joined;
}

}  // namespace shardscope::cupti
