#include "trace/analysis/find/search.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "trace/analysis/moment/moment.h"
#include "trace/analysis/names.h"
#include "trace/analysis/op_share.h"
#include "trace/base/interval.h"
#include "trace/base/letter_case.h"
#include "trace/base/parallel.h"
#include "trace/base/text.h"
#include "trace/query/has_ended.h"
#include "trace/query/step_times.h"

namespace shardscope::analysis {
namespace {

using query::PlanOpId;
using query::RankRows;
using query::Snapshot;

constexpr size_t kRowsBetweenStops = 4096;  // at whether the search is still wanted

bool ContainsAll(const std::string& name, const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return Contains(name, text); });
}

// Each of `asked` is one of `words`.
bool AreAmong(const std::vector<std::string>& asked,
              std::initializer_list<std::string_view> words) {
  return std::all_of(asked.begin(), asked.end(), [&](const std::string& kind) {
    return std::find(words.begin(), words.end(), kind) != words.end();
  });
}

std::string NameOfMarker(const query::Marker& marker) {
  std::string name = marker.key.empty() ? marker.kind : marker.key;
  if (!marker.old_value.empty()) name += ": " + marker.old_value + " \xE2\x86\x92";
  if (!marker.new_value.empty()) name += (marker.old_value.empty() ? ": " : " ") + marker.new_value;
  return name;
}

// Adds up what is found, and keeps the first of it.
class Collector {
 public:
  explicit Collector(size_t most_hits) : most_hits_(most_hits) {}

  void Add(const SearchHit& hit) {
    ++result_.count;
    const int64_t duration_ns = hit.end_ns - hit.start_ns;
    result_.longest_ns = std::max(result_.longest_ns, duration_ns);
    if (hit.what != HitKind::kMarker && hit.has_end) {
      result_.sum_ns += duration_ns;
      durations_.push_back(static_cast<double>(duration_ns));
    }
    const bool is_late = last_kept_ && !IsBefore(hit, *last_kept_);
    if (most_hits_ == 0 || is_late) return;
    result_.hits.push_back(hit);
    if (result_.hits.size() >= 2 * most_hits_) DropLast();
  }

  // Of `other` nothing stays: millions of durations take memory.
  void Add(Collector* other) {
    result_.count += other->result_.count;
    result_.sum_ns += other->result_.sum_ns;
    result_.longest_ns = std::max(result_.longest_ns, other->result_.longest_ns);
    result_.hits.insert(result_.hits.end(), other->result_.hits.begin(), other->result_.hits.end());
    durations_.insert(durations_.end(), other->durations_.begin(), other->durations_.end());
    other->durations_ = {};
    DropLast();
  }

  SearchResult Take() {
    DropLast();
    std::sort(result_.hits.begin(), result_.hits.end(), IsBefore);
    result_.duration_ns = PercentilesOf(std::move(durations_));
    return std::move(result_);
  }

 private:
  void DropLast() {
    std::vector<SearchHit>& hits = result_.hits;
    if (hits.size() <= most_hits_) return;
    const auto end = hits.begin() + static_cast<std::ptrdiff_t>(most_hits_);
    std::nth_element(hits.begin(), end, hits.end(), IsBefore);
    hits.erase(end, hits.end());
    if (most_hits_ > 0) last_kept_ = *std::max_element(hits.begin(), hits.end(), IsBefore);
  }

  const size_t most_hits_;
  SearchResult result_;
  std::optional<SearchHit> last_kept_;  // of as many as are kept: no later one will be
  std::vector<double> durations_;
};

// When a rank computed, to tell what of its communication nothing hides.
class Cover {
 public:
  Cover() = default;
  // `open_end`: more may come, so that nothing is known behind the last of them.
  Cover(std::vector<Interval> computed, bool open_end)
      : computed_(Union(std::move(computed))), open_end_(open_end) {}

  // Quick where calls come nearly in the order of their starts.
  bool Hides(int64_t start_ns, int64_t end_ns) {
    if (open_end_) end_ns = std::min(end_ns, computed_.empty() ? 0 : computed_.back().end_ns);
    if (end_ns <= start_ns) return true;
    while (next_ > 0 && computed_[next_ - 1].end_ns > start_ns) --next_;
    while (next_ < computed_.size() && computed_[next_].end_ns <= start_ns) ++next_;
    return next_ < computed_.size() && computed_[next_].start_ns <= start_ns &&
           computed_[next_].end_ns >= end_ns;
  }

 private:
  std::vector<Interval> computed_;
  bool open_end_ = false;
  size_t next_ = 0;  // the first that ended after what was asked for last began
};

// What the query makes of an op of the Schedule.
struct SearchedOp {
  OpShare share = OpShare::kNone;
  bool of_unit = false;  // that was asked for
  bool chosen = false;   // its runs are hits, if their times are
};

class Searcher {
 public:
  Searcher(const Snapshot& snapshot, const SearchQuery& query, const SearchOptions& options)
      : snapshot_(snapshot), query_(query), stop_(options.stop), found_(options.most_hits) {}

  SearchResult Run(size_t rows_a_thread) {
    ChooseOps();
    std::vector<Searcher> others(NumThreads(rows_a_thread) - 1, *this);
    const size_t num_threads = others.size() + 1;
    ForEachIndex(num_threads, [&](size_t i) {
      Searcher& searcher = i == 0 ? *this : others[i - 1];
      searcher.SearchRanks(i, num_threads);
    });
    for (Searcher& other : others) found_.Add(&other.found_);
    SearchMarkers();
    if (stop_.stop_requested()) {
      SearchResult stopped;
      stopped.stopped = true;
      return stopped;
    }
    return found_.Take();
  }

 private:
  size_t NumThreads(size_t rows_a_thread) const {
    size_t num_rows = 0;
    for (const RankRows& rows : snapshot_.ranks) {
      num_rows += rows.op_runs.size() + rows.gpu_work.size() + rows.spans.size();
    }
    return std::clamp<size_t>(num_rows / rows_a_thread, 1,
                              std::clamp<size_t>(snapshot_.ranks.size(), 1, NumCores()));
  }

  // Those at `first`, `first` + `stride` and so on.
  void SearchRanks(size_t first, size_t stride) {
    for (size_t at = first; at < snapshot_.ranks.size(); at += stride) {
      const RankRows& rows = snapshot_.ranks[at];
      if (query_.rank && rows.rank != *query_.rank) continue;
      SearchOps(rows);
      SearchWork(rows);
      SearchRanges(rows);
    }
  }

  // Ops of the Schedule have names, kinds and units, their millions of runs have not.
  void ChooseOps() {
    first_ops_.resize(snapshot_.plan_ops.size() + 1);
    for (const auto& [id, op] : snapshot_.plan_ops) {
      SearchedOp& facts = MakeFactsOf(id);
      facts.share = ShareOf(op);
      // Compute has only a segment, whose name begins with that of its unit.
      facts.of_unit = ContainsAll(Lower(op.unit + "\n" + op.segment), query_.units);
      const bool fits = !query_.exposed || facts.share == OpShare::kCommunication;
      facts.chosen = facts.of_unit && fits &&
                     ContainsAll(Lower(op.name + "\n" + ShortName(op)), query_.texts) &&
                     AreAmong(query_.kinds, {"op", op.kind, Name(op.op_class), Name(op.category)});
      any_chosen_ = any_chosen_ || facts.chosen;
    }
  }

  // Calls visit(row, index) for each row, of the step alone where rows have one; less if the search
  // is stopped.
  template <bool kHasStep, typename Row, typename Visit>
  void ForEach(const query::RowList<Row>& rows, Visit&& visit) const {
    if constexpr (kHasStep) {
      if (query_.step) {
        rows.ForEachOfSteps(*query_.step, *query_.step, visit);
        return;
      }
    }
    for (size_t first = 0; first < rows.size(); first += kRowsBetweenStops) {
      if (stop_.stop_requested()) return;
      const size_t end = std::min(first + kRowsBetweenStops, rows.size());
      for (size_t at = first; at < end; ++at) visit(rows[at], at);
    }
  }

  // Asked of millions of runs.
  SearchedOp FactsOf(PlanOpId id) const {
    const auto place = static_cast<uint64_t>(id.value());
    if (place < first_ops_.size()) return first_ops_[place];
    const auto found = other_ops_.find(id);
    return found == other_ops_.end() ? SearchedOp() : found->second;
  }
  SearchedOp& MakeFactsOf(PlanOpId id) {
    const auto place = static_cast<uint64_t>(id.value());
    return place < first_ops_.size() ? first_ops_[place] : other_ops_[id];
  }

  bool IsSlow(int64_t start_ns, int64_t end_ns) const {
    return !query_.slower_ns || end_ns - start_ns > *query_.slower_ns;
  }

  // The step of a rank that `time_ns` is in; -1: none.
  static int32_t NumberOfStepAt(const RankRows& rows, int64_t time_ns) {
    const query::Step* const step = query::StepAt(rows, time_ns);
    return step == nullptr ? -1 : step->step;
  }

  void SearchOps(const RankRows& rows) {
    if (!any_chosen_) return;
    Cover cover = query_.exposed ? CoverOfOps(rows) : Cover();
    ForEach<true>(rows.op_runs, [&](const query::OpRun& run, size_t at) {
      if (!FactsOf(run.plan_op).chosen || !IsSlow(run.started_ns, run.ended_ns)) return;
      // As the figures have it: evaluations are in no step.
      if (query_.exposed && (run.step < 0 || cover.Hides(run.started_ns, run.ended_ns))) return;
      found_.Add({.what = HitKind::kOp,
                  .rank = rows.rank,
                  .step = run.step,
                  .row = static_cast<uint32_t>(at),
                  .start_ns = run.started_ns,
                  .end_ns = run.ended_ns,
                  .track = run.track,
                  .op_run = run.id});
    });
  }

  // By compute of every step, as the lanes have it.
  Cover CoverOfOps(const RankRows& rows) const {
    std::vector<Interval> computed;
    ForEach<false>(rows.op_runs, [&](const query::OpRun& run, size_t) {
      if (FactsOf(run.plan_op).share == OpShare::kCompute) {
        computed.push_back({run.started_ns, run.ended_ns});
      }
    });
    return {std::move(computed), query::MayGrow(snapshot_.state)};
  }

  Cover CoverOfWork(const RankRows& rows) const {
    std::vector<Interval> computed;
    ForEach<false>(rows.gpu_work, [&](const query::GpuWork& work, size_t) {
      if (query::IsCompute(work.category)) computed.push_back({work.start_ns, work.end_ns});
    });
    return {std::move(computed), query::MayGrow(snapshot_.state)};
  }

  void SearchWork(const RankRows& rows) {
    if (rows.gpu_work.empty()) return;
    Cover cover = query_.exposed ? CoverOfWork(rows) : Cover();
    ForEach<false>(rows.gpu_work, [&](const query::GpuWork& work, size_t at) {
      if (!IsSlow(work.start_ns, work.end_ns)) return;
      if (!query_.units.empty() && !FactsOf(work.plan_op).of_unit) return;
      if (!AreAmong(query_.kinds, {"work", Name(work.kind), Name(work.category)})) return;
      if (!HasName(work.name)) return;
      if (query_.exposed && (work.category != query::SpanCategory::kCommunication ||
                             cover.Hides(work.start_ns, work.end_ns))) {
        return;
      }
      const int32_t step = work.step >= 0 ? work.step : NumberOfStepAt(rows, work.start_ns);
      if (query_.step && step != *query_.step) return;
      found_.Add({.what = HitKind::kWork,
                  .rank = rows.rank,
                  .step = step,
                  .row = static_cast<uint32_t>(at),
                  .start_ns = work.start_ns,
                  .end_ns = work.end_ns,
                  .track = work.track,
                  .span = work.id});
    });
  }

  void SearchRanges(const RankRows& rows) {
    if (!query_.units.empty() || query_.exposed) return;
    ForEach<false>(rows.spans, [&](const query::Span& span, size_t at) {
      if (!IsSlow(span.start_ns, span.end_ns)) return;
      if (!AreAmong(query_.kinds, {"range", Name(span.category)}) || !HasName(span.name)) return;
      const int32_t step = NumberOfStepAt(rows, span.start_ns);
      if (query_.step && step != *query_.step) return;
      found_.Add({.what = HitKind::kRange,
                  .rank = rows.rank,
                  .step = step,
                  .row = static_cast<uint32_t>(at),
                  .start_ns = span.start_ns,
                  .end_ns = span.end_ns,
                  .track = span.track,
                  .span = span.id,
                  .has_end = query::HasEnded(snapshot_, span)});
    });
  }

  // Markers are of all ranks and no unit, and take no time.
  void SearchMarkers() {
    if (query_.rank || query_.slower_ns || query_.exposed || !query_.units.empty()) return;
    for (size_t at = 0; at < snapshot_.markers.size(); ++at) {
      const query::Marker& marker = snapshot_.markers[at];
      if (query_.step && marker.step != *query_.step) continue;
      if (!AreAmong(query_.kinds, {"marker", marker.kind})) continue;
      if (!ContainsAll(Lower(marker.kind + "\n" + NameOfMarker(marker)), query_.texts)) continue;
      found_.Add({.what = HitKind::kMarker,
                  .step = marker.step,
                  .row = static_cast<uint32_t>(at),
                  .start_ns = marker.time_ns,
                  .end_ns = marker.time_ns});
    }
  }

  // `name`: index into Snapshot::names. Each is looked at once.
  bool HasName(int32_t name) {
    if (query_.texts.empty()) return true;
    if (name < 0 || static_cast<size_t>(name) >= snapshot_.names.size()) return false;
    if (named_.empty()) named_.resize(snapshot_.names.size());
    std::optional<bool>& known = named_[static_cast<size_t>(name)];
    if (!known) {
      known = ContainsAll(Lower(snapshot_.names[static_cast<size_t>(name)]), query_.texts);
    }
    return *known;
  }

  const Snapshot& snapshot_;
  const SearchQuery& query_;
  const std::stop_token stop_;
  Collector found_;
  // By id; ids that do not begin at 1, as in files that were put together, are the others.
  std::vector<SearchedOp> first_ops_;
  std::unordered_map<PlanOpId, SearchedOp> other_ops_;
  bool any_chosen_ = false;
  std::vector<std::optional<bool>> named_;
};

}  // namespace

bool IsBefore(const SearchHit& a, const SearchHit& b) {
  return std::tie(a.start_ns, a.rank, a.what, a.row) < std::tie(b.start_ns, b.rank, b.what, b.row);
}

std::string NameOf(const Snapshot& snapshot, const SearchHit& hit) {
  if (hit.what == HitKind::kMarker) return NameOfMarker(snapshot.markers[hit.row]);
  const RankRows& rows = *snapshot.FindRank(hit.rank);
  if (hit.what == HitKind::kOp) {
    return snapshot.FindPlanOp(rows.op_runs[hit.row].plan_op)->name;
  }
  const int32_t name =
      hit.what == HitKind::kWork ? rows.gpu_work[hit.row].name : rows.spans[hit.row].name;
  const bool known = name >= 0 && static_cast<size_t>(name) < snapshot.names.size();
  return known ? snapshot.names[static_cast<size_t>(name)] : "";
}

std::string KindOf(const Snapshot& snapshot, const SearchHit& hit) {
  switch (hit.what) {
    case HitKind::kOp: {
      const RankRows& rows = *snapshot.FindRank(hit.rank);
      return snapshot.FindPlanOp(rows.op_runs[hit.row].plan_op)->kind;
    }
    case HitKind::kWork:
      return std::string(Name(snapshot.FindRank(hit.rank)->gpu_work[hit.row].kind));
    case HitKind::kRange:
      return "range";
    case HitKind::kMarker:
      return snapshot.markers[hit.row].kind;
  }
  return "";
}

SearchResult Search(const Snapshot& snapshot, const SearchQuery& query,
                    const SearchOptions& options) {
  return Searcher(snapshot, query, options).Run(options.rows_a_thread);
}

Status CheckHasStep(const Snapshot& snapshot, const SearchQuery& query) {
  if (!query.step) return Status::Ok();
  const Result<Interval> times = TimesOfStep(snapshot, *query.step);
  if (times.ok()) return Status::Ok();
  SearchQuery of_step;  // of one that goes on there are hits, and no times yet
  of_step.step = query.step;
  const bool has_some = Search(snapshot, of_step, {.most_hits = 0}).count > 0;
  return has_some ? Status::Ok() : times.status();
}

}  // namespace shardscope::analysis
