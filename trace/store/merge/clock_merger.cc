#include "trace/store/merge/clock_merger.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "trace/base/time.h"
#include "trace/store/merge/clock_estimate.h"

namespace shardscope::store {
namespace {

constexpr size_t kMostPartial = 1 << 16;
constexpr size_t kMostRows = 1 << 20;
constexpr size_t kMostCommunicators = 1 << 12;

constexpr size_t kMostReadings = 64;
constexpr size_t kMostWaiting = 500'000;  // rows of a clock, for shared collectives
constexpr size_t kMostShared = 1 << 16;
constexpr int64_t kTellNs = kNsPerSecond;

// On one machine the time of day minus CLOCK_MONOTONIC is the same for all (NTP slews both); on
// another it differs by the difference of their boots.
constexpr int64_t kSameOffsetNs = 10 * kNsPerUs;

bool Waits(const Table& table) {
  return table.has_moments || table.index == kTable<schema::CollectiveRow>.index;
}

int64_t OffsetOf(const schema::ClockRow& row) { return row.realtime_ns - row.monotonic_ns; }

// The offset of the reading that is surest.
std::optional<schema::ClockRow> Surest(const std::vector<schema::ClockRow>& readings) {
  if (readings.empty()) return std::nullopt;
  return *std::min_element(readings.begin(), readings.end(),
                           [](const schema::ClockRow& a, const schema::ClockRow& b) {
                             return a.uncertainty_ns < b.uncertainty_ns;
                           });
}

bool AllAgree(const std::vector<schema::ClockRow>& readings, const schema::ClockRow& with) {
  return std::all_of(readings.begin(), readings.end(), [&](const schema::ClockRow& row) {
    return std::abs(OffsetOf(row) - OffsetOf(with)) <=
           kSameOffsetNs + row.uncertainty_ns + with.uncertainty_ns;
  });
}

int64_t Middle(const CollectiveTimes& times) {
  return times.first_end_ns + (times.last_end_ns - times.first_end_ns) / 2;
}

}  // namespace

void CollectiveMatcher::AddCollective(const schema::CollectiveRow& row) {
  if (row.group_size < 2 || rows_.size() >= kMostRows) return;
  const std::string_view name = row.communicator;
  auto communicator = communicators_.find(name);
  if (communicator == communicators_.end()) {
    if (communicators_.size() >= kMostCommunicators) return;
    const auto index = static_cast<int32_t>(communicators_.size());
    communicator = communicators_.emplace(name, index).first;
  }
  rows_[row.op_run] = {{communicator->second, row.sequence}, row.group_size};
}

void CollectiveMatcher::AddOpRun(size_t clock, const schema::OpRunRow& run) {
  const auto row = rows_.find(run.id);
  if (row == rows_.end()) return;
  const auto [key, group_size] = row->second;
  rows_.erase(row);
  if (!IsSaneNs(run.started_ns) || !IsSaneNs(run.ended_ns) || run.started_ns > run.ended_ns) return;
  const auto [partial, is_new] = partial_.try_emplace(key);
  if (is_new) order_.push_back(key);
  SharedCollective& times = partial->second.times;
  const auto place = std::lower_bound(
      times.begin(), times.end(), clock,
      [](const CollectiveTimes& one, size_t wanted) { return one.clock < wanted; });
  if (place == times.end() || place->clock != clock) {
    times.insert(place, {clock, run.started_ns, run.ended_ns, run.ended_ns});
  } else {
    place->last_start_ns = std::max(place->last_start_ns, run.started_ns);
    place->first_end_ns = std::min(place->first_end_ns, run.ended_ns);
    place->last_end_ns = std::max(place->last_end_ns, run.ended_ns);
  }
  if (++partial->second.num_ranks < group_size) return;
  if (times.size() > 1) complete_.push_back(std::move(times));
  partial_.erase(partial);
}

void CollectiveMatcher::Forget() {
  // Complete ones behind an incomplete one stay in the queue, so its length is bounded too.
  while (!order_.empty() &&
         (order_.size() > 2 * kMostPartial || !partial_.contains(order_.front()))) {
    partial_.erase(order_.front());
    order_.pop_front();
  }
}

void CollectiveMatcher::Add(size_t clock, const RowBatch& rows, size_t first_collective,
                            size_t first_op_run) {
  const auto& collectives = rows.Get<schema::CollectiveRow>();
  for (size_t i = first_collective; i < collectives.size(); ++i) AddCollective(collectives[i]);
  const auto& op_runs = rows.Get<schema::OpRunRow>();
  for (size_t i = first_op_run; i < op_runs.size(); ++i) AddOpRun(clock, op_runs[i]);
  Forget();
}

void ClockMerger::Note(File* file, const RowBatch& rows) {
  for (const schema::MetaRow& row : rows.Get<schema::MetaRow>()) {
    if (row.key == "host") file->host = row.value;
    if (row.key == "pid") file->pid = row.value;
  }
  for (const schema::ClockRow& row : rows.Get<schema::ClockRow>()) {
    const bool sane = IsSaneNs(row.monotonic_ns) && IsSaneNs(row.realtime_ns) &&
                      row.uncertainty_ns >= 0 && row.uncertainty_ns < kNsPerSecond;
    if (sane && file->readings.size() < kMostReadings) file->readings.push_back(row);
  }
}

void ClockMerger::PassOnly(RowBatch rows, RowBatch* batch) {
  if (files_.empty()) files_.resize(1);
  Note(&files_[0], rows);
  AppendRows(&rows, batch);
}

void ClockMerger::Add(size_t file, RowBatch rows) {
  if (files_.size() <= file) files_.resize(file + 1);
  File& to = files_[file];
  Note(&to, rows);
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    AnyRows& from = rows.At(table);
    if (from.size() == 0) continue;
    const bool waits = Waits(from.table());
    if (waits) {
      if (to.num_waiting == 0) to.waiting_since_ns = MonotonicNs();
      to.num_waiting += from.size();
    }
    from.MoveTo(&(waits ? to.waiting : to.passing).At(table));
  }
}

bool ClockMerger::SameClock(const File& a, const File& b) const {
  // A process may write several files, over hours in which the time of day is set.
  if (!a.host.empty() && a.host == b.host && !a.pid.empty() && a.pid == b.pid) return true;
  const std::optional<schema::ClockRow> one = Surest(a.readings);
  const std::optional<schema::ClockRow> other = Surest(b.readings);
  return one && other && AllAgree(a.readings, *other) && AllAgree(b.readings, *one);
}

// `must`: with what is known now.
void ClockMerger::Identify(size_t index, bool must) {
  File& file = files_[index];
  const bool known = !file.host.empty() && !file.readings.empty();
  if (file.clock != kNone || (index > 0 && !known && !must)) return;
  for (size_t other = 0; other < files_.size(); ++other) {
    if (files_[other].clock == kNone || !SameClock(file, files_[other])) continue;
    file.clock = files_[other].clock;
    clocks_[file.clock].files.push_back(index);
    return;
  }
  file.clock = clocks_.size();
  clocks_.emplace_back().files.push_back(index);
  if (file.clock == 0) clocks_[0].method = ClockMethod::kReference;
}

void ClockMerger::Match() {
  const bool all_one =
      clocks_.size() == 1 && std::all_of(files_.begin(), files_.end(),
                                         [](const File& file) { return file.clock != kNone; });
  for (File& file : files_) {
    if (file.clock == kNone) continue;
    if (!all_one) {
      matcher_.Add(file.clock, file.waiting, file.seen_collectives, file.seen_op_runs);
    }
    file.seen_collectives = file.waiting.Get<schema::CollectiveRow>().size();
    file.seen_op_runs = file.waiting.Get<schema::OpRunRow>().size();
  }
  for (SharedCollective& times : matcher_.Take()) shared_.push_back({std::move(times), false});
}

// Compares with the first clock that is placed; false: none is yet.
bool ClockMerger::CompareOne(const SharedCollective& times) {
  const auto anchor = std::find_if(times.begin(), times.end(), [this](const CollectiveTimes& one) {
    return clocks_[one.clock].placed();
  });
  if (anchor == times.end()) return false;
  const ClockMap& map = clocks_[anchor->clock].estimate.map();
  const int64_t middle_ns = map.Apply(Middle(*anchor));
  const int64_t last_start_ns = map.Apply(anchor->last_start_ns);
  const int64_t first_end_ns = map.Apply(anchor->first_end_ns);
  if (!IsSaneNs(middle_ns) || !IsSaneNs(last_start_ns) || !IsSaneNs(first_end_ns)) return true;
  for (const CollectiveTimes& one : times) {
    if (one.clock == anchor->clock || one.clock == 0) continue;
    clocks_[one.clock].estimate.AddPair({Middle(one), middle_ns - Middle(one),
                                         last_start_ns - one.first_end_ns,
                                         first_end_ns - one.last_start_ns});
  }
  return true;
}

void ClockMerger::Compare() {
  for (Shared& shared : shared_) {
    if (!shared.compared) shared.compared = CompareOne(shared.times);
  }
}

bool ClockMerger::Overdue(const Clock& clock, Outlook outlook) const {
  if (outlook == Outlook::kLast) return true;
  const int64_t now_ns = MonotonicNs();
  return std::any_of(clock.files.begin(), clock.files.end(), [&](size_t index) {
    const File& file = files_[index];
    return file.num_waiting > kMostWaiting || (outlook == Outlook::kLive && file.num_waiting > 0 &&
                                               now_ns - file.waiting_since_ns >= longest_wait_ns_);
  });
}

void ClockMerger::PlaceByTimeOfDay(Clock* clock) {
  const std::optional<schema::ClockRow> common = Surest(files_[clocks_[0].files.front()].readings);
  const std::optional<schema::ClockRow> own = Surest(files_[clock->files.front()].readings);
  const bool known = common && own;
  clock->method = known ? ClockMethod::kTimeOfDay : ClockMethod::kUnknown;
  clock->estimate.Assume(known ? OffsetOf(*own) - OffsetOf(*common) : 0);
}

void ClockMerger::Place(Outlook outlook) {
  // A clock that was placed just now may place further ones.
  for (bool again = true; again;) {
    again = false;
    Compare();
    for (Clock& clock : clocks_) {
      if (clock.method == ClockMethod::kReference) continue;
      const bool before = clock.placed();
      clock.estimate.Fit(outlook == Outlook::kLast ||
                         (Overdue(clock, outlook) && !clock.estimate.fitted()));
      if (clock.estimate.fitted()) clock.method = ClockMethod::kCollectives;
      again |= clock.placed() && !before;
    }
  }
  for (Clock& clock : clocks_) {
    if (!clock.placed() && Overdue(clock, outlook)) PlaceByTimeOfDay(&clock);
  }
}

void ClockMerger::Release(Outlook outlook, RowBatch* batch) {
  for (File& file : files_) {
    AppendRows(&file.passing, batch);
    if (file.clock == kNone || !clocks_[file.clock].placed()) continue;
    Clock& clock = clocks_[file.clock];
    if (clock.method != ClockMethod::kReference) {
      // With more rows at hand, those that have no collective around them yet can wait for it.
      if (outlook == Outlook::kMoreRows && file.num_waiting < kMostWaiting) continue;
      int64_t newest_ns = 0;
      for (size_t table = 0; table < schema::kNumTables; ++table) {
        file.waiting.At(table).ForEachMoment([&](int64_t* time_ns) {
          if (IsSaneNs(*time_ns)) newest_ns = std::max(newest_ns, *time_ns);
          *time_ns = clock.estimate.map().Apply(*time_ns);
        });
      }
      clock.estimate.Fix(newest_ns);
    }
    AppendRows(&file.waiting, batch);
    file.num_waiting = file.seen_collectives = file.seen_op_runs = 0;
  }
}

// How well the times given out fit: once all ranks' times of a collective are out.
void ClockMerger::Measure(Outlook outlook) {
  std::vector<Shared> left;
  for (Shared& shared : shared_) {
    const bool out = shared.compared && std::all_of(shared.times.begin(), shared.times.end(),
                                                    [this](const CollectiveTimes& one) {
                                                      return clocks_[one.clock].placed();
                                                    });
    if (!out) {
      if (outlook != Outlook::kLast) left.push_back(std::move(shared));
      continue;
    }
    int64_t first_ns = kLatestSaneNs;
    int64_t last_ns = 0;
    for (const CollectiveTimes& one : shared.times) {
      const ClockMap& map = clocks_[one.clock].estimate.map();
      first_ns = std::min(first_ns, map.Apply(one.first_end_ns));
      last_ns = std::max(last_ns, map.Apply(one.last_end_ns));
    }
    for (const CollectiveTimes& one : shared.times) {
      clocks_[one.clock].residuals.Add(last_ns - first_ns);
    }
  }
  if (left.size() > kMostShared) {
    left.erase(left.begin(), left.end() - static_cast<std::ptrdiff_t>(kMostShared));
  }
  shared_ = std::move(left);
}

ClockFacts ClockMerger::FactsOf(const Clock& clock) const {
  ClockFacts facts;
  facts.method = clock.method;
  std::set<std::string> processes;
  for (const size_t index : clock.files) {
    const File& file = files_[index];
    // Dumps of flight recorders do not say whose they are.
    const bool is_known = !file.host.empty() || (!file.pid.empty() && file.pid != "0");
    if (is_known) processes.insert(fmt::format("{}/{}", file.host, file.pid));
  }
  facts.processes = fmt::format("{}", fmt::join(processes, " "));
  const ClockMap& map = clock.estimate.map();
  const int64_t newest_ns = std::max<int64_t>(1, clock.estimate.newest_ns());
  facts.offset_ns = map.Apply(newest_ns) - newest_ns;
  facts.drift_ppb = map.pieces().empty() ? 0 : map.pieces().back().drift_ppb;
  facts.collectives = clock.residuals.count();
  facts.residual_p50_ns = clock.residuals.Percentile(0.5);
  facts.residual_p95_ns = clock.residuals.Percentile(0.95);
  facts.residual_max_ns = clock.residuals.max_ns();
  return facts;
}

void ClockMerger::Tell(Outlook outlook, RowBatch* batch) {
  if (files_.size() < 2 || outlook == Outlook::kMoreRows) return;
  if (outlook == Outlook::kLive && MonotonicNs() < next_tell_ns_) return;
  next_tell_ns_ = MonotonicNs() + kTellNs;
  told_.resize(clocks_.size());
  for (size_t i = 0; i < clocks_.size(); ++i) {
    if (!clocks_[i].placed()) continue;
    std::string text = PrintClockFacts(FactsOf(clocks_[i]));
    if (text == told_[i]) continue;
    told_[i] = text;
    batch->Get<schema::MetaRow>().push_back({ClockFactsKey(i), std::move(text)});
  }
}

void ClockMerger::Take(Outlook outlook, RowBatch* batch) {
  for (size_t i = 0; i < files_.size(); ++i) {
    const bool overdue = files_[i].num_waiting > kMostWaiting ||
                         (files_[i].num_waiting > 0 &&
                          MonotonicNs() - files_[i].waiting_since_ns >= longest_wait_ns_);
    Identify(i, overdue || outlook == Outlook::kLast);
  }
  if (files_.size() > 1) Match();
  Place(outlook);
  Release(outlook, batch);
  Measure(outlook);
  Tell(outlook, batch);
}

}  // namespace shardscope::store
