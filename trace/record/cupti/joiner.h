// Joiner: which op each piece of GPU work belongs to.
//
// Records come in no order, so nothing is joined before the owner declares that all of a time is
// there (a fence); work whose call is still missing then waits a little longer. The join is by
// fact, never by name:
//   work -> call    by correlation id; a copy may have only the runtime call's
//   call -> op      the innermost op of the same thread that was open when the call started
//   work -> rank    the owner of its stream
//   wait -> record  by the id of the one recording that was waited for, so a re-recorded event is
//                   never taken for its earlier self
// The same records in any order and any split into batches give the same result.
//
// A training makes a hundred thousand records a second and its host thread may wait for them, so
// each costs the same however many came before: nothing is gone through again and again, and what
// is too old is forgotten from the front of queues.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "trace/record/cupti/activity.h"

namespace shardscope::cupti {

inline constexpr int64_t kNoOp = -1;
inline constexpr int32_t kNoRank = -1;

enum class WorkKind : uint8_t { kKernel, kCopy };

// A kernel or copy with all that is known about it.
struct Work {
  WorkKind kind = WorkKind::kKernel;
  Kernel kernel;  // if it is one
  Copy copy;      // if it is one
  StreamId stream;
  uint32_t correlation = 0;  // once joined that of its call, which a copy may have as another
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t op = kNoOp;
  int32_t rank = kNoRank;
  int64_t call_start_ns = 0;  // 0: its call was not recorded
  int64_t call_end_ns = 0;
  uint32_t call_thread = 0;

  bool HasTimes() const { return start_ns > 0 && end_ns >= start_ns; }
};

// A call with the op that made it.
struct JoinedCall {
  ApiCall call;
  int64_t op = kNoOp;
  int32_t rank = kNoRank;
  bool waits = false;  // the host waited for the GPU in it
};

// When the GPU worked for an op: from its first work's start to its last work's end.
struct OpWork {
  int64_t op = kNoOp;
  int64_t start_ns = 0;  // 0: the GPU did nothing for it, or its times were lost
  int64_t end_ns = 0;
  int32_t num_works = 0;
};

// A stream waited for an event of another: the last work before the record, and the first after the
// wait, with their ops.
struct Edge {
  int64_t from_op = kNoOp;
  int64_t to_op = kNoOp;
  uint64_t recording = 0;
  StreamId from;
  StreamId to;
  int64_t from_correlation = -1;  // -1: there was no such work
  int64_t to_correlation = -1;
  int64_t recorded_ns = 0;  // on the device; 0: not known
  int64_t waited_ns = 0;    // of the host's call
};

struct Joined {
  std::vector<Work> works;        // by start, stream, correlation
  std::vector<OpWork> ops;        // in the order of their issue
  std::vector<Edge> edges;        // by time; those within one stream are left out
  std::vector<JoinedCall> calls;  // by time, as what follows
  std::vector<Wait> host_waits;   // of the host for a stream or a context
  std::vector<MemoryOperation> memory;
  std::vector<Overhead> overheads;
};

struct JoinCounts {
  int64_t without_call = 0;   // work whose call was not recorded
  int64_t without_op = 0;     // work that no op issued
  int64_t without_times = 0;  // work whose times CUPTI lost
  int64_t without_event = 0;  // waits for an event whose record is missing
};

// The fence of the end: all there is, also what waits.
inline constexpr int64_t kEnd = INT64_MAX;

// One thread.
class Joiner {
 public:
  void SetOwner(StreamId stream, int32_t rank) { owners_[stream] = rank; }
  void Add(const HostOp& op, int32_t rank = kNoRank);
  void Add(const Batch& batch);

  // Joins all ops that ended before `fence_ns` and all work whose call started before it. The
  // caller has found that their records are there; what comes later all the same joins with the
  // next fence.
  Joined Take(int64_t fence_ns);

  // Whether all that `thread` issued before `until_ns` is here: a later call of it has come, and
  // every launch before has its kernel.
  bool IsComplete(uint32_t thread, int64_t until_ns) const;
  // The same of each of these ops (strictly ascending), on the thread that issued it (for its rank,
  // or for another).
  bool AreComplete(const std::vector<int64_t>& ops) const;
  // What `thread` launched before `until_ns` and has no kernel yet is late: it is complete without.
  void StopWaiting(uint32_t thread, int64_t until_ns);
  // What is known of these ops (strictly ascending) now, in their order; of what was taken lately
  // too.
  std::vector<OpWork> Peek(const std::vector<int64_t>& ops);

  const JoinCounts& counts() const { return counts_; }

 private:
  struct OpenOp {
    HostOp op;
    int32_t rank = kNoRank;
    int64_t latest_end_ns = 0;  // of this op and all before it
  };
  struct Call {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    uint32_t thread = 0;
    uint32_t correlation = 0;
    bool launches = false;  // or a call that shares the id does
  };
  // What happened on a stream, in the order of its calls.
  struct StreamEvent {
    uint32_t correlation = 0;
    int64_t op = kNoOp;
    int64_t issued_ns = 0;
  };

  struct OpState {
    OpWork work;
    bool taken = false;
    int64_t started_ns = 0;  // of its issue
    uint32_t issuer = 0;     // thread that told it first: of nested ones the inner, which issued
    int64_t issued_until_ns = 0;  // by the issuer
  };
  struct HeldWork {
    Work work;
    int64_t came_ns = 0;  // the newest time that was known when it came
  };
  struct Launch {
    uint32_t thread = 0;
    int64_t start_ns = 0;
  };
  // A launch whose kernel is not waited for any more, and that may come all the same.
  struct LateLaunch {
    Call call;
    int64_t op = kNoOp;
    int32_t rank = kNoRank;
  };
  // Threads have buffers of their own, so that what comes is in order only within each.
  struct InTime {
    bool operator()(const Wait& a, const Wait& b) const { return a.start_ns < b.start_ns; }
    bool operator()(const ApiCall& a, const ApiCall& b) const {
      return std::tie(a.start_ns, a.thread, a.correlation, a.driver, a.callback) <
             std::tie(b.start_ns, b.thread, b.correlation, b.driver, b.callback);
    }
  };
  // By the first fence after they came: in their order, whatever times they have.
  template <typename Key>
  struct Age {
    int64_t fence_ns = kEnd;  // kEnd: it has not come
    Key key = 0;
  };
  template <typename Key>
  using Ages = std::deque<Age<Key>>;
  // How old what the maps of these names hold is.
  struct AgesOfMaps {
    Ages<uint32_t> calls;
    Ages<uint32_t> host_waits;
    Ages<uint32_t> early_works;
    Ages<uint32_t> late_launches;
    Ages<uint64_t> recordings;
    Ages<int64_t> op_works;
  };

  void AddCall(const ApiCall& call);
  void AddWork(const Work& work);
  void Hold(Work work, const Call& call);
  const Call* FindCall(const Work& work) const;
  // The innermost of `thread` that was open then.
  const OpenOp* FindOp(uint32_t thread, int64_t start_ns) const;
  Work Join(Work work);
  void TakeWorks(int64_t fence_ns, Joined& joined);
  void TakeOps(int64_t fence_ns, Joined& joined);
  void TakeEdges(int64_t fence_ns, Joined& joined);
  void TakeCalls(int64_t fence_ns, Joined& joined);
  void Forget(int64_t fence_ns);
  void MakeLate(uint32_t correlation);
  template <typename Visit>
  void ForEachState(const std::vector<int64_t>& ops, const Visit& visit) const;

  std::map<StreamId, int32_t> owners_;
  std::unordered_map<uint32_t, Call> calls_;    // by correlation; the outer one, if two share it
  std::map<uint32_t, std::deque<OpenOp>> ops_;  // by thread; by start, outer ones first
  std::vector<HostOp> new_ops_;                 // not taken
  std::multimap<int64_t, Work> works_;          // not taken, by the start of their calls
  std::vector<HeldWork> without_call_;          // not taken, whose call has not come
  int64_t newest_ns_ = 0;                       // of all records
  std::multiset<Wait, InTime> waits_;           // of streams, by time
  std::unordered_map<uint32_t, int64_t> host_waits_;  // start by correlation
  std::multiset<ApiCall, InTime> new_calls_;          // by time; not taken, as the next three
  std::vector<Wait> new_waits_;                       // of the host, for all of a stream or context
  std::vector<MemoryOperation> memory_;
  std::vector<Overhead> overheads_;
  std::map<uint64_t, EventRecord> recordings_;
  std::map<int64_t, OpState> op_works_;
  // By correlation: launches whose kernels have not come, and kernels whose launches have not.
  std::unordered_map<uint32_t, Launch> launches_;
  std::unordered_map<uint32_t, int64_t> early_works_;  // their starts
  std::unordered_map<uint32_t, int64_t> latest_call_;  // by thread
  std::map<StreamId, std::deque<StreamEvent>> streams_;
  std::unordered_map<uint32_t, LateLaunch> late_launches_;  // by correlation
  AgesOfMaps ages_;
  JoinCounts counts_;
};

}  // namespace shardscope::cupti
