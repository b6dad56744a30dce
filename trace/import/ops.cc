#include "trace/import/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "trace/base/text.h"
#include "trace/import/host_context.h"
#include "trace/import/kineto/categories.h"

namespace shardscope::imports {
namespace {

using words::BlockingKind;
using words::Category;
using words::SpanCategory;
using words::TrackRole;

// A kernel or copy; without a device, an operator of the host, or a collective that one of its
// threads carries out.
struct Piece {
  int64_t issued_ns = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  HostContext context;
  uint32_t track = 0;
  int32_t step = -1;
  int32_t work = -1;        // index into Recording::works
  int32_t collective = -1;  // index into Recording::collectives
  Category category = Category::kCompute;
};

Category CategoryOf(SpanCategory category, Phase phase) {
  if (category == SpanCategory::kCommunication) return Category::kCommunication;
  if (category == SpanCategory::kCopy) return Category::kCopy;
  return phase == Phase::kOptimizer ? Category::kOptimizer : Category::kCompute;
}

std::vector<Piece> PiecesOfDevice(Recording* recording, const HostSteps& steps,
                                  const std::vector<int32_t>& launch_of_work) {
  std::vector<HostMoment> moments;
  std::vector<size_t> work_of_moment;
  std::vector<Piece> pieces;
  for (size_t at = 0; at < recording->works.size(); ++at) {
    const RecordedWork& work = recording->works[at];
    const int32_t launch = launch_of_work[at];
    const int64_t issued_ns =
        launch < 0 ? work.start_ns : recording->launches[static_cast<size_t>(launch)].start_ns;
    const auto step = static_cast<int32_t>(steps.IndexAt(issued_ns));
    if (step < 0) continue;
    if (launch >= 0) {
      moments.push_back({recording->launches[static_cast<size_t>(launch)].track, issued_ns});
      work_of_moment.push_back(pieces.size());
    }
    pieces.push_back({.issued_ns = issued_ns,
                      .start_ns = work.start_ns,
                      .end_ns = work.start_ns + work.duration_ns,
                      .context = {},
                      .track = work.track,
                      .step = step,
                      .work = static_cast<int32_t>(at),
                      .collective = work.collective,
                      .category = Category::kCompute});
  }
  const std::vector<HostContext> contexts = ContextsAt(recording, moments);
  for (size_t at = 0; at < contexts.size(); ++at) pieces[work_of_moment[at]].context = contexts[at];
  for (Piece& piece : pieces) {
    const SpanCategory category = recording->works[static_cast<size_t>(piece.work)].category;
    // Kernels that fill a collective's buffer or empty it are copies, whatever they are called.
    const bool is_copy =
        category == SpanCategory::kCompute && piece.context.action != HostAction::kCompute;
    piece.category = CategoryOf(is_copy ? SpanCategory::kCopy : category, piece.context.phase);
  }
  return pieces;
}

// Gloo's and MPI's threads mark what they carry out: "gloo:all_gather".
std::optional<std::string_view> CollectiveOfThread(std::string_view name) {
  for (const std::string_view prefix : {"gloo:", "mpi:", "ucc:"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return std::nullopt;
}

// Operators that call for a collective, or wait for one, but compute nothing.
bool IsOfDistributed(std::string_view name) {
  return name.starts_with("c10d::") || name == "record_param_comms" ||
         name.starts_with("_c10d_functional::") || name.starts_with("nccl:");
}

// A trace without a device: outermost operators are what the host computes, unless there are
// ranges of FSDP, or collectives, inside of them; then those within.
class PiecesOfHost {
 public:
  PiecesOfHost(Recording* recording, const HostSteps& steps)
      : recording_(*recording), steps_(steps) {}

  std::vector<Piece> Take() {
    FindHolders();
    std::vector<Call> calls;
    std::vector<int64_t> ends(recording_.tracks.size());  // of the operator that was taken last
    std::vector<HostMoment> moments;
    for (size_t at = 0; at < recording_.spans.size(); ++at) {
      const RecordedSpan& span = recording_.spans[at];
      const std::string& name = recording_.names[span.name];
      if (span.is_operator && name.starts_with(kCallPrefix))
        calls.push_back({{span.track, span.start_ns}, span.name});
      const auto collective = CollectiveOfThread(name);
      const bool computes = span.is_operator && !holds_[at] && !IsOfDistributed(name) &&
                            span.start_ns >= ends[span.track];
      if (!collective && !computes) continue;
      // What a thread does for a collective is part of it.
      ends[span.track] = std::max(ends[span.track], span.start_ns + span.duration_ns);
      const auto step = static_cast<int32_t>(steps_.IndexAt(span.start_ns));
      if (step < 0) continue;
      Piece piece;
      piece.issued_ns = piece.start_ns = span.start_ns;
      piece.end_ns = span.start_ns + span.duration_ns;
      piece.track = span.track;
      piece.step = step;
      if (collective) {
        piece.category = Category::kCommunication;
        piece.collective = AddCollective(*collective);
        carried_.push_back(pieces_.size());
      }
      moments.push_back({span.track, span.start_ns});
      pieces_.push_back(piece);
    }
    JoinCalls(calls, &moments);
    const std::vector<HostContext> contexts = ContextsAt(&recording_, moments);
    for (size_t at = 0; at < pieces_.size(); ++at) {
      Piece& piece = pieces_[at];
      piece.context = contexts[at];
      if (piece.category == Category::kCommunication) continue;
      const bool is_copy = piece.context.action != HostAction::kCompute;
      piece.category =
          CategoryOf(is_copy ? SpanCategory::kCopy : SpanCategory::kCompute, piece.context.phase);
    }
    return std::move(pieces_);
  }

 private:
  static constexpr std::string_view kCallPrefix = "c10d::";
  struct Call {
    HostMoment moment;
    Names::Index name = 0;
  };

  // Marks operators with a collective or a range of FSDP inside.
  void FindHolders() {
    holds_.assign(recording_.spans.size(), false);
    std::vector<std::vector<size_t>> open(recording_.tracks.size());
    for (size_t at = 0; at < recording_.spans.size(); ++at) {
      const RecordedSpan& span = recording_.spans[at];
      std::vector<size_t>& around = open[span.track];
      const auto has_ended = [&](size_t index) {
        const RecordedSpan& other = recording_.spans[index];
        return other.start_ns + other.duration_ns <= span.start_ns;
      };
      while (!around.empty() && has_ended(around.back())) around.pop_back();
      const std::string& name = recording_.names[span.name];
      if (IsOfDistributed(name) || name.starts_with("FSDP::") ||
          name.starts_with("FullyShardedDataParallel.")) {
        for (const size_t index : around) holds_[index] = true;
      }
      around.push_back(at);
    }
  }

  int32_t AddCollective(std::string_view kind) {
    RecordedCollective collective;
    collective.kind = kind;
    recording_.collectives.push_back(std::move(collective));
    return static_cast<int32_t>(recording_.collectives.size() - 1);
  }

  // The k-th collective that was carried out is the k-th that was called, if they are as many.
  // Gloo carries out a reduce-scatter as an all-reduce and says so: the call knows better.
  void JoinCalls(const std::vector<Call>& calls, std::vector<HostMoment>* moments) {
    if (calls.size() != carried_.size()) return;
    for (size_t at = 0; at < calls.size(); ++at) {
      Piece& piece = pieces_[carried_[at]];
      (*moments)[carried_[at]] = calls[at].moment;
      piece.issued_ns = std::min(calls[at].moment.time_ns, piece.start_ns);
      std::string_view call = recording_.names[calls[at].name];
      call.remove_prefix(kCallPrefix.size());
      while (call.ends_with('_')) call.remove_suffix(1);
      recording_.collectives[static_cast<size_t>(piece.collective)].kind = CollectiveKindOf(call);
      const int64_t step = steps_.IndexAt(piece.issued_ns);
      if (step >= 0) piece.step = static_cast<int32_t>(step);
    }
  }

  Recording& recording_;
  const HostSteps& steps_;
  std::vector<bool> holds_;
  std::vector<size_t> carried_;  // pieces that are collectives
  std::vector<Piece> pieces_;
};

std::string KindOf(const Piece& piece, const Recording& recording) {
  switch (piece.category) {
    case Category::kCommunication:
      if (piece.collective >= 0) {
        const std::string& kind = recording.collectives[static_cast<size_t>(piece.collective)].kind;
        if (!kind.empty()) return kind;
      }
      return "collective";
    case Category::kOptimizer:
      return std::string(Name(words::OpKind::kOptimizer));
    case Category::kCopy:
      switch (piece.context.action) {
        case HostAction::kGather:
        case HostAction::kReduce:
          return std::string(Name(words::OpKind::kCopyIn));
        case HostAction::kCopyOut:
          return std::string(Name(words::OpKind::kCopyOut));
        case HostAction::kAccumulate:
          return std::string(Name(words::OpKind::kAccumulate));
        case HostAction::kReshard:
        case HostAction::kCompute:
          return "copy";
      }
      return "copy";
    case Category::kCompute:
    case Category::kHost:
      return std::string(Name(piece.context.phase));
  }
  return "";
}

TrackRole RoleOf(std::string_view kind, Category category) {
  if (category == Category::kCopy) return TrackRole::kCopy;
  if (category != Category::kCommunication) return TrackRole::kCompute;
  if (kind == "send") return TrackRole::kSendActivation;
  if (kind == "receive") return TrackRole::kReceiveActivation;
  if (const auto role = words::ParseTrackRole(kind)) return *role;
  return TrackRole::kAllReduce;
}

// What is copied for a reduction once that has been asked for, is its result.
void FindAccumulates(const Recording& recording, std::vector<Piece>* pieces) {
  std::vector<Piece*> by_issue;
  for (Piece& piece : *pieces) {
    if (piece.context.action == HostAction::kReduce) by_issue.push_back(&piece);
  }
  std::stable_sort(by_issue.begin(), by_issue.end(),
                   [](const Piece* a, const Piece* b) { return a->issued_ns < b->issued_ns; });
  std::set<std::pair<Names::Index, int32_t>> reduced;  // units, and their steps
  for (Piece* const piece : by_issue) {
    const std::pair unit(piece->context.unit, piece->step);
    if (piece->category == Category::kCommunication) {
      const std::string kind = KindOf(*piece, recording);
      if (kind == "reduce_scatter" || kind == "all_reduce") reduced.insert(unit);
    } else if (reduced.contains(unit)) {
      piece->context.action = HostAction::kAccumulate;
    }
  }
}

// Collectives belong to the backward that goes on; those of DDP to its buckets, in their order.
void FindBuckets(Recording* recording, std::vector<Piece>* pieces) {
  const bool is_ddp = recording->names.Has("DistributedDataParallel.forward");
  std::vector<Piece*> by_issue;
  for (Piece& piece : *pieces) {
    if (piece.category == Category::kCommunication) by_issue.push_back(&piece);
  }
  std::stable_sort(by_issue.begin(), by_issue.end(),
                   [](const Piece* a, const Piece* b) { return a->issued_ns < b->issued_ns; });
  std::map<int32_t, int> buckets;  // by step
  for (Piece* const piece : by_issue) {
    piece->context.phase = piece->context.since;
    if (!is_ddp || piece->context.unit != 0 || piece->context.phase != Phase::kBackward) continue;
    if (KindOf(*piece, *recording) != "all_reduce") continue;
    piece->context.unit = recording->names.Add(fmt::format("bucket {}", buckets[piece->step]++));
  }
}

// Puts pieces together to ops.
class Inferring {
 public:
  explicit Inferring(Recording* recording) : recording_(*recording) {}

  InferredOps Take(std::vector<Piece> pieces) {
    FindAccumulates(recording_, &pieces);
    FindBuckets(&recording_, &pieces);
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
      return std::pair(a.start_ns, a.issued_ns) < std::pair(b.start_ns, b.issued_ns);
    });
    ops_.run_of_work.assign(recording_.works.size(), -1);
    last_of_track_.assign(recording_.tracks.size(), -1);
    computes_.assign(recording_.tracks.size(), false);
    for (const Piece& piece : pieces) {
      if (RoleOf(KindOf(piece, recording_), piece.category) == TrackRole::kCompute)
        computes_[piece.track] = true;
    }
    for (const Piece& piece : pieces) Add(piece);
    SortRuns();
    FindEdges();
    FindBlockers();
    SortLanes();
    return std::move(ops_);
  }

 private:
  // What makes pieces one op, beside its step.
  using OpKey = std::tuple<std::string, Names::Index, Phase>;

  void Add(const Piece& piece) {
    const std::string kind = KindOf(piece, recording_);
    const OpKey key(kind, piece.context.unit, piece.context.phase);
    int32_t& last = last_of_track_[piece.track];
    // A collective is one kernel.
    const bool goes_on =
        last >= 0 && piece.category != Category::kCommunication &&
        keys_[static_cast<size_t>(last)] == key &&
        ops_.runs[static_cast<size_t>(last)].step == piece.step &&
        piece.start_ns - ops_.runs[static_cast<size_t>(last)].ended_ns < SameOpNs(piece);
    if (!goes_on) {
      last = static_cast<int32_t>(ops_.runs.size());
      keys_.push_back(key);
      ops_.runs.push_back({.op = OpOf(key, piece),
                           .lane = LaneOf(piece, kind),
                           .step = piece.step,
                           .issued_ns = std::min(piece.issued_ns, piece.start_ns),
                           .ready_ns = piece.start_ns,
                           .started_ns = piece.start_ns,
                           .ended_ns = piece.end_ns,
                           .collective = piece.collective});
    }
    InferredRun& run = ops_.runs[static_cast<size_t>(last)];
    run.ended_ns = std::max(run.ended_ns, piece.end_ns);
    if (piece.work >= 0) ops_.run_of_work[static_cast<size_t>(piece.work)] = last;
  }

  int64_t SameOpNs(const Piece& piece) const {
    const bool on_host = !recording_.tracks[piece.track].IsOfDevice();
    return on_host && piece.category == Category::kCopy ? kSameHostCopyNs : kSameOpNs;
  }

  uint32_t LaneOf(const Piece& piece, const std::string& kind) {
    // A stream that computes and copies has both on one lane, as its work is in order. A thread
    // goes on behind its copies for a collective only once that is done: what it waits for stands
    // out.
    TrackRole role = RoleOf(kind, piece.category);
    if (role == TrackRole::kCopy && computes_[piece.track] &&
        recording_.tracks[piece.track].IsOfDevice()) {
      role = TrackRole::kCompute;
    }
    const auto [known, is_new] =
        lane_of_.try_emplace({role, piece.track}, static_cast<uint32_t>(ops_.lanes.size()));
    if (is_new) {
      // All-to-alls and their likes stand where all-reduces do.
      const std::string name = role == TrackRole::kAllReduce ? kind : std::string(Name(role));
      ops_.lanes.push_back({name, role, piece.track});
    }
    return known->second;
  }

  // One op for each time that something happens in a step.
  uint32_t OpOf(const OpKey& key, const Piece& piece) {
    const int32_t occurrence = ++occurrences_[{key, piece.step}];
    const auto [known, is_new] =
        op_of_.try_emplace({key, occurrence}, static_cast<uint32_t>(ops_.ops.size()));
    if (!is_new) return known->second;
    const auto& [kind, unit_name, phase] = key;
    const std::string& unit = recording_.names[unit_name];
    const char letter = phase == Phase::kForward ? 'F' : phase == Phase::kBackward ? 'B' : 'O';
    std::string name(1, letter);
    if (!unit.empty()) name += " " + unit;
    name += " " + kind;
    // Where a stretch of compute is interrupted differs from step to step: no number to go by.
    if (occurrence > 1 && piece.category == Category::kCommunication)
      name += fmt::format(" #{}", occurrence);
    ops_.ops.push_back({std::move(name), kind, unit, phase, piece.category, piece.collective});
    return known->second;
  }

  void SortRuns() {
    std::vector<int32_t> order(ops_.runs.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return ops_.runs[static_cast<size_t>(a)].started_ns <
             ops_.runs[static_cast<size_t>(b)].started_ns;
    });
    std::vector<int32_t> place(order.size());
    std::vector<InferredRun> sorted;
    sorted.reserve(order.size());
    for (const int32_t from : order) {
      place[static_cast<size_t>(from)] = static_cast<int32_t>(sorted.size());
      sorted.push_back(ops_.runs[static_cast<size_t>(from)]);
    }
    ops_.runs = std::move(sorted);
    for (int32_t& run : ops_.run_of_work) {
      if (run >= 0) run = place[static_cast<size_t>(run)];
    }
  }

  const InferredOp& OpOfRun(const InferredRun& run) const { return ops_.ops[run.op]; }

  // A unit's gather comes before its copy-out and before it computes; its reduction behind its
  // backward.
  void FindEdges() {
    std::map<std::pair<std::string, int32_t>, std::vector<const InferredRun*>> of_unit;
    for (const InferredRun& run : ops_.runs) {
      const InferredOp& op = OpOfRun(run);
      if (!op.unit.empty()) of_unit[{op.unit, run.step}].push_back(&run);
    }
    std::set<std::pair<uint32_t, uint32_t>> edges;
    for (const auto& [unit, runs] : of_unit) {
      const InferredRun* gather = nullptr;    // that nothing has read yet
      const InferredRun* copy_out = nullptr;  // likewise
      const InferredRun* backward = nullptr;
      const InferredRun* reduce = nullptr;
      const auto follow = [&](const InferredRun& waits, const InferredRun*& before) {
        if (before != nullptr && before->op != waits.op) edges.emplace(waits.op, before->op);
        before = nullptr;
      };
      for (const InferredRun* run : runs) {
        const InferredOp& op = OpOfRun(*run);
        if (op.kind == "all_gather") {
          gather = run;
        } else if (op.kind == "copy_out") {
          follow(*run, gather);
          copy_out = run;
        } else if (op.kind == "reduce_scatter" || op.kind == "all_reduce") {
          follow(*run, backward);
          reduce = run;
        } else if (op.kind == "copy_in" && op.phase == Phase::kBackward && gather == nullptr) {
          follow(*run, backward);
          backward = run;
        } else if (op.category == Category::kCompute) {
          follow(*run, copy_out);
          follow(*run, gather);
          if (op.phase == Phase::kBackward) backward = run;
        } else if (op.kind == "accumulate" || op.category == Category::kOptimizer) {
          follow(*run, reduce);
        }
      }
    }
    ops_.edges.assign(edges.begin(), edges.end());
  }

  // What held a run up: the op before it on its stream, what it depends on, or, if it began right
  // behind the end of a collective or copy of another stream, that.
  void FindBlockers() {
    std::vector<std::vector<uint32_t>> before(ops_.ops.size());
    for (const auto& [waits, awaited] : ops_.edges) before[waits].push_back(awaited);
    std::vector<int32_t> newest(ops_.ops.size(), -1);            // run by op
    std::vector<int32_t> last_on(recording_.tracks.size(), -1);  // run by track
    for (size_t at = 0; at < ops_.runs.size(); ++at) {
      InferredRun& run = ops_.runs[at];
      const uint32_t track = ops_.lanes[run.lane].track;
      const bool on_host = !recording_.tracks[track].IsOfDevice();
      const bool is_collective = OpOfRun(run).category == Category::kCommunication;
      const int32_t previous = last_on[track];
      const int64_t dry_ns = previous < 0 ? 0 : ops_.runs[static_cast<size_t>(previous)].ended_ns;
      // On a thread an op is asked for when the thread comes to it; before, it was waiting.
      if (on_host && previous >= 0 && ops_.runs[static_cast<size_t>(previous)].step == run.step &&
          !is_collective) {
        run.issued_ns = std::min(run.started_ns, dry_ns);
      }
      Blocker best;
      if (previous >= 0 && !(on_host && is_collective)) {
        best.Offer(dry_ns, previous, BlockingKind::kStreamOrder);
      }
      const BlockingKind wait = on_host ? BlockingKind::kHost : BlockingKind::kEvent;
      for (const uint32_t op : before[run.op]) {
        const int32_t index = newest[op];
        if (index < 0 || ops_.runs[static_cast<size_t>(index)].step != run.step) continue;
        best.Offer(std::min(ops_.runs[static_cast<size_t>(index)].ended_ns, run.started_ns), index,
                   wait);
      }
      if (run.started_ns - std::max(dry_ns, best.end_ns) >= kSameOpNs) {
        OfferEnded(run, dry_ns, wait, &best);
      }
      if (best.end_ns >= run.issued_ns) {
        run.ready_ns = std::min(best.end_ns, run.started_ns);
        run.blocker = best.run;
        run.blocking = best.kind;
      } else {
        run.ready_ns = run.issued_ns;
      }
      newest[run.op] = static_cast<int32_t>(at);
      if (previous < 0 || run.ended_ns >= dry_ns) last_on[track] = static_cast<int32_t>(at);
      if (is_collective) {
        recent_.emplace_back(run.ended_ns, static_cast<int32_t>(at));
      }
    }
  }

  struct Blocker {
    int64_t end_ns = -1;
    int32_t run = -1;
    BlockingKind kind = BlockingKind::kNone;

    void Offer(int64_t offered_ns, int32_t offered, BlockingKind offered_kind) {
      if (offered_ns <= end_ns) return;
      end_ns = offered_ns;
      run = offered;
      kind = offered_kind;
    }
  };

  // Collectives that ended shortly before this run began, and held it from when its stream ran dry.
  void OfferEnded(const InferredRun& run, int64_t dry_ns, BlockingKind kind, Blocker* best) {
    constexpr size_t kLooked = 16;
    const size_t first = recent_.size() > kLooked ? recent_.size() - kLooked : 0;
    for (size_t at = first; at < recent_.size(); ++at) {
      const auto& [end_ns, index] = recent_[at];
      if (end_ns <= run.started_ns && end_ns > run.started_ns - kBehindNs && end_ns > dry_ns) {
        best->Offer(end_ns, index, kind);
      }
    }
  }

  // Threads take turns at what is one after the other anyway: lanes of theirs that never overlap
  // are one.
  void JoinLanesOfThreads() {
    std::vector<int64_t> ends(ops_.lanes.size());
    std::vector<bool> overlaps(ops_.lanes.size());
    std::map<std::string, uint32_t> first;  // of the lanes of threads with that name
    std::vector<uint32_t> joined(ops_.lanes.size());
    for (uint32_t lane = 0; lane < ops_.lanes.size(); ++lane) {
      const bool on_host = !recording_.tracks[ops_.lanes[lane].track].IsOfDevice();
      joined[lane] = on_host ? first.try_emplace(ops_.lanes[lane].name, lane).first->second : lane;
    }
    for (const InferredRun& run : ops_.runs) {
      const uint32_t lane = joined[run.lane];
      if (run.started_ns < ends[lane]) overlaps[lane] = true;
      ends[lane] = std::max(ends[lane], run.ended_ns);
    }
    for (InferredRun& run : ops_.runs) {
      if (!overlaps[joined[run.lane]]) run.lane = joined[run.lane];
    }
  }

  // By role; of several with one role that with most work first, under the plain name.
  void SortLanes() {
    JoinLanesOfThreads();
    std::vector<int64_t> busy_ns(ops_.lanes.size(), -1);
    for (const InferredRun& run : ops_.runs) {
      busy_ns[run.lane] += run.ended_ns - run.started_ns + 1;
    }
    std::vector<uint32_t> order;
    for (uint32_t lane = 0; lane < ops_.lanes.size(); ++lane) {
      if (busy_ns[lane] >= 0) order.push_back(lane);
    }
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(ops_.lanes[a].role, -busy_ns[a]) <
             std::pair(ops_.lanes[b].role, -busy_ns[b]);
    });
    std::vector<uint32_t> place(ops_.lanes.size());
    std::vector<InferredLane> sorted;
    std::map<std::string, int> named;
    for (const uint32_t from : order) {
      place[from] = static_cast<uint32_t>(sorted.size());
      InferredLane lane = ops_.lanes[from];
      if (const int number = ++named[lane.name]; number > 1)
        lane.name += fmt::format(" {}", number);
      sorted.push_back(std::move(lane));
    }
    ops_.lanes = std::move(sorted);
    for (InferredRun& run : ops_.runs) run.lane = place[run.lane];
  }

  Recording& recording_;
  InferredOps ops_;
  std::vector<OpKey> keys_;             // by run
  std::vector<int32_t> last_of_track_;  // run by track
  std::vector<bool> computes_;          // by track
  std::map<std::pair<TrackRole, uint32_t>, uint32_t> lane_of_;
  std::map<std::pair<OpKey, int32_t>, int32_t> occurrences_;  // by key and step
  std::map<std::pair<OpKey, int32_t>, uint32_t> op_of_;       // by key and occurrence
  std::vector<std::pair<int64_t, int32_t>> recent_;           // end and run of collectives
};

}  // namespace

InferredOps InferOps(Recording* recording, const HostSteps& steps,
                     const std::vector<int32_t>& launch_of_work) {
  std::vector<Piece> pieces = recording->works.empty()
                                  ? PiecesOfHost(recording, steps).Take()
                                  : PiecesOfDevice(recording, steps, launch_of_work);
  return Inferring(recording).Take(std::move(pieces));
}

}  // namespace shardscope::imports
