#include "trace/import/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "trace/base/collective_names.h"
#include "trace/base/torch_range_names.h"

namespace shardscope::imports {
namespace {

using words::Category;
using words::OpKind;
using words::SpanCategory;

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
  const std::vector<HostContext> contexts = ContextsAt(recording, steps, moments);
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
    const std::vector<HostContext> contexts = ContextsAt(&recording_, steps_, moments);
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
      if (IsOfDistributed(name) || name.starts_with(torch_range_names::kFsdp2) ||
          name.starts_with(torch_range_names::kFsdp1)) {
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
  // Gloo carries out a reduce-scatter as an all-reduce, and under that name: the call is right.
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
      if (kind == Name(OpKind::kReduceScatter) || kind == Name(OpKind::kAllReduce))
        reduced.insert(unit);
    } else if (reduced.contains(unit)) {
      piece->context.action = HostAction::kAccumulate;
    }
  }
}

// Collectives belong to the backward that goes on; those of DDP to its buckets, in their order.
void FindBuckets(Recording* recording, std::vector<Piece>* pieces) {
  const bool is_ddp = recording->names.Has(torch_range_names::kDdpForward);
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
    if (KindOf(*piece, *recording) != Name(OpKind::kAllReduce)) continue;
    piece->context.unit = recording->names.Add(fmt::format("bucket {}", buckets[piece->step]++));
  }
}

}  // namespace

std::string KindOf(const Piece& piece, const Recording& recording) {
  switch (piece.category) {
    case Category::kCommunication:
      if (piece.collective >= 0) {
        const std::string& kind = recording.collectives[static_cast<size_t>(piece.collective)].kind;
        if (!kind.empty()) return kind;
      }
      return "collective";
    case Category::kOptimizer:
      return std::string(Name(OpKind::kOptimizer));
    case Category::kCopy:
      switch (piece.context.action) {
        case HostAction::kGather:
        case HostAction::kReduce:
          return std::string(Name(OpKind::kCopyIn));
        case HostAction::kCopyOut:
          return std::string(Name(OpKind::kCopyOut));
        case HostAction::kAccumulate:
          return std::string(Name(OpKind::kAccumulate));
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

std::vector<Piece> FindPieces(Recording* recording, const HostSteps& steps,
                              const std::vector<int32_t>& launch_of_work) {
  std::vector<Piece> pieces = recording->works.empty()
                                  ? PiecesOfHost(recording, steps).Take()
                                  : PiecesOfDevice(recording, steps, launch_of_work);
  FindAccumulates(*recording, &pieces);
  FindBuckets(recording, &pieces);
  return pieces;
}

}  // namespace shardscope::imports
