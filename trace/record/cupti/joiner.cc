#include "trace/record/cupti/joiner.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "trace/base/check.h"

namespace shardscope::cupti {
namespace {

// Calls and ops are kept this long: a copy may run, and a record be late, so long.
constexpr int64_t kKeepNs = 30'000'000'000;
// Of a launch without its kernel its op is kept: a collective may wait so long for another rank.
constexpr int64_t kKeepLateNs = 1'800'000'000'000;
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

// Puts `value` where it belongs among sorted ones: as a rule behind all. Returns its place.
template <typename Value, typename Less>
size_t InsertSorted(const Value& value, const Less& less, std::deque<Value>& sorted) {
  if (sorted.empty() || !less(value, sorted.back())) {
    sorted.push_back(value);
    return sorted.size() - 1;
  }
  const auto next = std::upper_bound(sorted.begin(), sorted.end(), value, less);
  const auto place = sorted.insert(next, value);
  return static_cast<size_t>(place - sorted.begin());
}

// The fence is the first after what came last.
template <typename Age>
void Stamp(int64_t fence_ns, std::deque<Age>& ages) {
  for (auto age = ages.rbegin(); age != ages.rend() && age->fence_ns == kEnd; ++age) {
    age->fence_ns = fence_ns;
  }
}

// Calls `forget` for what is older than the horizon.
template <typename Age, typename Forget>
void DropOlder(int64_t horizon_ns, const Forget& forget, std::deque<Age>& ages) {
  while (!ages.empty() && ages.front().fence_ns < horizon_ns) {
    forget(ages.front());
    ages.pop_front();
  }
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
  std::deque<OpenOp>& ops = ops_[op.thread];
  const auto precedes = [](const OpenOp& a, const OpenOp& b) {
    return std::tuple(a.op.start_ns, -a.op.end_ns, a.op.key) <
           std::tuple(b.op.start_ns, -b.op.end_ns, b.op.key);
  };
  for (size_t i = InsertSorted({op, rank}, precedes, ops); i < ops.size(); ++i) {
    const int64_t before_ns = i == 0 ? 0 : ops[i - 1].latest_end_ns;
    ops[i].latest_end_ns = std::max(before_ns, ops[i].op.end_ns);
  }
  new_ops_.push_back(op);
  const auto [entry, is_new] = op_works_.try_emplace(op.key);
  if (is_new) ages_.op_works.push_back({kEnd, op.key});
  OpState& state = entry->second;
  state.work.op = op.key;
  state.started_ns = is_new ? op.start_ns : std::min(state.started_ns, op.start_ns);
  if (state.issuer == 0) state.issuer = op.thread;
  if (state.issuer == op.thread) {
    state.issued_until_ns = std::max(state.issued_until_ns, op.end_ns);
  }
}

void Joiner::AddCall(const ApiCall& call) {
  const auto [entry, is_new] = calls_.try_emplace(
      call.correlation, Call{call.start_ns, call.end_ns, call.thread, call.correlation});
  if (is_new) ages_.calls.push_back({kEnd, call.correlation});
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

// Until it is taken. Its thread is what Peek() finds its op by.
void Joiner::Hold(Work work, const Call& call) {
  work.call_thread = call.thread;
  works_.emplace(call.start_ns, std::move(work));
}

void Joiner::AddWork(const Work& work) {
  if (work.kind == WorkKind::kKernel && launches_.erase(work.correlation) == 0) {
    early_works_[work.correlation] = work.start_ns;
    ages_.early_works.push_back({kEnd, work.correlation});
  }
  newest_ns_ = std::max(newest_ns_, work.end_ns);
  if (const Call* const call = FindCall(work)) {
    Hold(work, *call);
  } else {
    without_call_.push_back({work, newest_ns_});
  }
}

void Joiner::Add(const Batch& batch) {
  for (const ApiCall& call : batch.calls) AddCall(call);
  for (const Kernel& kernel : batch.kernels) AddWork(WorkOf(kernel));
  for (const Copy& copy : batch.copies) AddWork(WorkOf(copy));
  for (const Wait& wait : batch.waits) {
    if (wait.kind == WaitKind::kStreamWaitsForEvent) {
      if (wait.recording != kNoRecording) waits_.insert(wait);
    } else {
      host_waits_[wait.correlation] = wait.start_ns;
      ages_.host_waits.push_back({kEnd, wait.correlation});
      if (wait.kind != WaitKind::kOther && wait.kind != WaitKind::kEvent)
        new_waits_.push_back(wait);
    }
  }
  new_calls_.insert(batch.calls.begin(), batch.calls.end());
  memory_.insert(memory_.end(), batch.memory.begin(), batch.memory.end());
  overheads_.insert(overheads_.end(), batch.overheads.begin(), batch.overheads.end());
  for (const EventRecord& record : batch.event_records) {
    if (record.recording == kNoRecording) continue;
    recordings_[record.recording] = record;
    ages_.recordings.push_back({kEnd, record.recording});
  }
}

const Joiner::Call* Joiner::FindCall(const Work& work) const {
  auto call = calls_.find(work.correlation);
  if (call == calls_.end() && work.copy.runtime_correlation != 0) {
    call = calls_.find(work.copy.runtime_correlation);
  }
  if (call != calls_.end()) return &call->second;
  const auto late = late_launches_.find(work.correlation);
  return late == late_launches_.end() ? nullptr : &late->second.call;
}

const Joiner::OpenOp* Joiner::FindOp(uint32_t thread, int64_t start_ns) const {
  const auto of_thread = ops_.find(thread);
  if (of_thread == ops_.end()) return nullptr;
  const std::deque<OpenOp>& ops = of_thread->second;
  // As a rule it is one of the newest.
  size_t newest = 1;
  while (newest < ops.size() && ops[ops.size() - newest].op.start_ns > start_ns) newest *= 2;
  const auto from = ops.end() - static_cast<std::ptrdiff_t>(std::min(newest, ops.size()));
  auto after = std::upper_bound(from, ops.end(), start_ns, [](int64_t time, const OpenOp& open) {
    return time < open.op.start_ns;
  });
  // Innermost first: ops of a thread nest, so the latest that is still open is the one.
  while (after != ops.begin()) {
    --after;
    if (after->latest_end_ns <= start_ns) return nullptr;
    if (after->op.end_ns > start_ns) return &*after;
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
  int32_t rank = kNoRank;
  const auto late = late_launches_.find(work.correlation);
  if (late != late_launches_.end()) {
    work.op = late->second.op;
    rank = late->second.rank;
  } else if (const OpenOp* const op = FindOp(call->thread, call->start_ns)) {
    work.op = op->op.key;
    rank = op->rank;
  }
  if (work.op == kNoOp) ++counts_.without_op;
  if (work.rank == kNoRank) work.rank = rank;
  return work;
}

void Joiner::TakeWorks(int64_t fence_ns, Joined& joined) {
  std::vector<HeldWork> later;
  for (const HeldWork& held : without_call_) {
    if (const Call* const call = FindCall(held.work)) {
      Hold(held.work, *call);
    } else if (std::max(held.work.start_ns, held.came_ns) < Before(fence_ns, kPatienceNs)) {
      joined.works.push_back(Join(held.work));
    } else {
      later.push_back(held);
    }
  }
  without_call_ = std::move(later);
  const auto end = works_.lower_bound(fence_ns);
  for (auto work = works_.begin(); work != end; ++work) joined.works.push_back(Join(work->second));
  works_.erase(works_.begin(), end);
  std::sort(joined.works.begin(), joined.works.end(),
            [](const Work& a, const Work& b) { return OrderOf(a) < OrderOf(b); });
  // In the order of their calls.
  const auto precedes = [](const StreamEvent& a, const StreamEvent& b) {
    return Precedes(a.correlation, b.correlation);
  };
  for (const Work& work : joined.works) {
    const int64_t issued_ns = work.call_start_ns == 0 ? work.start_ns : work.call_start_ns;
    InsertSorted({work.correlation, work.op, issued_ns}, precedes, streams_[work.stream]);
    const auto op = op_works_.find(work.op);
    if (op != op_works_.end()) AddTo(work, op->second.work);
  }
}

void Joiner::TakeOps(int64_t fence_ns, Joined& joined) {
  std::vector<HostOp> ended;
  TakeBefore(
      fence_ns, [](const HostOp& op) { return std::tuple(op.end_ns, op.start_ns, op.key); },
      new_ops_, ended);
  std::sort(ended.begin(), ended.end(), [](const HostOp& a, const HostOp& b) {
    return std::tuple(a.start_ns, a.key) < std::tuple(b.start_ns, b.key);
  });
  for (const HostOp& op : ended) {
    const auto state = op_works_.find(op.key);
    if (state == op_works_.end() || state->second.taken) continue;
    state->second.taken = true;
    joined.ops.push_back(state->second.work);
  }
}

void Joiner::TakeCalls(int64_t fence_ns, Joined& joined) {
  auto next = new_calls_.begin();
  for (; next != new_calls_.end() && next->start_ns < fence_ns; ++next) {
    const ApiCall& call = *next;
    JoinedCall joined_call = {call, kNoOp, kNoRank, host_waits_.contains(call.correlation)};
    if (const OpenOp* op = FindOp(call.thread, call.start_ns)) {
      joined_call.op = op->op.key;
      joined_call.rank = op->rank;
    }
    joined.calls.push_back(joined_call);
  }
  new_calls_.erase(new_calls_.begin(), next);
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
  for (auto* ages : {&ages_.calls, &ages_.host_waits, &ages_.early_works, &ages_.late_launches}) {
    Stamp(fence_ns, *ages);
  }
  Stamp(fence_ns, ages_.recordings);
  Stamp(fence_ns, ages_.op_works);
  const int64_t horizon_ns = Before(fence_ns, kKeepNs);
  DropOlder(
      horizon_ns,
      [this](const Age<uint32_t>& old) {
        MakeLate(old.key);
        calls_.erase(old.key);
      },
      ages_.calls);
  DropOlder(
      Before(fence_ns, kKeepLateNs),
      [this](const Age<uint32_t>& old) { late_launches_.erase(old.key); }, ages_.late_launches);
  DropOlder(
      horizon_ns, [this](const Age<uint32_t>& old) { host_waits_.erase(old.key); },
      ages_.host_waits);
  DropOlder(
      horizon_ns, [this](const Age<uint32_t>& old) { early_works_.erase(old.key); },
      ages_.early_works);
  DropOlder(
      horizon_ns, [this](const Age<uint64_t>& old) { recordings_.erase(old.key); },
      ages_.recordings);
  DropOlder(
      horizon_ns, [this](const Age<int64_t>& old) { op_works_.erase(old.key); }, ages_.op_works);
  for (auto& [thread, ops] : ops_) {
    while (!ops.empty() && ops.front().latest_end_ns < horizon_ns) ops.pop_front();
  }
  const int64_t streams_ns = Before(fence_ns, 2 * kPatienceNs);
  for (auto& [stream, events] : streams_) {
    // The last work stays as the source of edges to come.
    while (events.size() > 1 && events.front().issued_ns < streams_ns) events.pop_front();
  }
}

void Joiner::MakeLate(uint32_t correlation) {
  const auto call = calls_.find(correlation);
  if (call == calls_.end() || launches_.erase(correlation) == 0) return;
  LateLaunch late{.call = call->second};
  if (const OpenOp* const op = FindOp(call->second.thread, call->second.start_ns)) {
    late.op = op->op.key;
    late.rank = op->rank;
  }
  if (late_launches_.emplace(correlation, late).second) {
    ages_.late_launches.push_back({kEnd, correlation});
  }
}

void Joiner::StopWaiting(uint32_t thread, int64_t until_ns) {
  std::vector<uint32_t> late;
  for (const auto& [correlation, launch] : launches_) {
    if (launch.thread == thread && launch.start_ns < until_ns) late.push_back(correlation);
  }
  for (const uint32_t correlation : late) MakeLate(correlation);
}

bool Joiner::IsComplete(uint32_t thread, int64_t until_ns) const {
  const auto latest = latest_call_.find(thread);
  if (latest == latest_call_.end() || latest->second < until_ns) return false;
  return std::none_of(launches_.begin(), launches_.end(), [&](const auto& entry) {
    return entry.second.thread == thread && entry.second.start_ns < until_ns;
  });
}

// Calls visit(place in ops, its state) for each that is known. Ops of a step stand together.
template <typename Visit>
void Joiner::ForEachState(const std::vector<int64_t>& ops, const Visit& visit) const {
  auto state = op_works_.end();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (state == op_works_.end() || state->first != ops[i]) state = op_works_.find(ops[i]);
    if (state == op_works_.end()) continue;
    visit(i, state->second);
    ++state;
  }
}

bool Joiner::AreComplete(const std::vector<int64_t>& ops) const {
  std::map<uint32_t, int64_t> until;  // by thread
  ForEachState(ops, [&](size_t, const OpState& state) {
    int64_t& until_ns = until[state.issuer];
    until_ns = std::max(until_ns, state.issued_until_ns);
  });
  return std::all_of(until.begin(), until.end(),
                     [this](const auto& one) { return IsComplete(one.first, one.second); });
}

std::vector<OpWork> Joiner::Peek(const std::vector<int64_t>& ops) {
  SHARDSCOPE_CHECK(std::ranges::adjacent_find(ops, std::ranges::greater_equal()) == ops.end());
  std::vector<OpWork> result(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) result[i].op = ops[i];
  int64_t earliest_ns = kEnd;
  ForEachState(ops, [&](size_t i, const OpState& state) {
    result[i] = state.work;
    earliest_ns = std::min(earliest_ns, state.started_ns);
  });
  const auto add = [&](const Work& work, uint32_t thread, int64_t start_ns) {
    const OpenOp* const op = FindOp(thread, start_ns);
    if (op == nullptr) return;
    const auto wanted = std::lower_bound(ops.begin(), ops.end(), op->op.key);
    if (wanted == ops.end() || *wanted != op->op.key) return;
    AddTo(work, result[static_cast<size_t>(wanted - ops.begin())]);
  };
  // No call of an op began before the op.
  for (auto work = works_.lower_bound(earliest_ns); work != works_.end(); ++work) {
    add(work->second, work->second.call_thread, work->first);
  }
  for (const HeldWork& held : without_call_) {
    const Call* const call = FindCall(held.work);
    if (call != nullptr) add(held.work, call->thread, call->start_ns);
  }
  return result;
}

Joined Joiner::Take(int64_t fence_ns) {
  Joined joined;
  TakeWorks(fence_ns, joined);
  TakeEdges(fence_ns, joined);
  TakeCalls(fence_ns, joined);
  TakeOps(fence_ns, joined);
  Forget(fence_ns);
  return joined;
}

// A wait stays until the work after it is here, or it has waited long enough for that.
void Joiner::TakeEdges(int64_t fence_ns, Joined& joined) {
  const int64_t old_ns = Before(fence_ns, kPatienceNs);
  const auto precedes = [](const StreamEvent& event, uint32_t correlation) {
    return Precedes(event.correlation, correlation);
  };
  std::vector<Wait> later;
  // What follows a later wait has not been taken either.
  auto next = waits_.begin();
  for (; next != waits_.end() && next->start_ns < fence_ns; ++next) {
    const Wait& wait = *next;
    const bool is_old = wait.start_ns < old_ns;
    const auto recording = recordings_.find(wait.recording);
    if (recording == recordings_.end()) {
      if (is_old) ++counts_.without_event;
      if (!is_old) later.push_back(wait);
      continue;
    }
    const EventRecord& record = recording->second;
    if (record.stream == wait.stream) continue;
    Edge edge;
    edge.recording = wait.recording;
    edge.from = record.stream;
    edge.to = wait.stream;
    edge.recorded_ns = record.time_ns;
    edge.waited_ns = wait.start_ns;
    const std::deque<StreamEvent>& to = streams_[wait.stream];
    const auto first = std::lower_bound(to.begin(), to.end(), wait.correlation, precedes);
    if (first == to.end() && !is_old) {
      later.push_back(wait);
      continue;
    }
    if (first != to.end()) {
      edge.to_op = first->op;
      edge.to_correlation = first->correlation;
    }
    const std::deque<StreamEvent>& from = streams_[record.stream];
    const auto after = std::lower_bound(from.begin(), from.end(), record.correlation, precedes);
    if (after != from.begin()) {
      edge.from_op = std::prev(after)->op;
      edge.from_correlation = std::prev(after)->correlation;
    }
    joined.edges.push_back(edge);
  }
  waits_.erase(waits_.begin(), next);
  waits_.insert(later.begin(), later.end());
  std::sort(joined.edges.begin(), joined.edges.end(), [](const Edge& a, const Edge& b) {
    return std::tuple(a.waited_ns, a.recording, a.to) < std::tuple(b.waited_ns, b.recording, b.to);
  });
}

}  // namespace shardscope::cupti
