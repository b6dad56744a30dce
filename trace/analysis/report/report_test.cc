#include "trace/analysis/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/derived.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/breakdown_cache.h"
#include "trace/analysis/steps/rank_step.h"
#include "trace/base/reasons.h"
#include "trace/base/time.h"

namespace shardscope::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<std::string> Keys(const nlohmann::json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(ReportJson, HasTheKeysOfItsContract) {
  const Report report = MakeReport(*MakeLessonSnapshot(2, 6, 3));
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(report));
  EXPECT_THAT(Keys(json), IsSupersetOf({"steps", "memory", "collectives", "stalls", "dropped",
                                        "truth", "state", "summary", "markers", "name"}));
  ASSERT_EQ(json["steps"].size(), 12u);
  EXPECT_THAT(Keys(json["steps"][0]),
              IsSupersetOf({"step", "rank", "step_ns", "compute_ns", "communication_ns", "copy_ns",
                            "overlap_ns", "exposed_ns", "exposed_copy_ns", "idle_ns",
                            "slot_wait_ns", "tokens", "loss", "grad_norm"}));
  ASSERT_EQ(json["memory"].size(), 2u);
  EXPECT_THAT(Keys(json["memory"][0]), IsSupersetOf({"rank", "peak_bytes", "by_category"}));
  EXPECT_TRUE(json["stalls"].is_array());
  EXPECT_EQ(json["state"], "finished");
  EXPECT_EQ(json["truth"], "emulated");
  EXPECT_EQ(json["dropped"]["engine"], 0);
}

TEST(ReportJson, NumbersAreThoseOfTheAnalysis) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(2, 6, 3);
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(MakeReport(*snapshot)));
  const std::vector<StepBreakdown> rows = Breakdowns(*snapshot);
  ASSERT_EQ(json["steps"].size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const nlohmann::json& step = json["steps"][i];
    EXPECT_EQ(step["rank"], rows[i].rank);
    EXPECT_EQ(step["exposed_ns"], rows[i].time.exposed_ns);
    EXPECT_EQ(step["compute_ns"].get<int64_t>() + step["exposed_ns"].get<int64_t>() +
                  step["exposed_copy_ns"].get<int64_t>() + step["idle_ns"].get<int64_t>(),
              step["step_ns"].get<int64_t>());
  }
  const MemoryPeak peak = MemoryPeaks(*snapshot).front();
  EXPECT_EQ(json["memory"][0]["peak_bytes"], peak.peak_bytes);
  int64_t sum = 0;
  for (const auto& [category, bytes] : json["memory"][0]["by_category"].items()) {
    sum += bytes.get<int64_t>();
  }
  EXPECT_EQ(sum, peak.peak_bytes);
}

// Two steps of 40 ms with a minute between them.
TestSnapshot PausedRun() {
  TestSnapshot test(1);
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  for (const int step : {0, 1}) {
    const int64_t start_ns = step * (40 * kNsPerMs + 60 * kNsPerSecond);
    test.Run(0, step, gather, start_ns, start_ns + 20 * kNsPerMs);
    test.Run(0, step, forward, start_ns + 20 * kNsPerMs, start_ns + 40 * kNsPerMs)
        .blocking_plan_op = gather;
    test.Step(0, step, start_ns, start_ns + 40 * kNsPerMs);
  }
  test.snapshot().ranks[0].pauses = {
      {1, query::PauseCause::kUser, 40 * kNsPerMs, 40 * kNsPerMs + 60 * kNsPerSecond}};
  return test;
}

TEST(Report, APauseIsInNoStepAndInNoFigure) {
  TestSnapshot test = PausedRun();
  const Report report = MakeReport(*test.Build());
  ASSERT_EQ(report.steps.size(), 2u);
  for (const StepBreakdown& step : report.steps) {
    EXPECT_EQ(step.step_ns, 40 * kNsPerMs);
    EXPECT_EQ(step.time.idle_ns, 0);
  }
  EXPECT_EQ(report.figures.summary.step_ns.p95, 40e6);
  ASSERT_EQ(report.figures.stalls.size(), 1u);
  EXPECT_EQ(report.figures.stalls[0].total_ns, 2 * 20 * kNsPerMs);
  EXPECT_THAT(PrintReportText(report),
              HasSubstr("between steps, in none of them: 1 pause of 60.0 s"));
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(report));
  EXPECT_EQ(
      json["pauses"],
      nlohmann::json::parse(R"([{"before_step": 1, "cause": "user", "pause_ns": 60000000000}])"));
}

// The second schedule's steps hold less: its peak is not that of the whole run.
TEST(Report, PeaksStandBesideThePredictionsOfTheirOwnSchedule) {
  TestSnapshot test(2);
  test.snapshot().schedules.at(query::ScheduleId(1)) = {query::ScheduleId(1), "first", "", 100,
                                                        150};
  test.NextSchedule("second");
  test.snapshot().schedules.at(query::ScheduleId(2)).largest.predicted_bytes = 70;
  test.NextSchedule("never ran");
  for (int32_t step = 0; step < 4; ++step) {
    const int64_t at_ns = 100 * step;
    for (const int32_t rank : {0, 1}) {
      const bool is_second = step == 2;
      test.Step(rank, step, at_ns, at_ns + 100).schedule = query::ScheduleId(is_second ? 2 : 1);
      const int64_t bytes = is_second ? 60 : 120 + rank + step;
      test.Memory(rank, query::MemoryCategory::kActivation, at_ns + 10, bytes);
      test.Memory(rank, query::MemoryCategory::kActivation, at_ns + 20, -bytes);
    }
  }
  const Report report = MakeReport(*test.Build());
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(report))["schedules"];
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["name"], "first");
  EXPECT_EQ(json[0]["steps"], nlohmann::json::parse("[[0, 1], [3, 3]]"));
  EXPECT_EQ(json[0]["predicted_peak_bytes"], 100);
  EXPECT_EQ(json[0]["executed_bound_bytes"], 150);
  EXPECT_EQ(json[0]["peak_bytes"], 124);
  EXPECT_EQ(json[0]["peak_rank"], 1);
  EXPECT_EQ(json[1]["predicted_peak_bytes"], 70);
  EXPECT_EQ(json[1]["peak_bytes"], 60);
  const std::string text = PrintReportText(report);
  EXPECT_THAT(text, HasSubstr("first     0 to 1, 3      100 B  150 B     124 B     1\n"));
  EXPECT_THAT(text, HasSubstr("second    2               70 B      -      60 B     0\n"));
  EXPECT_THAT(text, Not(HasSubstr("never ran")));
}

TEST(Report, OfStepsWithoutAScheduleHasNoPredictions) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 10).schedule = query::ScheduleId::None();
  test.Step(0, 1, 10, 20).schedule = query::ScheduleId::None();
  EXPECT_TRUE(MakeReport(*test.Build()).schedules.empty());
}

// What one step leaves is there when the next begins.
TEST(Report, APeakOfAScheduleCountsWhatItsStepsFound) {
  TestSnapshot test(1);
  test.NextSchedule("second");
  test.snapshot().schedules.at(query::ScheduleId(1)).largest.predicted_bytes = 1;
  test.Step(0, 0, 0, 100);
  test.Step(0, 1, 100, 200).schedule = query::ScheduleId(2);
  test.Memory(0, query::MemoryCategory::kOther, 50, 40);
  test.Memory(0, query::MemoryCategory::kOther, 150, -30);
  const Report report = MakeReport(*test.Build());
  EXPECT_EQ(report.schedules.back().memory.peak_bytes, 40);
}

// As the app has a large finished run: what its file keeps of the steps beside all rows.
TEST(ReportJson, IsTheSameOfRowsAndOfWhatWasDerivedFromThem) {
  const query::SnapshotPtr rows = MakeLessonSnapshot(3, 8, 4);
  auto derived = std::make_shared<query::DerivedRows>();
  const query::Deriver deriver = MakeDeriver();
  deriver.derive_steps(*rows, derived.get());
  deriver.derive_memory(*rows, derived.get());
  query::Snapshot both = *rows;
  both.derived = derived;
  ReportOptions options;
  options.every_stall = options.collectives = options.step_table = true;
  EXPECT_EQ(PrintReportJson(MakeReport(both, options)),
            PrintReportJson(MakeReport(*rows, options)));

  // An op of an evaluation has no derived stall, nor has one of a step that is not finished.
  query::Snapshot evaluated = both;
  for (query::RankRows& rank : evaluated.ranks) {
    query::RowList<query::OpRun> moved;
    for (query::OpRun run : rank.op_runs) {
      if (run.step == 0) run.step = -2;
      moved.Append(run);
    }
    rank.op_runs = moved;
  }
  const std::vector<Stall> stalls = RankStepOf(evaluated, 0, -2).stalls;
  query::Snapshot of_rows = evaluated;
  of_rows.derived = nullptr;
  EXPECT_FALSE(stalls.empty());
  EXPECT_EQ(stalls.size(), RankStepOf(of_rows, 0, -2).stalls.size());
  EXPECT_EQ(Stalls(evaluated, -2, -2).size(), Stalls(of_rows, -2, -2).size());
}

TEST(ReportJson, ListsEveryStallIfAsked) {
  const query::SnapshotPtr lesson = MakeLessonSnapshot(2, 6, 3);
  EXPECT_FALSE(nlohmann::json::parse(PrintReportJson(MakeReport(*lesson))).contains("every_stall"));
  const Report report = MakeReport(*lesson, {.every_stall = true});
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(report));
  int in_groups = 0;
  for (const StallGroup& group : report.figures.stalls) in_groups += group.count;
  EXPECT_GT(in_groups, 0);
  EXPECT_EQ(json["every_stall"].size(), static_cast<size_t>(in_groups));
}

TEST(ReportJson, SurvivesHostileText) {
  TestSnapshot test(1);
  test.snapshot().name = "\xFF\"\n";
  test.Step(0, 0, 0, 10).loss = std::numeric_limits<double>::quiet_NaN();
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(MakeReport(*test.Build())));
  EXPECT_TRUE(json["steps"][0]["loss"].is_null());
}

// A step in which no token counts has 0 in the trace.
TEST(Report, HasTheLossesOfStepsInWhichATokenCounts) {
  TestSnapshot test(1);
  for (int32_t step = 0; step < 4; ++step) {
    query::Step& row = test.Step(0, step, 100 * step, 100 * step + 100);
    row.tokens = 8;
    row.loss = step == 0 ? 0 : 7.0 - step;
  }
  query::Snapshot snapshot = *test.Build();
  snapshot.ranks.front().evaluations.push_back({.step = 0, .batches = 1, .tokens = 8, .loss = 6.5});
  const Report report = MakeReport(snapshot);
  const std::string text = PrintReportText(report);
  EXPECT_THAT(text, HasSubstr("loss 6.0000 -> 4.0000 nats\n"));
  EXPECT_THAT(text, HasSubstr("1 evaluation of 8 tokens, loss 6.5000 nats before step 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("0.0000")));
  EXPECT_EQ(nlohmann::json::parse(PrintReportJson(report))["summary"]["first_loss"], 6);
}

TEST(Report, NamesTheRankWhoseTrafficItIs) {
  TestSnapshot test(2);
  test.snapshot().schedules.at(query::ScheduleId(1)).name = "pipe";
  test.Step(0, 0, 0, 100);
  test.op(test.Plan("send", "forward")).wire_bytes = 600;
  EXPECT_THAT(PrintReportText(MakeReport(*test.Build())), HasSubstr("pipe      shard"));
  const query::PlanOpId other = test.Plan("send", "backward");
  test.op(other).wire_bytes = 900;
  test.op(other).program = 1;
  const Report report = MakeReport(*test.Build());
  EXPECT_THAT(PrintReportText(report), HasSubstr("pipe, rank 1  shard"));
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(report))["schedules"][0];
  EXPECT_EQ(json["traffic_rank"], 1);
  EXPECT_EQ(json["traffic"][0]["wire_bytes"], 900);
}

TEST(Report, OfAnEmptyRun) {
  TestSnapshot test(2);
  test.snapshot().state = query::TraceState::kLive;
  const Report report = MakeReport(*test.Build());
  EXPECT_TRUE(report.steps.empty());
  EXPECT_THAT(PrintReportText(report), HasSubstr("No step is finished yet."));
  EXPECT_EQ(nlohmann::json::parse(PrintReportJson(report))["steps"].size(), 0u);
}

TEST(Report, ListsAreShortAndSorted) {
  const Report report = MakeReport(*MakeLessonSnapshot(4, 20, 10));
  const Figures& figures = report.figures;
  ASSERT_EQ(figures.slowest_collectives.size(), 20u);
  for (size_t i = 1; i < figures.slowest_collectives.size(); ++i) {
    const CollectiveRun& before = figures.slowest_collectives[i - 1];
    const CollectiveRun& run = figures.slowest_collectives[i];
    EXPECT_GE(before.ended_ns - before.started_ns, run.ended_ns - run.started_ns);
    EXPECT_GE(run.step, kWarmUpSteps);
  }
  for (size_t i = 1; i < figures.stalls.size(); ++i) {
    EXPECT_GE(figures.stalls[i - 1].total_ns, figures.stalls[i].total_ns);
  }
}

// A damaged file may say so; what lies between takes no time.
TEST(Report, StepsAtTheEndsOfTheirRangeAreLookedAt) {
  TestSnapshot test(1);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  int64_t start_ns = 0;
  for (const int32_t step :
       {std::numeric_limits<int32_t>::min(), 0, 700, std::numeric_limits<int32_t>::max()}) {
    test.Run(0, step, gather, start_ns, start_ns + 10);
    test.Step(0, step, start_ns, start_ns + 20);
    start_ns += 20;
  }
  const query::SnapshotPtr snapshot = test.Build();
  EXPECT_EQ(MakeReport(*snapshot).figures.slowest_collectives.size(),
            2u);  // the others are warm-up
  const Scope newest{.kind = ScopeKind::kLastSteps, .count = 1};
  EXPECT_EQ(MakeReport(*snapshot, {.scope = newest}).figures.slowest_collectives.size(), 1u);
}

TEST(Report, ACacheAndAScopeChangeNoStepRow) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(2, 20, 10);
  BreakdownCache cache;
  const Report all = MakeReport(*snapshot);
  const Scope last{.kind = ScopeKind::kLastSteps, .count = 5};
  const Report recent = MakeReport(*snapshot, {.scope = last, .cache = &cache});
  ASSERT_EQ(recent.steps.size(), all.steps.size());
  EXPECT_EQ(recent.steps.back().time.exposed_ns, all.steps.back().time.exposed_ns);
  EXPECT_EQ(recent.memory[0].peak_bytes, all.memory[0].peak_bytes);
  for (const CollectiveRun& run : recent.figures.slowest_collectives) EXPECT_GE(run.step, 15);
}

TEST(ReportText, LastTenStepsUnlessAllAreAsked) {
  const Report report = MakeReport(*MakeLessonSnapshot(1, 30, 10));
  EXPECT_THAT(PrintReportText(report), HasSubstr("Steps 20 to 29, --all lists all"));
  EXPECT_THAT(PrintReportText(report), Not(HasSubstr("\n    19     0 ")));
  EXPECT_THAT(PrintReportText(report, 0), HasSubstr("\n    19     0 "));
}

TEST(ReportText, SaysThatARunFailedOrWasCut) {
  Report run = MakeReport(*MakeLessonSnapshot(2, 6, 99));
  EXPECT_THAT(PrintReportText(run), HasSubstr(": finished, 2 ranks, 6 steps, "));
  run.errors.push_back({.step = 5, .kind = "error", .new_value = "rank 1 hangs"});
  EXPECT_THAT(PrintReportText(run), HasSubstr(": failed, 2 ranks, 6 steps, "));
  EXPECT_THAT(PrintReportText(run), HasSubstr("\nThe run failed at step 5: rank 1 hangs\n"));
  run.cut_files = {"torch.profiler: it ends in an event"};
  EXPECT_THAT(PrintReportText(run), HasSubstr(": failed, 2 ranks, 6 steps, "));
  run.state = query::TraceState::kCut;
  EXPECT_THAT(PrintReportText(run), HasSubstr(": cut, 2 ranks, 6 steps, "));
  EXPECT_THAT(PrintReportText(run), HasSubstr("what it did last is missing\n"));
}

TEST(Report, TextAndJsonCallARunAlike) {
  Report run = MakeReport(*MakeLessonSnapshot(2, 6, 99));
  const auto expect = [&run](const std::string& word) {
    EXPECT_THAT(PrintReportText(run), HasSubstr(": " + word + ", 2 ranks, 6 steps, "));
    EXPECT_EQ(nlohmann::json::parse(PrintReportJson(run))["state"], word);
  };
  expect("finished");
  run.cut_files = {"torch.profiler: it ends in an event"};
  expect("cut");
  run.hang.is_hang = true;
  expect("failed");
  run.hang.is_hang = false;
  run.errors.push_back({.step = 5, .kind = "error", .new_value = "rank 1 hangs"});
  expect("failed");
  run.state = query::TraceState::kLive;
  expect("live");
}

TEST(Report, OfAFileThatIsNotWholeItSaysSoBeforeTheVerdict) {
  query::Snapshot run = *MakeLessonSnapshot(2, 6, 3);
  run.state = query::TraceState::kFinished;
  run.capabilities.push_back(
      {"torch.profiler", "partial", reasons::kFileIsCut + std::string("it ends in an event"), 0});
  const Report report = MakeReport(run);
  const std::string text = PrintReportText(report);
  EXPECT_THAT(text, HasSubstr(": cut, 2 ranks, 6 steps, "));
  const size_t said = text.find("A file of it is not whole");
  ASSERT_NE(said, std::string::npos);
  EXPECT_THAT(text.substr(said), HasSubstr("torch.profiler: it ends in an event\n"));
  ASSERT_FALSE(report.figures.explanation.verdict.sentence.empty());
  EXPECT_LT(said, text.find(report.figures.explanation.verdict.sentence));
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(report));
  EXPECT_EQ(json["state"], "cut");
  EXPECT_EQ(json["cut_files"], nlohmann::json::array({"torch.profiler: it ends in an event"}));
}

TEST(ReportText, NamesTheBandwidthThatTheRunFound) {
  query::Snapshot run = *MakeLessonSnapshot(2, 6, 99);
  run.config["link.bandwidth"] = "auto:0.6";
  run.markers.push_back({.step = 3,
                         .kind = "change",
                         .key = "link.bandwidth",
                         .old_value = "auto:0.6",
                         .new_value = "37MB/s"});
  EXPECT_THAT(PrintReportText(MakeReport(run)), HasSubstr("emulated at link.bandwidth=37MB/s"));
}

TEST(Report, SaysWhatTheRunWasSetUpWithAtTheLastStepOfItsScope) {
  query::Snapshot run = *MakeLessonSnapshot(2, 6, 99);
  run.config = {{"strategy", "full"},         {"preset", "fsdp1"},
                {"precision.param", "bf16"},  {"checkpointing", "none"},
                {"offload", "none"},          {"lora.rank", "8"},
                {"train.micro_batches", "1"}, {"precision.reduce", "fp32"}};
  run.markers.push_back({.step = 4,
                         .kind = "change",
                         .key = "checkpointing",
                         .old_value = "none",
                         .new_value = "full"});
  const Report whole = MakeReport(run);
  EXPECT_THAT(PrintReportText(whole),
              HasSubstr("\nwith strategy=full preset=fsdp1 precision.param=bf16 "
                        "checkpointing=full lora.rank=8\n"));
  EXPECT_EQ(nlohmann::json::parse(PrintReportJson(whole))["setup"],
            (nlohmann::json{{"strategy", "full"},
                            {"preset", "fsdp1"},
                            {"precision.param", "bf16"},
                            {"checkpointing", "full"},
                            {"lora.rank", "8"}}));
  run.config["strategy"] = "ddp";  // has no presets
  EXPECT_THAT(PrintReportText(MakeReport(run)), HasSubstr("with strategy=ddp precision.param"));
  run.config["strategy"] = "full";
  const Report before =
      MakeReport(run, {.scope = Scope{.kind = ScopeKind::kSteps, .first = 0, .last = 3}});
  EXPECT_THAT(PrintReportText(before),
              HasSubstr("\nwith strategy=full preset=fsdp1 precision.param=bf16 lora.rank=8\n"));
}

TEST(ReportText, CountsTheStepsOfItsScopeThatTheScalerLeftOut) {
  query::Snapshot run = *MakeLessonSnapshot(2, 6, 99);
  EXPECT_THAT(PrintReportText(MakeReport(run)), Not(HasSubstr("gradient scaler")));
  const auto skip = [](int32_t step, std::string before, std::string after) {
    return query::Marker{.step = step,
                         .kind = "skip",
                         .key = "scaler",
                         .old_value = std::move(before),
                         .new_value = std::move(after)};
  };
  run.markers = {skip(1, "65536", "32768"), skip(4, "32768", "16384"), skip(5, "16384", "8192")};
  const Report whole =
      MakeReport(run, {.scope = Scope{.kind = ScopeKind::kSteps, .first = 0, .last = 4}});
  EXPECT_THAT(PrintReportText(whole),
              HasSubstr("gradient scaler: 2 steps skipped, the last at 4, scale 32768 -> 16384\n"));
  EXPECT_EQ(nlohmann::json::parse(PrintReportJson(whole))["skipped_steps"], 2);
}

TEST(ReportText, OfOneRankAndOneStepCountsThemInTheSingular) {
  const Report one = MakeReport(*MakeLessonSnapshot(1, 1, 99));
  EXPECT_THAT(PrintReportText(one), HasSubstr(": finished, 1 rank, 1 step, "));
  EXPECT_THAT(PrintReportText(one), HasSubstr("Over 1 step of 1 rank"));
}

TEST(ReportText, SaysWhatEachSourceCouldDo) {
  TestSnapshot test(1);
  test.snapshot().capabilities = {{"engine", "on", "", 0},
                                  {"memory", "on", "", 0},
                                  {"cupti", "off", "another tool holds it", 0},
                                  {"engine", "on", "", 0},
                                  {"engine", "partial", "the ring was full", 7}};
  test.Step(0, 0, 0, 1000);
  const Report report = MakeReport(*test.Build());
  EXPECT_THAT(PrintReportText(report), HasSubstr("Sources of this trace\n  engine, memory on\n"
                                                 "  cupti off: another tool holds it\n"));
  ASSERT_EQ(report.sources.size(), 4u);  // one of each; what was lost is told with its count
  EXPECT_EQ(report.sources[1].source, "engine");
  EXPECT_EQ(report.sources[1].dropped, 7);
}

TEST(ReportText, MemoryOfAGpuWithoutEventsIsNoZero) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 1000);
  EXPECT_THAT(PrintReportText(MakeReport(*test.Build())), Not(HasSubstr("emory")));
  test.snapshot().ranks[0].segments.Append({10, 600'000'000, 0, 1});
  const std::string text = PrintReportText(MakeReport(*test.Build()));
  EXPECT_THAT(text, Not(HasSubstr("Peak memory")));
  EXPECT_THAT(text, HasSubstr("Memory of GPUs\n  rank 0: 600 MB at most from the driver\n"));
  test.snapshot().ranks[0].device_used.Append({10, 900'000'000});
  EXPECT_THAT(PrintReportText(MakeReport(*test.Build())),
              HasSubstr("from the driver, 900 MB of the GPU in use at most"));
}

TEST(ReportText, SaysWhatIsEmulatedAndWhatIsLost) {
  TestSnapshot test(1);
  test.snapshot().truth = query::Truth::kEmulated;
  test.snapshot().capabilities = {{"engine", "on", "", 2}, {"engine", "on", "", 3}};
  test.Step(0, 0, 0, 1000);
  const std::string text = PrintReportText(MakeReport(*test.Build()));
  EXPECT_THAT(text, HasSubstr("communication emulated"));
  EXPECT_THAT(text, HasSubstr("exposed communication emulated"));
  EXPECT_THAT(text, HasSubstr("5 records dropped (engine 5): the trace has holes"));
  test.snapshot().truth = query::Truth::kMeasured;
  EXPECT_THAT(PrintReportText(MakeReport(*test.Build())), Not(HasSubstr("emulated")));
}

}  // namespace
}  // namespace shardscope::analysis
