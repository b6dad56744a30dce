#include "trace/record/cupti/joiner.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace shardscope::cupti {
namespace {

// Calls and ops are kept this long behind the fence: a kernel may run, and its record be late, so
// long.
constexpr int64_t kKeepNs = 30'000'000'000;
// So long behind the fence work waits for its call, and a wait of a stream for the work that
// follows.
constexpr int64_t kPatienceNs = 2'000'000'000;

int64_t Before(int64_t fence_ns, int64_t duration_ns) {
  if (fence_ns == kEnd) return kEnd;
  return fence_ns < duration_ns ? 0 : fence_ns - duration_ns;
}

// Moves what is before the fence from `rows` to `taken`, by time.
template <typename Row, typename TimeOf>
void TakeBefore(int64_t fence_ns, const TimeOf& time_of, std::vector<Row>& rows,
                std::vector<Row>& taken) {
  const auto later = std::stable_partition(rows.begin(), rows.end(), [&](const Row& row) {
    return std::get<0>(time_of(row)) < fence_ns;
  });
  taken.assign(rows.begin(), later);
  rows.erase(rows.begin(), later);
  std::stable_sort(taken.begin(), taken.end(),
                   [&](const Row& a, const Row& b) { return time_of(a) < time_of(b); });
}

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

void AddTo(const Work& work, OpWork& sum) {
  ++sum.num_works;
  if (!work.HasTimes()) return;
  sum.start_ns = sum.start_ns == 0 ? work.start_ns : std::min(sum.start_ns, work.start_ns);
  sum.end_ns = std::max(sum.end_ns, work.end_ns);
}

auto OrderOf(const Work& work) {
  return std::tuple(work.start_ns, work.end_ns, work.stream, work.correlation, work.kind,
                    work.kernel.graph_node, work.copy.bytes);
}

}  // namespace

void Joiner::Add(const HostOp& op, int32_t rank) {
  ops_[op.thread].push_back({op, rank});
  OpState& state = op_works_[op.key];
  state.work.op = op.key;
  state.ended_ns = std::max(state.ended_ns, op.end_ns);
  if (state.issuer == 0) state.issuer = op.thread;
  if (state.issuer == op.thread) {
    state.issued_until_ns = std::max(state.issued_until_ns, op.end_ns);
  }
  sorted_ = false;
}

void Joiner::AddCall(const ApiCall& call) {
  const auto [entry, is_new] = calls_.try_emplace(
      call.correlation, Call{call.start_ns, call.end_ns, call.thread, call.correlation});
  // A runtime call and the driver call in it may share the id, and one kernel.
  const bool is_launch_known = entry->second.launches;
  if (!is_new && call.start_ns < entry->second.start_ns) {
    entry->second = {call.start_ns, call.end_ns, call.thread, call.correlation};
  }
  entry->second.launches = is_launch_known || call.launches;
  int64_t& latest_ns = latest_call_[call.thread];
  latest_ns = std::max(latest_ns, call.start_ns);
  newest_ns_ = std::max(newest_ns_, call.start_ns);
  if (call.launches && !is_launch_known && early_works_.erase(call.correlation) == 0) {
    launches_[call.correlation] = {call.thread, call.start_ns};
  }
}

void Joiner::AddWork(const Work& work) {
  if (work.kind == WorkKind::kKernel && launches_.erase(work.correlation) == 0) {
    early_works_[work.correlation] = work.start_ns;
  }
  newest_ns_ = std::max(newest_ns_, work.end_ns);
  works_.push_back({work, newest_ns_});
}

void Joiner::Add(const Batch& batch) {
  for (const ApiCall& call : batch.calls) AddCall(call);
  for (const Kernel& kernel : batch.kernels) AddWork(WorkOf(kernel));
  for (const Copy& copy : batch.copies) AddWork(WorkOf(copy));
  for (const Wait& wait : batch.waits) {
    if (wait.kind == WaitKind::kStreamWaitsForEvent) {
      if (wait.recording != kNoRecording) waits_.push_back(wait);
    } else {
      host_waits_[wait.correlation] = wait.start_ns;
      if (wait.kind != WaitKind::kOther && wait.kind != WaitKind::kEvent)
        new_waits_.push_back(wait);
    }
  }
  new_calls_.insert(new_calls_.end(), batch.calls.begin(), batch.calls.end());
  memory_.insert(memory_.end(), batch.memory.begin(), batch.memory.end());
  overheads_.insert(overheads_.end(), batch.overheads.begin(), batch.overheads.end());
  for (const EventRecord& record : batch.event_records) {
    if (record.recording != kNoRecording) recordings_[record.recording] = {record, newest_ns_};
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
  work.correlation = call->correlation;
  work.call_start_ns = call->start_ns;
  work.call_end_ns = call->end_ns;
  work.call_thread = call->thread;
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
  std::vector<HeldWork> later;
  for (const HeldWork& held : works_) {
    const Work& work = held.work;
    const Call* call = FindCall(work);
    if (call == nullptr ? std::max(work.start_ns, held.came_ns) < Before(fence_ns, kPatienceNs)
                        : call->start_ns < fence_ns) {
      joined.works.push_back(Join(work));
    } else {
      later.push_back(held);
    }
  }
  works_ = std::move(later);
  std::sort(joined.works.begin(), joined.works.end(),
            [](const Work& a, const Work& b) { return OrderOf(a) < OrderOf(b); });
  for (const Work& work : joined.works) {
    streams_[work.stream].push_back(
        {work.correlation, work.op, work.call_start_ns == 0 ? work.start_ns : work.call_start_ns});
    const auto op = op_works_.find(work.op);
    if (op != op_works_.end()) AddTo(work, op->second.work);
  }
}

void Joiner::TakeOps(int64_t fence_ns, Joined& joined) {
  std::vector<std::pair<const OpenOp*, OpState*>> done;
  for (const auto& [thread, ops] : ops_) {
    for (const OpenOp& open : ops) {
      if (open.op.end_ns >= fence_ns) continue;
      const auto state = op_works_.find(open.op.key);
      if (state == op_works_.end() || state->second.taken) continue;
      state->second.taken = true;
      done.emplace_back(&open, &state->second);
    }
  }
  std::sort(done.begin(), done.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first->op.start_ns, a.first->op.key) <
           std::tuple(b.first->op.start_ns, b.first->op.key);
  });
  for (const auto& [open, state] : done) joined.ops.push_back(state->work);
}

void Joiner::TakeCalls(int64_t fence_ns, Joined& joined) {
  std::vector<ApiCall> calls;
  TakeBefore(
      fence_ns,
      [](const ApiCall& call) {
        return std::tuple(call.start_ns, call.thread, call.correlation, call.driver, call.callback);
      },
      new_calls_, calls);
  for (const ApiCall& call : calls) {
    JoinedCall joined_call = {call, kNoOp, kNoRank, host_waits_.contains(call.correlation)};
    if (const OpenOp* op = FindOp({call.start_ns, call.end_ns, call.thread, call.correlation})) {
      joined_call.op = op->op.key;
      joined_call.rank = op->rank;
    }
    joined.calls.push_back(joined_call);
  }
  TakeBefore(
      fence_ns,
      [](const Wait& wait) {
        return std::tuple(wait.start_ns, wait.end_ns, wait.kind, wait.stream, wait.correlation);
      },
      new_waits_, joined.host_waits);
  TakeBefore(
      fence_ns,
      [](const MemoryOperation& operation) {
        return std::tuple(operation.time_ns, operation.address, operation.bytes, operation.device);
      },
      memory_, joined.memory);
  TakeBefore(
      fence_ns,
      [](const Overhead& overhead) {
        return std::tuple(overhead.start_ns, overhead.end_ns, overhead.name);
      },
      overheads_, joined.overheads);
}

void Joiner::Forget(int64_t fence_ns) {
  const int64_t horizon_ns = Before(fence_ns, kKeepNs);
  std::erase_if(calls_, [&](const auto& entry) { return entry.second.start_ns < horizon_ns; });
  std::erase_if(host_waits_, [&](const auto& entry) { return entry.second < horizon_ns; });
  std::erase_if(launches_, [&](const auto& entry) { return entry.second.start_ns < horizon_ns; });
  std::erase_if(early_works_, [&](const auto& entry) { return entry.second < horizon_ns; });
  for (auto& [thread, ops] : ops_) {
    std::erase_if(ops, [&](const OpenOp& open) { return open.op.end_ns < horizon_ns; });
  }
  std::erase_if(op_works_, [&](const auto& entry) { return entry.second.ended_ns < horizon_ns; });
  std::erase_if(recordings_, [&](const auto& entry) { return entry.second.came_ns < horizon_ns; });
  const int64_t streams_ns = Before(fence_ns, 2 * kPatienceNs);
  for (auto& [stream, events] : streams_) {
    if (events.empty()) continue;
    // The last work stays as the source of edges to come.
    const auto last = std::prev(events.end());
    events.erase(events.begin(), std::find_if(events.begin(), last, [&](const StreamEvent& event) {
                   return event.issued_ns >= streams_ns;
                 }));
  }
}

bool Joiner::IsComplete(uint32_t thread, int64_t until_ns) const {
  const auto latest = latest_call_.find(thread);
  if (latest == latest_call_.end() || latest->second < until_ns) return false;
  return std::none_of(launches_.begin(), launches_.end(), [&](const auto& entry) {
    return entry.second.thread == thread && entry.second.start_ns < until_ns;
  });
}

bool Joiner::AreComplete(const std::vector<int64_t>& ops) const {
  std::map<uint32_t, int64_t> until;  // by thread
  for (const int64_t op : ops) {
    const auto state = op_works_.find(op);
    if (state == op_works_.end()) continue;
    int64_t& until_ns = until[state->second.issuer];
    until_ns = std::max(until_ns, state->second.issued_until_ns);
  }
  return std::all_of(until.begin(), until.end(),
                     [this](const auto& one) { return IsComplete(one.first, one.second); });
}

std::vector<OpWork> Joiner::Peek(const std::vector<int64_t>& ops) {
  Sort();
  std::unordered_map<int64_t, OpWork> found;
  for (const int64_t op : ops) {
    const auto state = op_works_.find(op);
    found[op] = state == op_works_.end() ? OpWork{op, 0, 0, 0} : state->second.work;
  }
  for (const HeldWork& held : works_) {
    const Work& work = held.work;
    const Call* call = FindCall(work);
    const OpenOp* op = call == nullptr ? nullptr : FindOp(*call);
    const auto wanted = op == nullptr ? found.end() : found.find(op->op.key);
    if (wanted != found.end()) AddTo(work, wanted->second);
  }
  std::vector<OpWork> result;
  result.reserve(ops.size());
  for (const int64_t op : ops) result.push_back(found.at(op));
  return result;
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
  TakeEdges(Before(fence_ns, kPatienceNs), joined);
  TakeCalls(fence_ns, joined);
  TakeOps(fence_ns, joined);
  Forget(fence_ns);
  return joined;
}

// A wait stays until the work after it is here, or it has waited long enough for that.
void Joiner::TakeEdges(int64_t old_ns, Joined& joined) {
  const auto precedes = [](const StreamEvent& event, uint32_t correlation) {
    return Precedes(event.correlation, correlation);
  };
  std::vector<Wait> later;
  for (const Wait& wait : waits_) {
    const bool is_old = wait.start_ns < old_ns;
    const auto recording = recordings_.find(wait.recording);
    if (recording == recordings_.end()) {
      if (is_old) ++counts_.without_event;
      if (!is_old) later.push_back(wait);
      continue;
    }
    const EventRecord& record = recording->second.record;
    if (record.stream == wait.stream) continue;
    Edge edge;
    edge.recording = wait.recording;
    edge.from = record.stream;
    edge.to = wait.stream;
    edge.recorded_ns = record.time_ns;
    edge.waited_ns = wait.start_ns;
    // Streams are in the order of their calls (see Take).
    const std::vector<StreamEvent>& to = streams_[wait.stream];
    const auto first = std::lower_bound(to.begin(), to.end(), wait.correlation, precedes);
    if (first == to.end() && !is_old) {
      later.push_back(wait);
      continue;
    }
    if (first != to.end()) {
      edge.to_op = first->op;
      edge.to_correlation = first->correlation;
    }
    const std::vector<StreamEvent>& from = streams_[record.stream];
    const auto after = std::lower_bound(from.begin(), from.end(), record.correlation, precedes);
    if (after != from.begin()) {
      edge.from_op = std::prev(after)->op;
      edge.from_correlation = std::prev(after)->correlation;
    }
    joined.edges.push_back(edge);
  }
  waits_ = std::move(later);
  std::sort(joined.edges.begin(), joined.edges.end(), [](const Edge& a, const Edge& b) {
    return std::tuple(a.waited_ns, a.recording, a.to) < std::tuple(b.waited_ns, b.recording, b.to);
  });
}

}  // namespace shardscope::cupti
