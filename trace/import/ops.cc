#include "trace/import/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

#include "trace/base/text.h"
#include "trace/import/pieces.h"
#include "trace/import/units.h"

namespace shardscope::imports {
namespace {

using words::BlockingKind;
using words::Category;
using words::OpKind;
using words::SpanCategory;
using words::TrackRole;

TrackRole RoleOf(std::string_view kind, Category category) {
  if (category == Category::kCopy) return TrackRole::kCopy;
  if (category != Category::kCommunication) return TrackRole::kCompute;
  if (kind == Name(OpKind::kSend)) return TrackRole::kSendActivation;
  if (kind == Name(OpKind::kReceive)) return TrackRole::kReceiveActivation;
  if (const auto role = words::ParseTrackRole(kind)) return *role;
  return TrackRole::kAllReduce;
}

// Puts pieces together to ops.
class Inferring {
 public:
  explicit Inferring(Recording* recording) : recording_(*recording) {}

  InferredOps Take(std::vector<Piece> pieces) {
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
      // All-to-alls and others of their kind stand where all-reduces do.
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
        if (op.kind == Name(OpKind::kAllGather)) {
          gather = run;
        } else if (op.kind == Name(OpKind::kCopyOut)) {
          follow(*run, gather);
          copy_out = run;
        } else if (op.kind == Name(OpKind::kReduceScatter) || op.kind == Name(OpKind::kAllReduce)) {
          follow(*run, backward);
          reduce = run;
        } else if (op.kind == Name(OpKind::kCopyIn) && op.phase == Phase::kBackward &&
                   gather == nullptr) {
          follow(*run, backward);
          backward = run;
        } else if (op.category == Category::kCompute) {
          follow(*run, copy_out);
          follow(*run, gather);
          if (op.phase == Phase::kBackward) backward = run;
        } else if (op.kind == Name(OpKind::kAccumulate) || op.category == Category::kOptimizer) {
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
  std::vector<Piece> pieces = FindPieces(recording, steps, launch_of_work);
  InferUnits(recording, &pieces);
  return Inferring(recording).Take(std::move(pieces));
}

}  // namespace shardscope::imports
