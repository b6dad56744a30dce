// What the panels say of runs that lack something: steps, ranks, knobs; of what a bar holds; and
// the size of it all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/base/reasons.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

class StatesTest : public testing::Test {
 protected:
  void Open(const query::Snapshot& snapshot) {
    harness_.shell().OpenSnapshot(std::make_shared<query::Snapshot>(snapshot));
    harness_.Frames(8);
  }
  // "" where nothing of that id was drawn.
  std::string Text(const char* panel, const std::string& id) const {
    const ui::DrawnItem* item = harness_.log().Find(panel, id);
    return item == nullptr ? "" : item->text;
  }
  // Of `shardscope record -- true`: the span of a process, and what its meta says.
  static query::Snapshot RecordedProgram() {
    query::Snapshot snapshot;
    snapshot.generation = 1;
    snapshot.state = query::TraceState::kFinished;
    snapshot.name = "recorded";
    snapshot.meta["recorded"] = "command";
    snapshot.start_ns = 1'000'000;
    snapshot.end_ns = 6'000'000;
    snapshot.ranks.emplace_back();
    return snapshot;
  }

  Harness harness_;
};

TEST_F(StatesTest, ARecordedProgramHasNoNumbersOfSteps) {
  Open(RecordedProgram());
  for (const char* id : {"step", "step_ns_p50", "exposed_ns_p50", "overlap_ratio",
                         "tokens_per_second", "peak_bytes"}) {
    EXPECT_EQ(Text("top_bar", id), "–") << id;
  }
  EXPECT_THAT(Text("overlap", "empty"), HasSubstr("no steps"));
  EXPECT_NE(harness_.log().Find("timeline", "minimap"), nullptr);
}

TEST_F(StatesTest, ARecordedProgramWithoutStepsIsNotWaitedFor) {
  query::Snapshot program = RecordedProgram();
  program.meta["imported"] = "snapshot";
  Open(program);
  for (const char* panel : {"ranks", "steps", "collectives"}) {
    harness_.shell().Post(ui::FocusPanel{panel});
    EXPECT_TRUE(harness_.Until(
        [&] { return Text(panel, "empty").find("no steps") != std::string::npos; }, 10))
        << panel << ": " << Text(panel, "empty");
  }
  EXPECT_THAT(Text("memory", "empty"), HasSubstr("profile_memory=True"));
  program.meta.erase("imported");
  program.state = query::TraceState::kLive;  // it may record some yet
  Open(program);
  harness_.shell().Post(ui::FocusPanel{"steps"});
  EXPECT_TRUE(
      harness_.Until([&] { return Text("steps", "empty") == "No step has ended yet."; }, 10));
}

TEST_F(StatesTest, ARunWithoutStepsKeepsTheViewOfItsUser) {
  for (const auto state : {query::TraceState::kFinished, query::TraceState::kLive}) {
    query::Snapshot program = RecordedProgram();
    program.state = state;
    Open(program);
    EXPECT_LE(harness_.context().view.start_ns, program.start_ns);
    EXPECT_GE(harness_.context().view.end_ns, program.end_ns);
    harness_.shell().Post(ui::SetView{2'000'000, 3'000'000, false, false});
    harness_.Frames(4);
    EXPECT_EQ(harness_.context().view.start_ns, 2'000'000);
    EXPECT_EQ(harness_.context().view.end_ns, 3'000'000);
  }
}

TEST_F(StatesTest, ARecordedProgramHasNoKnobs) {
  Open(RecordedProgram());
  EXPECT_THAT(Text("run_control", "notice"), HasSubstr("recorded program"));
  EXPECT_EQ(harness_.log().Find("run_control", "knob:prefetch.backward"), nullptr);
  Open(*analysis::MakeLessonSnapshot(2, 6, 99));
  EXPECT_NE(harness_.log().Find("run_control", "knob:prefetch.backward"), nullptr);
}

TEST_F(StatesTest, WithoutARankNothingIsDrawnAndThatIsSaid) {
  query::Snapshot nothing = RecordedProgram();
  nothing.ranks.clear();
  Open(nothing);
  EXPECT_EQ(Text("timeline", "empty"), "Nothing was recorded in recorded.");
  nothing.state = query::TraceState::kLive;
  Open(nothing);
  EXPECT_EQ(Text("timeline", "empty"), "Waiting for the first step of recorded.");
}

TEST_F(StatesTest, TheOverlapPanelSaysWhoseStepsAndHowManyABarHolds) {
  Open(*analysis::MakeLessonSnapshot(2, 24, 12));
  EXPECT_EQ(Text("overlap", "rank"), "rank 0");
  Open(*analysis::MakeLessonSnapshot(2, 400, 12));
  EXPECT_THAT(Text("overlap", "rank"), testing::MatchesRegex("rank 0 .+ up to [0-9]+ steps a bar"));
}

TEST_F(StatesTest, TheOverlapLegendNamesEveryColourOfTheBars) {
  Open(*analysis::MakeLessonSnapshot(2, 24, 12));
  for (const char* name : {"compute", "exposed", "idle", "overlap ratio"}) {
    EXPECT_EQ(Text("overlap", std::string("legend:") + name), name);
  }
  const ui::DrawnItem* copy = harness_.log().Find("overlap", "legend:exposed copy");
  const ui::DrawnItem* last = harness_.log().Find("overlap", "legend:overlap ratio");
  ASSERT_TRUE(copy != nullptr && last != nullptr);
  EXPECT_GT(last->box.y0, copy->box.y0);  // what does not fit stands in a line below
  query::Snapshot without = *analysis::MakeLessonSnapshot(2, 24, 12);
  for (auto& [id, op] : without.plan_ops) {
    if (op.category == query::Category::kCopy) op.category = query::Category::kHost;
  }
  Open(without);
  EXPECT_EQ(harness_.log().Find("overlap", "legend:exposed copy"), nullptr);
  EXPECT_NE(harness_.log().Find("overlap", "legend:overlap ratio"), nullptr);
}

TEST_F(StatesTest, LegendsAreLoggedByIdsOfNoLanguage) {
  Open(*analysis::MakeLessonSnapshot(2, 24, 12));
  const auto names = [this](const char* panel) {
    std::map<std::string, std::string> by_id;
    for (const ui::DrawnItem& item : harness_.log().items()) {
      if (item.panel == panel && item.id.starts_with("legend:")) by_id[item.id] = item.text;
    }
    return by_id;
  };
  for (const auto& [panel, text] : {std::pair("timeline", ui::Text::kForward),
                                    {"memory", ui::Text::kMemoryParameterShard},
                                    {"overlap", ui::Text::kCompute}}) {
    const std::string id = std::string("legend:") + Tr(ui::Language::kEnglish, text);
    for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
      harness_.shell().Post(ui::SetLanguage{language});
      harness_.Frames(3);
      EXPECT_EQ(names(panel)[id], Tr(language, text)) << panel;
    }
  }
}

TEST_F(StatesTest, TheOverlapPanelHasALineForEachChange) {
  query::Snapshot run = *analysis::MakeLessonSnapshot(2, 24, 12);
  const query::Marker change =
      *std::find_if(run.markers.begin(), run.markers.end(),
                    [](const query::Marker& marker) { return query::IsKnobChange(marker); });
  for (const int32_t step : {6, 18}) {
    run.markers.push_back(change);
    run.markers.back().step = step;
  }
  Open(run);
  std::vector<float> lines;
  for (const int step : {6, 12, 18}) {
    const ui::DrawnItem* line = harness_.log().Find("overlap", "change:" + std::to_string(step));
    ASSERT_NE(line, nullptr) << step;
    lines.push_back(line->box.x0);
    const ui::DrawnItem* bar = harness_.log().Find("overlap", "compute:" + std::to_string(step));
    ASSERT_NE(bar, nullptr);
    EXPECT_NEAR(line->box.x0, bar->box.x0, 2);
  }
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end()));
}

TEST_F(StatesTest, ABarOfTheOverlapLeadsToItsStep) {
  Open(*analysis::MakeLessonSnapshot(2, 24, 12));
  const query::Step step = harness_.context().snapshot->FindRank(0)->steps[18];
  const ui::View& view = harness_.context().view;
  ASSERT_LT(view.end_ns, step.end_ns);  // it is around the change
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "overlap", "compute:18"));
    test->MouseClick();
    test->SleepNoSkip(0.5F, 1.0F / 60);
  }));
  EXPECT_LE(view.start_ns, step.start_ns);
  EXPECT_GE(view.end_ns, step.end_ns);
  EXPECT_LT(view.end_ns - view.start_ns, 2 * (step.end_ns - step.start_ns));
}

TEST_F(StatesTest, ARunThatFailedIsNotCalledFinished) {
  query::Snapshot run = *analysis::MakeLessonSnapshot(2, 24, 12);
  run.state = query::TraceState::kFinished;
  Open(run);
  EXPECT_EQ(Text("top_bar", "state"), "FINISHED");
  run.markers.push_back({run.end_ns, 23, "error", "", "", "rank 1 hangs"});
  ++run.generation;
  Open(run);
  EXPECT_EQ(Text("top_bar", "state"), "FAILED");
  run.state = query::TraceState::kCut;
  ++run.generation;
  Open(run);
  EXPECT_EQ(Text("top_bar", "state"), "CUT");
}

// Its steps come when all other rows that were there are read.
TEST_F(StatesTest, ALiveRunWhoseFirstRowsAreStillReadIsLoadingAndHasNoFigures) {
  query::Snapshot run = *analysis::MakeLessonSnapshot(2, 24, 12);
  const query::Snapshot whole = run;
  run.state = query::TraceState::kLive;
  run.is_behind = true;
  for (query::RankRows& rows : run.ranks) rows.steps = {};
  Open(run);
  EXPECT_EQ(Text("top_bar", "state"), "LOADING");
  for (const char* id : {"step_ns_p50", "exposed_ns_p50", "overlap_ratio"}) {
    EXPECT_EQ(Text("top_bar", id), "–") << id;
  }
  run = whole;
  run.state = query::TraceState::kLive;
  ++run.generation;
  Open(run);
  EXPECT_EQ(Text("top_bar", "state"), "LIVE");
  EXPECT_NE(Text("top_bar", "exposed_ns_p50"), "–");
}

TEST_F(StatesTest, ATraceOfAFileThatIsNotWholeIsCalledCutAndSaysWhy) {
  query::Snapshot run = *analysis::MakeLessonSnapshot(2, 24, 12);
  run.state = query::TraceState::kFinished;
  run.capabilities.push_back(
      {"torch.profiler", "partial", reasons::kFileIsCut + std::string("it ends in an event"), 0});
  Open(run);
  EXPECT_EQ(Text("top_bar", "state"), "CUT");
  EXPECT_THAT(Text("banner", "problem"), HasSubstr("not whole"));
  EXPECT_THAT(Text("banner", "problem"), HasSubstr("it ends in an event"));
}

TEST_F(StatesTest, ARangeWhoseEndWasNotSeenIsOpenAndDetailsSaySo) {
  query::Snapshot run = RecordedProgram();
  run.meta["imported"] = "flight_recorder";
  run.tracks.push_back(
      {query::TrackId(1), 0, "collectives of group 0", query::TrackRole::kHost, 0});
  for (const char* name : {"", "nccl:all_gather", "nccl:all_gather (not ended)"}) {
    run.names.Append(name);
  }
  const auto add = [&run](int64_t id, int64_t start_ns, int64_t end_ns, int32_t name) {
    run.ranks[0].spans.Append({query::SpanId(id), query::TrackId(1), start_ns, end_ns, name,
                               query::SpanCategory::kCommunication});
  };
  add(1, 1'000'000, 2'000'000, 1);
  add(2, 5'000'000, 5'000'000, 2);
  query::FlightEntry entry;
  entry.state = query::FlightState::kStarted;
  entry.sequence = 1;
  entry.group = "0";
  run.flight_entries.Append(entry);
  Open(run);
  EXPECT_GT(harness_.context().view.end_ns, run.end_ns);  // there is room behind it
  const ui::DrawnItem* ended = harness_.log().Find("timeline", "range:0:1");
  const ui::DrawnItem* open = harness_.log().Find("timeline", "range:0:2");
  ASSERT_NE(ended, nullptr);
  ASSERT_NE(open, nullptr);
  // A millisecond, and to the end of the view.
  EXPECT_GT(open->box.x1 - open->box.x0, 1.2F * (ended->box.x1 - ended->box.x0));
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "range:0:2"));
    test->MouseClick();
  }));
  harness_.Frames(4);
  EXPECT_EQ(harness_.context().selection.span, query::SpanId(2));
  EXPECT_EQ(Text("details", "ended"), "not seen");
  EXPECT_EQ(Text("details", "duration"), "");
  EXPECT_THAT(Text("details", "meaning"), HasSubstr("still open"));
}

TEST_F(StatesTest, ACollectiveThatIsScheduledWasAskedForAndHasNotBegun) {
  query::Snapshot run = RecordedProgram();
  run.meta["imported"] = "flight_recorder";
  run.tracks.push_back(
      {query::TrackId(1), 0, "collectives of group 0", query::TrackRole::kHost, 0});
  for (const char* name : {"", "nccl:all_gather (not ended)"}) run.names.Append(name);
  run.ranks[0].spans.Append(
      {query::SpanId(1), query::TrackId(1), 1'400'000, 6'000'000, 1, query::SpanCategory::kWait});
  query::FlightEntry entry;
  entry.sequence = 1;
  entry.group = "0";
  run.flight_entries.Append(entry);
  Open(run);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "range:0:1"));
    test->MouseClick();
  }));
  harness_.Frames(4);
  EXPECT_EQ(harness_.context().selection.span, query::SpanId(1));
  EXPECT_EQ(Text("details", "asked_for"), "0.400 ms, not begun");
  for (const char* id : {"started", "ended", "duration"}) EXPECT_EQ(Text("details", id), "") << id;
  EXPECT_THAT(Text("details", "meaning"), HasSubstr("had not begun"));
  harness_.shell().Post(ui::SetLanguage{ui::Language::kChinese});
  harness_.Frames(4);
  EXPECT_EQ(Text("details", "asked_for"), "0.400 ms，尚未开始");
}

// From the dumps of flight recorders.
TEST_F(StatesTest, AHangIsNotCalledFinishedAndCollectivesSayWhereEachRankIs) {
  query::Snapshot run = RecordedProgram();
  run.meta["imported"] = "flight_recorder";
  if (run.names.empty()) run.names.Append("");
  const auto add = [&run](int32_t rank, int64_t sequence, query::FlightState state) {
    query::FlightEntry entry;
    entry.rank = rank;
    entry.sequence = sequence;
    entry.record = sequence;
    entry.created_ns = 1'000 * sequence;
    entry.state = state;
    entry.group = "0";
    entry.name = "nccl:all_gather";
    entry.input = "Float [4]";
    run.flight_entries.Append(entry);
  };
  for (const int32_t rank : {0, 1}) {
    query::FlightGroup group;
    group.rank = rank;
    group.name = "0";
    group.description = "default_pg";
    group.members = {0, 1, 2};
    run.flight_groups.Append(group);
    add(rank, 4, query::FlightState::kCompleted);
  }
  add(1, 5, query::FlightState::kStarted);
  Open(run);
  EXPECT_EQ(Text("top_bar", "state"), "FAILED");
  harness_.shell().Post(ui::FocusPanel{"collectives"});
  harness_.Frames(8);
  EXPECT_THAT(Text("collectives", "hang"), HasSubstr("all_gather #5 of group 0"));
  const ui::DrawnItem* waits = harness_.log().Find("collectives", "hang:0:1");
  ASSERT_NE(waits, nullptr);
  EXPECT_EQ(waits->text, "all_gather");
  EXPECT_EQ(std::get<int64_t>(waits->value), 5);
  EXPECT_EQ(std::get<int64_t>(harness_.log().Find("collectives", "hang:0:0")->value), 4);
  EXPECT_EQ(Text("collectives", "hang:0:2"), "no dump");
}

TEST_F(StatesTest, TheCardOfAChangeEndsWithWhatItHas) {
  query::Snapshot run = *analysis::MakeLessonSnapshot(2, 24, 22);
  run.state = query::TraceState::kLive;
  Open(run);
  EXPECT_THAT(Text("run_control", "change.gathering"), HasSubstr("2 of 3"));
  run.state = query::TraceState::kFinished;  // no third step will come
  ++run.generation;
  Open(run);
  EXPECT_EQ(Text("run_control", "change.gathering"), "");
  EXPECT_THAT(Text("run_control", "change.few"), HasSubstr("20 steps before, 2 after"));
  EXPECT_NE(Text("run_control", "change.step_ns.after"), "");
  EXPECT_THAT(Text("run_control", "change.peak_bytes.after"), HasSubstr("→"));
  // Nor does waiting help where there are too few steps before the change.
  run = *analysis::MakeLessonSnapshot(2, 24, 2);
  run.state = query::TraceState::kLive;
  Open(run);
  EXPECT_EQ(Text("run_control", "change.gathering"), "");
  EXPECT_NE(Text("run_control", "change.few"), "");
}

TEST_F(StatesTest, TheCardOfAChangeOfTokensSaysHowManyASecond) {
  EXPECT_EQ(Text("run_control", "change.tokens"), "");
  analysis::TestSnapshot test(2);
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
  constexpr int64_t kMs = 1'000'000;
  int64_t start_ns = 0;
  for (int32_t step = 0; step < 12; ++step) {
    const int64_t end_ns = start_ns + (step < 6 ? 40 : 25) * kMs;
    for (int32_t rank = 0; rank < 2; ++rank) {
      test.Run(rank, step, forward, start_ns, end_ns - kMs);
      test.Step(rank, step, start_ns, end_ns).tokens = step < 6 ? 100 : 50;
    }
    start_ns = end_ns;
  }
  test.snapshot().markers = {{240 * kMs, 6, "change", "strategy", "full", "pipeline"}};
  Open(*test.Build());
  EXPECT_THAT(Text("run_control", "change.tokens"), HasSubstr("200 → 100 tokens a step"));
  for (const auto& [id, tokens] : {std::pair("before", 5000.0), {"after", 4000.0}}) {
    const std::string name = std::string("change.tokens_per_second.") + id;
    const ui::DrawnItem* item = harness_.log().Find("run_control", name);
    ASSERT_NE(item, nullptr) << name;
    EXPECT_NEAR(std::get<double>(item->value), tokens, 1);
  }
  // Of as many tokens nothing is said.
  Open(*analysis::MakeLessonSnapshot(2, 24, 12));
  EXPECT_NE(Text("run_control", "change.step_ns.after"), "");
  EXPECT_EQ(Text("run_control", "change.tokens_per_second.after"), "");
}

TEST_F(StatesTest, AKeyBringsTheDefaultSizeBack) {
  EXPECT_EQ(harness_.context().scale, 1);
  const auto press = [this](ImGuiKeyChord chord) {
    EXPECT_TRUE(harness_.Drive([chord](ImGuiTestContext* test) { test->KeyPress(chord); }));
  };
  press(ImGuiMod_Ctrl | ImGuiKey_Equal);
  press(ImGuiMod_Ctrl | ImGuiKey_Equal);
  EXPECT_GT(harness_.context().scale, 1.15F);
  press(ImGuiMod_Ctrl | ImGuiKey_0);
  EXPECT_EQ(harness_.context().scale, 1);
}

}  // namespace
}  // namespace shardscope::ui_test
