// Files of one run on several clocks: shifted by seconds, drifting, with jitter, live or finished.
#include "trace/store/merge/clock_merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "trace/base/time.h"

namespace shardscope::store {
namespace {

using Outlook = ClockMerger::Outlook;

constexpr int64_t kBootNs = 5'000 * kNsPerSecond;
constexpr int64_t kEpochNs = 1'700'000'000 * kNsPerSecond;

// One machine's CLOCK_MONOTONIC against true time.
struct Machine {
  std::string host;
  int64_t shift_ns = 0;
  int64_t drift_ppm = 0;
  int64_t time_of_day_error_ns = 0;

  int64_t Local(int64_t true_ns) const {
    return true_ns + shift_ns + (true_ns - kBootNs) / 1'000'000 * drift_ppm;
  }
};

// A run that does nothing but collectives: one every 10 ms, of one rank a file.
class FakeRun {
 public:
  explicit FakeRun(std::vector<Machine> machines) : machines_(std::move(machines)) {}

  int64_t jitter_ns = 30 * kNsPerUs;
  bool stragglers = false;  // now and then one rank sees the end late
  std::set<int> silent;     // files without collectives

  // The rows of a file for collectives [first, last).
  RowBatch Rows(int file, int first, int last) {
    const Machine& machine = machines_[static_cast<size_t>(file)];
    RowBatch rows;
    if (first == 0) {
      rows.Get<schema::MetaRow>().push_back({"host", machine.host});
      rows.Get<schema::MetaRow>().push_back({"pid", std::to_string(100 + file)});
    }
    const int64_t shift = IdShift(static_cast<size_t>(file));
    for (int i = first; i < last; ++i) {
      if (i % 100 == 0) AddReading(machine, i, shift + i + 1, &rows);
      AddCollective(machine, file, i, shift + i + 1, &rows);
    }
    return rows;
  }

  static int64_t TrueEnd(int i) { return kBootNs + (i + 1) * 10 * kNsPerMs; }

 private:
  void AddReading(const Machine& machine, int i, int64_t id, RowBatch* rows) const {
    schema::ClockRow row;
    row.id = schema::ClockId(id);
    row.monotonic_ns = machine.Local(TrueEnd(i));
    // NTP steers both clocks of a machine, so they stay equally far apart.
    row.realtime_ns = row.monotonic_ns + kEpochNs - machine.shift_ns + machine.time_of_day_error_ns;
    row.uncertainty_ns = 50;
    rows->Get<schema::ClockRow>().push_back(row);
  }

  void AddCollective(const Machine& machine, int file, int i, int64_t id, RowBatch* rows) {
    std::uniform_int_distribution<int64_t> jitter(0, jitter_ns);
    schema::OpRunRow run;
    run.id = schema::OpRunId(id);
    run.rank = file;
    // It transfers for a millisecond once the last rank arrived.
    run.started_ns = machine.Local(TrueEnd(i) - kNsPerMs - (file + i) % 3 * kNsPerMs);
    run.issued_ns = run.ready_ns = run.started_ns;
    const bool late = stragglers && random_() % 10 == 0;
    run.ended_ns = machine.Local(TrueEnd(i) + jitter(random_) + (late ? 3 * kNsPerMs : 0));
    rows->Get<schema::OpRunRow>().push_back(run);
    if (silent.contains(file)) return;
    schema::CollectiveRow collective;
    collective.id = schema::CollectiveId(id);
    collective.op_run = schema::OpRunId(id);
    collective.rank = file;
    collective.communicator = "default";
    collective.sequence = i;
    collective.group_size = static_cast<int64_t>(machines_.size() - silent.size());
    rows->Get<schema::CollectiveRow>().push_back(collective);
  }

  const std::vector<Machine> machines_;
  std::mt19937 random_{7};
};

// What came out, and what was said about it.
struct Merged {
  std::map<int64_t, std::vector<int64_t>> ends_by_collective;  // common time, rank order
  std::map<std::string, ClockFacts> clocks;
  RowBatch rows;
  size_t num_op_runs = 0;
};

void Collect(RowBatch* batch, Merged* merged) {
  for (const schema::MetaRow& row : batch->Get<schema::MetaRow>()) {
    if (!row.key.starts_with(kClockFactsPrefix)) continue;
    const std::optional<ClockFacts> facts = ParseClockFacts(row.value);
    ASSERT_TRUE(facts) << row.value;
    merged->clocks[row.key] = *facts;
  }
  for (const schema::OpRunRow& run : batch->Get<schema::OpRunRow>()) {
    ++merged->num_op_runs;
    merged->ends_by_collective[run.id.value() % kIdsPerFile - 1].push_back(run.ended_ns);
  }
  AppendRows(batch, &merged->rows);
}

Merged MergeFinished(FakeRun* run, int files, int collectives) {
  ClockMerger merger;
  for (int file = 0; file < files; ++file) {
    merger.Add(static_cast<size_t>(file), run->Rows(file, 0, collectives));
  }
  Merged merged;
  RowBatch batch;
  merger.Take(Outlook::kLast, &batch);
  Collect(&batch, &merged);
  return merged;
}

Merged MergeLive(FakeRun* run, int files, int collectives, int a_poll) {
  ClockMerger merger;
  Merged merged;
  for (int first = 0; first < collectives; first += a_poll) {
    const int last = std::min(first + a_poll, collectives);
    for (int file = 0; file < files; ++file) {
      merger.Add(static_cast<size_t>(file), run->Rows(file, first, last));
    }
    RowBatch batch;
    merger.Take(last == collectives ? Outlook::kLast : Outlook::kLive, &batch);
    Collect(&batch, &merged);
  }
  return merged;
}

int64_t LargestSpread(const Merged& merged) {
  int64_t largest_ns = 0;
  for (const auto& [sequence, ends] : merged.ends_by_collective) {
    const auto [first, last] = std::minmax_element(ends.begin(), ends.end());
    largest_ns = std::max(largest_ns, *last - *first);
  }
  return largest_ns;
}

// All rows came out, and the ends of every collective agree within what is said.
void ExpectWithinResidual(const Merged& merged, int files, int collectives) {
  EXPECT_EQ(merged.num_op_runs, static_cast<size_t>(files) * static_cast<size_t>(collectives));
  int64_t stated_ns = 0;
  for (const auto& [key, facts] : merged.clocks) {
    EXPECT_EQ(facts.collectives, collectives) << key;
    EXPECT_LE(facts.residual_p50_ns, facts.residual_p95_ns);
    EXPECT_LE(facts.residual_p95_ns, facts.residual_max_ns);
    stated_ns = std::max(stated_ns, facts.residual_max_ns);
  }
  EXPECT_EQ(LargestSpread(merged), stated_ns);
}

const Machine kFirst{"a", 0, 0, 0};
const Machine kShifted{"b", 7 * kNsPerSecond + 123, 100, 40 * kNsPerMs};
const Machine kSlow{"c", -3'000 * kNsPerSecond, -100, -25 * kNsPerMs};

TEST(ClockMerger, ShiftedAndDriftingClocksMeetAtTheEndsOfCollectives) {
  FakeRun run({kFirst, kShifted, kSlow});
  const Merged merged = MergeFinished(&run, 3, 3000);
  ExpectWithinResidual(merged, 3, 3000);
  ASSERT_EQ(merged.clocks.size(), 3u);
  EXPECT_EQ(merged.clocks.at("clock.0").method, ClockMethod::kReference);
  const ClockFacts& shifted = merged.clocks.at("clock.1");
  EXPECT_EQ(shifted.method, ClockMethod::kCollectives);
  EXPECT_EQ(shifted.processes, "b/101");
  EXPECT_NEAR(static_cast<double>(shifted.drift_ppb), -100'000, 3'000);
  EXPECT_NEAR(static_cast<double>(merged.clocks.at("clock.2").drift_ppb), 100'000, 3'000);
  // Jitter is 30 us a rank; the clocks ran 3 ms apart meanwhile.
  EXPECT_LT(shifted.residual_max_ns, 50 * kNsPerUs);
}

TEST(ClockMerger, TheFirstFileIsUntouchedAndTheOthersComeClose) {
  FakeRun run({kFirst, kShifted});
  const Merged merged = MergeFinished(&run, 2, 2000);
  for (const schema::OpRunRow& row : merged.rows.Get<schema::OpRunRow>()) {
    const int64_t i = row.id.value() % kIdsPerFile - 1;
    const int64_t error_ns = row.ended_ns - FakeRun::TrueEnd(static_cast<int>(i));
    EXPECT_GE(error_ns, row.rank == 0 ? 0 : -20 * kNsPerUs);
    EXPECT_LE(error_ns, run.jitter_ns + (row.rank == 0 ? 0 : 20 * kNsPerUs));
    EXPECT_LE(row.started_ns, row.ended_ns);
  }
}

TEST(ClockMerger, NoCollectiveEndsBeforeItsLastRankStarted) {
  FakeRun run({kFirst, kShifted});
  run.jitter_ns = 900 * kNsPerUs;  // nearly as long as the transfer
  const Merged merged = MergeFinished(&run, 2, 2000);
  std::map<int64_t, std::pair<int64_t, int64_t>> last_start_first_end;
  for (const schema::OpRunRow& row : merged.rows.Get<schema::OpRunRow>()) {
    auto& [start, end] =
        last_start_first_end.try_emplace(row.id.value() % kIdsPerFile, 0, kLatestSaneNs)
            .first->second;
    start = std::max(start, row.started_ns);
    end = std::min(end, row.ended_ns);
  }
  for (const auto& [id, times] : last_start_first_end) EXPECT_LE(times.first, times.second) << id;
}

TEST(ClockMerger, StragglersDoNotPullTheClock) {
  FakeRun run({kFirst, kShifted});
  run.stragglers = true;
  const Merged merged = MergeFinished(&run, 2, 2000);
  ExpectWithinResidual(merged, 2, 2000);
  const ClockFacts& facts = merged.clocks.at("clock.1");
  EXPECT_LT(facts.residual_p50_ns, 50 * kNsPerUs);
  EXPECT_GT(facts.residual_max_ns, 2 * kNsPerMs);  // and they are not hidden
}

TEST(ClockMerger, LiveRunIsPlacedAsItGrowsAndNeverMoved) {
  for (const int a_poll : {1, 7, 100, 1500}) {
    FakeRun run({kFirst, kShifted, kSlow});
    const Merged merged = MergeLive(&run, 3, 3000, a_poll);
    ExpectWithinResidual(merged, 3, 3000);
    EXPECT_LT(merged.clocks.at("clock.1").residual_p95_ns, 60 * kNsPerUs) << a_poll;
    EXPECT_LT(merged.clocks.at("clock.1").residual_max_ns, 250 * kNsPerUs) << a_poll;
    // Corrections never turn the order of a rank's times round.
    std::map<int64_t, int64_t> newest;
    for (const schema::OpRunRow& row : merged.rows.Get<schema::OpRunRow>()) {
      EXPECT_GT(row.ended_ns, newest[row.rank]);
      newest[row.rank] = row.ended_ns;
    }
  }
}

TEST(ClockMerger, FollowsAClockThatWasSet) {
  FakeRun before({kFirst, kShifted});
  Machine later = kShifted;
  later.shift_ns += 2 * kNsPerSecond;  // the first machine slept, and its clock with it
  FakeRun after({kFirst, later});
  ClockMerger merger;
  Merged merged;
  for (int i = 0; i < 2000; i += 5) {
    FakeRun& run = i < 1000 ? before : after;
    for (int file = 0; file < 2; ++file) {
      merger.Add(static_cast<size_t>(file), run.Rows(file, i, i + 5));
    }
    RowBatch batch;
    merger.Take(i + 5 == 2000 ? Outlook::kLast : Outlook::kLive, &batch);
    Collect(&batch, &merged);
  }
  ExpectWithinResidual(merged, 2, 2000);
  int far = 0;
  for (const auto& [sequence, ends] : merged.ends_by_collective) {
    far += std::abs(ends.at(0) - ends.at(1)) > kNsPerMs ? 1 : 0;
  }
  EXPECT_GT(far, 0);   // what was given out before it was noticed
  EXPECT_LE(far, 20);  // and no more
}

TEST(ClockMerger, ProcessesOfOneMachinePassUnchanged) {
  FakeRun run({kShifted, kShifted});
  FakeRun same({kShifted, kShifted});
  const Merged merged = MergeFinished(&run, 2, 500);
  ASSERT_EQ(merged.clocks.size(), 1u);
  EXPECT_EQ(merged.clocks.at("clock.0").method, ClockMethod::kReference);
  EXPECT_EQ(merged.clocks.at("clock.0").processes, "b/100 b/101");
  std::vector<schema::OpRunRow> untouched;
  for (int file = 0; file < 2; ++file) {
    const RowBatch rows = same.Rows(file, 0, 500);
    const auto& runs = rows.Get<schema::OpRunRow>();
    untouched.insert(untouched.end(), runs.begin(), runs.end());
  }
  const auto& got = merged.rows.Get<schema::OpRunRow>();
  ASSERT_EQ(got.size(), untouched.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].started_ns, untouched[i].started_ns);
    EXPECT_EQ(got[i].ended_ns, untouched[i].ended_ns);
  }
}

// As dumps of flight recorders, which are imported with process 0 of no host.
TEST(ClockMerger, FilesThatDoNotSayWhoseTheyAreNameNoProcess) {
  ClockMerger merger;
  for (size_t file = 0; file < 2; ++file) {
    RowBatch rows;
    rows.Get<schema::MetaRow>().push_back({"pid", "0"});
    merger.Add(file, std::move(rows));
  }
  RowBatch batch;
  merger.Take(ClockMerger::Outlook::kLast, &batch);
  for (const schema::MetaRow& row : batch.Get<schema::MetaRow>()) {
    if (!row.key.starts_with(kClockFactsPrefix)) continue;
    const auto facts = ParseClockFacts(row.value);
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->processes, "");
  }
}

TEST(ClockMerger, OneMachineNeedNotBeTheFirst) {
  // Two processes on b: one clock, placed once.
  FakeRun run({kFirst, kShifted, kShifted});
  const Merged merged = MergeFinished(&run, 3, 1000);
  ExpectWithinResidual(merged, 3, 1000);
  ASSERT_EQ(merged.clocks.size(), 2u);
  EXPECT_EQ(merged.clocks.at("clock.1").processes, "b/101 b/102");
}

TEST(ClockMerger, WithoutSharedCollectivesTheTimeOfDayMustDoAndThatIsSaid) {
  FakeRun run({kFirst, kShifted, kSlow});
  run.silent = {2};
  const Merged merged = MergeFinished(&run, 3, 1000);
  EXPECT_EQ(merged.num_op_runs, 3000u);
  const ClockFacts& silent = merged.clocks.at("clock.2");
  EXPECT_EQ(silent.method, ClockMethod::kTimeOfDay);
  EXPECT_EQ(silent.collectives, 0);
  // As good as that machine's time of day, and not better.
  EXPECT_NEAR(static_cast<double>(silent.offset_ns), -static_cast<double>(kSlow.shift_ns) - 25e6,
              2e6);
}

TEST(ClockMerger, AFewCollectivesAreBetterThanTheTimeOfDay) {
  FakeRun run({kFirst, kShifted});
  const Merged merged = MergeFinished(&run, 2, 3);
  EXPECT_EQ(merged.clocks.at("clock.1").method, ClockMethod::kCollectives);
  ExpectWithinResidual(merged, 2, 3);
  EXPECT_LT(LargestSpread(merged), 100 * kNsPerUs);
}

TEST(ClockMerger, LiveRowsWaitForCollectivesButNotForEver) {
  const auto take = [](int64_t longest_wait_ns) {
    FakeRun run({kFirst, kShifted});
    run.silent = {1};
    ClockMerger merger(longest_wait_ns);
    merger.Add(0, run.Rows(0, 0, 20));
    merger.Add(1, run.Rows(1, 0, 20));
    Merged merged;
    RowBatch batch;
    merger.Take(Outlook::kLive, &batch);
    Collect(&batch, &merged);
    return merged;
  };
  EXPECT_EQ(take(INT64_MAX).num_op_runs, 20u);  // the first file's
  const Merged late = take(0);
  EXPECT_EQ(late.num_op_runs, 40u);
  EXPECT_EQ(late.clocks.at("clock.1").method, ClockMethod::kTimeOfDay);
}

TEST(ClockMerger, AbsurdTimesDoNotOverflow) {
  FakeRun run({kFirst, kShifted});
  RowBatch rows = run.Rows(1, 0, 100);
  const int64_t kExtremes[] = {INT64_MIN, -1, 0, kLatestSaneNs, INT64_MAX};
  for (size_t i = 0; i < 50; ++i) {
    schema::OpRunRow& row = rows.Get<schema::OpRunRow>()[i];
    row.started_ns = kExtremes[i % 5];
    row.ended_ns = kExtremes[(i / 5) % 5];
  }
  ClockMerger merger;
  merger.Add(0, run.Rows(0, 0, 100));
  merger.Add(1, std::move(rows));
  Merged merged;
  RowBatch batch;
  merger.Take(Outlook::kLast, &batch);
  Collect(&batch, &merged);
  EXPECT_EQ(merged.num_op_runs, 200u);
  EXPECT_EQ(merged.clocks.at("clock.1").method, ClockMethod::kCollectives);
}

TEST(Residuals, PercentilesAreUpperBoundsWithinASixteenth) {
  Residuals residuals;
  EXPECT_EQ(residuals.Percentile(0.5), 0);
  for (int64_t value = 1; value <= 100'000; ++value) residuals.Add(value);
  for (const double share : {0.01, 0.5, 0.95, 1.0}) {
    const double exact = share * 100'000;
    EXPECT_GE(static_cast<double>(residuals.Percentile(share)), exact);
    EXPECT_LE(static_cast<double>(residuals.Percentile(share)), exact * (1 + 1.0 / 16) + 1);
  }
  EXPECT_EQ(residuals.max_ns(), 100'000);
  residuals.Add(INT64_MAX);
  EXPECT_EQ(residuals.Percentile(1), INT64_MAX);
}

TEST(ClockFacts, TextComesBackAndOtherTextIsRefused) {
  ClockFacts facts;
  facts.method = ClockMethod::kTimeOfDay;
  facts.processes = "a/1 b c/2";
  facts.offset_ns = -5;
  facts.residual_max_ns = 9;
  const std::optional<ClockFacts> back = ParseClockFacts(PrintClockFacts(facts));
  ASSERT_TRUE(back);
  EXPECT_EQ(PrintClockFacts(*back), PrintClockFacts(facts));
  for (const char* text : {"", "method=", "method=magic offset_ns=1", "method=reference",
                           "method=reference offset_ns=99999999999999999999"}) {
    EXPECT_FALSE(ParseClockFacts(text)) << text;
  }
}

}  // namespace
}  // namespace shardscope::store
