// The whole window as a picture, from the prefetch lesson.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/places.h"
#include "trace/analysis/report/report.h"
#include "trace/base/units.h"
#include "trace/query/live_trace.h"
#include "trace/query/summary.h"
#include "ui/link.h"
#include "ui/shell/shot.h"

namespace shardscope::shell {
namespace {

query::SnapshotPtr Lesson() {
  static const query::SnapshotPtr kLesson = analysis::MakeLessonSnapshot(4, 24, 12);
  return kLesson;
}

// Where SHARDSCOPE_PICTURES names a folder, the pictures are kept for people to look at.
void Keep(const Shot& shot, const std::string& name) {
  const char* folder = std::getenv("SHARDSCOPE_PICTURES");
  if (folder == nullptr) return;
  const Status status = WritePng(shot.image, std::string(folder) + "/" + name + ".png");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Shot, SameInputGivesTheSameBytes) {
  const auto first = TakeShot(Lesson(), {});
  const auto second = TakeShot(Lesson(), {});
  ASSERT_TRUE(first.ok()) << first.message();
  ASSERT_TRUE(second.ok()) << second.message();
  Keep(*first, "dark-en");
  EXPECT_EQ(first->image.rgba, second->image.rgba);
  EXPECT_EQ(first->image.width, 1600);
  EXPECT_EQ(first->image.rgba.size(), size_t{1600} * 900 * 4);
}

TEST(Shot, LanguageAndThemeChangeThePicture) {
  const auto dark = TakeShot(Lesson(), {});
  const auto light = TakeShot(Lesson(), {.theme = ui::ThemeName::kLight});
  const auto chinese = TakeShot(Lesson(), {.language = ui::Language::kChinese});
  ASSERT_TRUE(dark.ok() && light.ok() && chinese.ok());
  Keep(*light, "light-en");
  Keep(*chinese, "dark-zh");
  EXPECT_NE(dark->image.rgba, light->image.rgba);
  EXPECT_NE(dark->image.rgba, chinese->image.rgba);
  EXPECT_EQ(dark->log.Find("top_bar", "state")->text, "FINISHED");
  EXPECT_EQ(chinese->log.Find("top_bar", "state")->text, "已结束");
}

TEST(Shot, ANarrowWindowStillSaysThatTheLinkIsEmulatedAndLeavesTheTimelineRoom) {
  for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
    const auto scope = analysis::ParseScope("since-change").value();
    const auto narrow =
        TakeShot(Lesson(), {.width = 1024, .height = 640, .scope = scope, .language = language});
    const auto least = TakeShot(Lesson(), {.width = 800, .height = 500, .language = language});
    ASSERT_TRUE(narrow.ok() && least.ok());
    Keep(*narrow, language == ui::Language::kChinese ? "narrow-zh" : "narrow-en");
    Keep(*least, language == ui::Language::kChinese ? "least-zh" : "least-en");
    for (const char* id : {"state", "scope", "step_ns_p50", "exposed_share", "overlap_ratio",
                           "tokens_per_second", "peak_bytes", "truth"}) {
      EXPECT_NE(narrow->log.Find("top_bar", id), nullptr) << id;
    }
    EXPECT_NE(least->log.Find("top_bar", "truth"), nullptr);
    const ui::DrawnItem* minimap = least->log.Find("timeline", "minimap");
    ASSERT_NE(minimap, nullptr);
    EXPECT_GT(minimap->box.x1 - minimap->box.x0, 800 / 4);
  }
}

// `shardscope shot` of a large trace reads the rows of a few steps and what is derived of the rest.
TEST(Shot, OfALargeFinishedTraceIsThatOfAllItsRows) {
  const std::string folder = testing::TempDir() + "/shardscope_shot_of_large";
  std::filesystem::remove_all(folder);
  const std::string generate = BinDir() + "/trace_generator " + folder + " 26000 4 >&2";
  ASSERT_EQ(std::system(generate.c_str()), 0);
  const query::SnapshotPtr whole = query::ReadSnapshot(folder).value();
  for (const int step : {-1, 0, 21, 50, 60, whole->ranks[0].steps.back().step}) {
    ShotOptions options;
    options.step = step;
    options.height = 1200;  // all four ranks
    if (step == 60) options.panel = "log";
    const query::SnapshotPtr some =
        query::ReadSummaryAround(
            folder, [&](const query::Snapshot& summary) { return TimesOfShot(summary, options); },
            0)
            .value();
    ASSERT_NE(some, nullptr);
    EXPECT_LT(some->ranks[0].op_runs.size(), whole->ranks[0].op_runs.size());
    EXPECT_LT(some->ranks[0].memory.size(), whole->ranks[0].memory.size());
    const auto expected = TakeShot(whole, options);
    const auto shot = TakeShot(some, options);
    ASSERT_TRUE(expected.ok() && shot.ok());
    EXPECT_EQ(PrintShotJson(*some, options, shot->log),
              PrintShotJson(*whole, options, expected->log));
    EXPECT_TRUE(shot->image.rgba == expected->image.rgba) << "step " << step;
    Keep(*shot, fmt::format("large-{}", step));
    Keep(*expected, fmt::format("large-{}-all-rows", step));
  }
  for (const char* text : {"step=21&t=+1ms..+9ms", "step=50", "step=3..6&rank=3"}) {
    const ShotOptions options{.height = 1200, .link = std::get<ui::Link>(ui::ParseLink(text))};
    const query::SnapshotPtr some =
        query::ReadSummaryAround(
            folder, [&](const query::Snapshot& summary) { return TimesOfShot(summary, options); },
            0)
            .value();
    ASSERT_NE(some, nullptr) << text;
    EXPECT_TRUE(TakeShot(some, options)->image.rgba == TakeShot(whole, options)->image.rgba)
        << text;
  }
  // Where more may be shown, all is read.
  const auto all = [&](const ShotOptions& options) {
    return query::ReadSummaryAround(
               folder, [&](const query::Snapshot& s) { return TimesOfShot(s, options); }, 0)
               .value() == nullptr;
  };
  EXPECT_FALSE(all({.scope = analysis::ParseScope("whole-run").value()}));
  EXPECT_TRUE(all({.scope = analysis::ParseScope("since-change").value()}));
  EXPECT_TRUE(all({.panel = "ranks"}));
  EXPECT_FALSE(all({.panel = "steps"}));
  EXPECT_TRUE(all({.search = "all_gather"}));
  EXPECT_TRUE(all({.at = "step=3"}));
  EXPECT_TRUE(all({.link = std::get<ui::Link>(ui::ParseLink("step=3&rank=0&op=5"))}));
  std::filesystem::remove_all(folder);
}

TEST(Shot, OfALinkShowsItsPlaceAndSaysWhenThereIsNone) {
  const auto shot_of = [](const char* text) {
    return TakeShot(Lesson(), {.link = std::get<ui::Link>(ui::ParseLink(text))});
  };
  const auto shot = shot_of("step=5&rank=2&op=AG%20block1");
  ASSERT_TRUE(shot.ok());
  const ui::DrawnItem* details = shot->log.Find("details", "title");
  ASSERT_NE(details, nullptr);
  EXPECT_THAT(details->text, testing::HasSubstr("all_gather block1"));
  EXPECT_NE(shot->log.Find("timeline", "step:5"), nullptr);
  EXPECT_THAT(shot_of("step=99").message(), testing::HasSubstr("step=99: there is no such step"));
}

TEST(Shot, OfALinkToARankShowsAllOfItAndItsOwnStall) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(24, 12, 99);
  const query::Step& step = snapshot->ranks[17].steps[6];
  const std::string text = fmt::format("step=6&rank=17&t=+0ns..+{}ns",  // stalls are wide there
                                       (step.end_ns - step.start_ns) / 2);
  const auto shot = TakeShot(snapshot, {.link = std::get<ui::Link>(ui::ParseLink(text))});
  ASSERT_TRUE(shot.ok()) << shot.message();
  const ui::DrawnItem* rank = shot->log.Find("timeline", "rank:17");
  const ui::DrawnItem* next = shot->log.Find("timeline", "rank:18");
  ASSERT_TRUE(rank != nullptr && next != nullptr);  // between them all lanes of rank 17
  EXPECT_EQ(shot->log.Find("timeline", "rank:0"), nullptr);
  EXPECT_NE(shot->log.Find("memory", "rank:17"), nullptr);
  EXPECT_EQ(shot->log.Find("memory", "rank:0"), nullptr);
  const ui::DrawnItem* stall = shot->log.Find("timeline", "stall");
  ASSERT_NE(stall, nullptr);
  EXPECT_GT(stall->box.y0, rank->box.y0);
  EXPECT_LT(stall->box.y0, next->box.y0);
  const std::vector<analysis::Stall> stalls = analysis::Stalls(*snapshot, 6, 6);
  EXPECT_TRUE(std::any_of(stalls.begin(), stalls.end(), [&](const analysis::Stall& one) {
    return one.rank == 17 && one.stall_ns == std::get<int64_t>(stall->value);
  }));
}

bool Overlap(const ui::Box& a, const ui::Box& b) {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

// The boxes of these are those of texts and buttons; others are of rows and plots.
bool IsLabel(const ui::DrawnItem& item) {
  if (item.panel == "top_bar") return true;
  const auto starts = [&item](const char* start) { return item.id.rfind(start, 0) == 0; };
  return item.panel == "memory" &&
         (starts("legend:") || starts("rank:") || starts("peak:") || starts("axis_max:"));
}

TEST(Shot, LargeTextOverlapsNothingAndTopStallsHasRows) {
  struct Window {
    int width;
    int height;
    float scale;
  };
  for (const Window window : {Window{1920, 1080, 2},
                              {1600, 900, 1.5F},
                              {1280, 720, 2},
                              {1920, 1080, 3},
                              {1000, 700, 1}}) {
    for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
      const auto shot = TakeShot(Lesson(), {.width = window.width,
                                            .height = window.height,
                                            .language = language,
                                            .scale = window.scale});
      ASSERT_TRUE(shot.ok()) << shot.message();
      SCOPED_TRACE(testing::Message()
                   << window.width << "x" << window.height << " at scale " << window.scale);
      std::vector<ui::DrawnItem> labels;
      float first_stall = std::numeric_limits<float>::max();
      for (const ui::DrawnItem& item : shot->log.items()) {
        if (IsLabel(item)) labels.push_back(item);
        if (item.panel == "overlap" && item.id.rfind("stall:", 0) == 0) {
          first_stall = std::min(first_stall, item.box.y1);
        }
      }
      for (size_t i = 0; i < labels.size(); ++i) {
        for (size_t j = i + 1; j < labels.size(); ++j) {
          // Two values that are one text.
          if (labels[i].panel != labels[j].panel || labels[i].text == labels[j].text) continue;
          EXPECT_FALSE(Overlap(labels[i].box, labels[j].box))
              << labels[i].id << " (" << labels[i].text << ") and " << labels[j].id << " ("
              << labels[j].text << ")";
        }
      }
      const ui::DrawnItem* details = shot->log.Find("details", "title");
      ASSERT_NE(details, nullptr);
      // In less height the sentences over them leave no room: one scrolls to them.
      const bool has_room = static_cast<float>(window.height) / window.scale >= 450;
      EXPECT_LT(first_stall, has_room ? details->box.y0 : std::numeric_limits<float>::max());
    }
  }
}

// However large the text: what is not measured, and what was measured on shared cores, says so.
TEST(Shot, TheTopBarAlwaysSaysHowTrueItsNumbersAre) {
  query::Snapshot shared = *Lesson();
  shared.contended = true;
  shared.meta["num_cores"] = "2";
  const auto emulated = std::make_shared<query::Snapshot>(shared);
  shared.truth = query::Truth::kMeasured;
  const auto measured = std::make_shared<query::Snapshot>(shared);
  for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
    for (const float scale : {1.0F, 1.5F, 2.0F, 2.5F}) {
      const ShotOptions options{
          .width = 1920, .height = 1080, .language = language, .scale = scale};
      const auto both = TakeShot(emulated, options);
      const auto one = TakeShot(measured, options);
      ASSERT_TRUE(both.ok() && one.ok());
      EXPECT_NE(both->log.Find("top_bar", "truth"), nullptr) << scale;
      for (const Shot* shot : {&*both, &*one}) {
        const ui::DrawnItem* contended = shot->log.Find("top_bar", "contended");
        ASSERT_NE(contended, nullptr) << scale;
        EXPECT_THAT(contended->text, testing::HasSubstr("2"));
        EXPECT_LE(contended->box.x1, shot->log.Find("top_bar", "button:pause")->box.x0);
      }
      if (scale > 1) continue;  // no room for all numbers
      EXPECT_NE(one->log.Find("top_bar", "peak_bytes"), nullptr) << scale;
    }
  }
}

// The top bar and the stalls of a picture, against figures of the same scope.
void ExpectFigures(const Shot& shot, const analysis::Figures& figures) {
  const auto value = [&](const char* id) {
    const ui::DrawnItem* item = shot.log.Find("top_bar", id);
    return item == nullptr ? -1.0 : std::get<double>(item->value);
  };
  EXPECT_EQ(value("step_ns_p50"), figures.summary.step_ns.p50);
  EXPECT_EQ(value("exposed_ns_p50"), figures.summary.exposed_ns.p50);
  EXPECT_EQ(value("exposed_share"), figures.summary.exposed_share);
  EXPECT_EQ(value("overlap_ratio"), figures.summary.overlap_ratio);
  EXPECT_EQ(value("tokens_per_second"), figures.summary.tokens_per_second);
  int64_t peak = 0;
  for (const analysis::MemoryPeak& rank : figures.memory) peak = std::max(peak, rank.peak_bytes);
  EXPECT_EQ(std::get<int64_t>(shot.log.Find("top_bar", "peak_bytes")->value), peak);
  ASSERT_FALSE(figures.stalls.empty());
  const analysis::StallGroup& dearest = figures.stalls.front();
  const ui::DrawnItem* row =
      shot.log.Find("overlap", "stall:" + dearest.title + ":" + dearest.sentence);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(std::get<double>(row->value), dearest.ns_per_step);
}

TEST(Shot, NumbersAreThoseOfTheReportAndNameTheirScope) {
  const std::pair<const char*, const char*> kScopes[] = {{"whole-run", "whole run"},
                                                         {"since-change", "since step 12"},
                                                         {"last-steps", "last 20 steps"},
                                                         {"4:7", "steps 4–6"}};
  for (const auto& [word, label] : kScopes) {
    const analysis::Scope scope = analysis::ParseScope(word).value();
    const auto shot = TakeShot(Lesson(), {.scope = scope});
    ASSERT_TRUE(shot.ok()) << shot.message();
    Keep(*shot, std::string("scope-") + word);
    ExpectFigures(*shot, analysis::MakeReport(*Lesson(), {.scope = scope}).figures);
    EXPECT_EQ(shot->log.Find("top_bar", "scope")->text, label);
    EXPECT_EQ(shot->log.Find("overlap", "scope")->text, label);
  }
  const auto unasked = TakeShot(Lesson(), {});
  EXPECT_EQ(unasked->log.Find("top_bar", "scope")->text, "whole run");
  const auto chinese = TakeShot(Lesson(), {.scope = analysis::ParseScope("since-change").value(),
                                           .language = ui::Language::kChinese});
  EXPECT_EQ(chinese->log.Find("top_bar", "scope")->text, "第 12 步起");
}

TEST(Shot, FiguresInViewAreOfTheStepsThatLieInItWhole) {
  const auto shot =
      TakeShot(Lesson(), {.step = 5, .scope = analysis::ParseScope("in-view").value()});
  ASSERT_TRUE(shot.ok()) << shot.message();
  EXPECT_EQ(shot->log.Find("top_bar", "scope")->text, "in view 4–6");
  ExpectFigures(
      *shot,
      analysis::MakeReport(*Lesson(), {.scope = analysis::ParseScope("4:7").value()}).figures);
}

// A knob was turned and no step under it is finished: the old numbers would be of another world.
TEST(Shot, FiguresOfNoStepAreDashes) {
  query::Snapshot live = *Lesson();
  live.state = query::TraceState::kLive;
  live.markers.push_back({live.end_ns, 24, "change", "link.bandwidth", "1GB/s", "2GB/s"});
  const auto shot = TakeShot(std::make_shared<query::Snapshot>(live), {});
  ASSERT_TRUE(shot.ok()) << shot.message();
  Keep(*shot, "scope-empty");
  EXPECT_EQ(shot->log.Find("top_bar", "scope")->text, "since step 24");
  for (const char* id :
       {"step_ns_p50", "exposed_share", "overlap_ratio", "tokens_per_second", "peak_bytes"}) {
    EXPECT_EQ(shot->log.Find("top_bar", id)->text, "–") << id;
  }
  EXPECT_EQ(shot->log.Find("overlap", "no_stalls"), nullptr);
}

// Nothing was there to be hidden, or to overlap.
TEST(Shot, ARunWithoutCommunicationDoesNotClaimToHideIt) {
  query::Snapshot alone = *Lesson();
  for (query::RankRows& rows : alone.ranks) {
    const query::RowList<query::OpRun> all = std::exchange(rows.op_runs, {});
    for (const query::OpRun& run : all) {
      const bool sends = query::IsCommunication(alone.plan_ops.at(run.plan_op).op_class);
      if (!sends) rows.op_runs.Append(run);
    }
    rows.collectives = {};
  }
  const auto shot = TakeShot(std::make_shared<query::Snapshot>(alone), {});
  ASSERT_TRUE(shot.ok()) << shot.message();
  EXPECT_EQ(shot->log.Find("top_bar", "overlap_ratio")->text, "–");
  ASSERT_NE(shot->log.Find("overlap", "no_stalls"), nullptr);
  EXPECT_EQ(shot->log.Find("overlap", "no_stalls")->text,
            "No stall: these steps have no communication.");
}

// The lesson turned prefetch on at step 12.
TEST(Shot, KnobsOfAnEndedRunAreThoseOfTheStepInView) {
  for (const auto& [step, value] : {std::pair{5, "none"}, {18, "pre"}}) {
    const auto shot = TakeShot(Lesson(), {.step = step});
    ASSERT_TRUE(shot.ok()) << shot.message();
    EXPECT_EQ(shot->log.Find("run_control", "knob:prefetch.backward")->text, value) << step;
    const ui::DrawnItem* at = shot->log.Find("run_control", "values_at");
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(std::get<int64_t>(at->value) >= 12, step >= 12);
    EXPECT_THAT(at->text, testing::StartsWith("values at step "));
  }
}

// A picture attaches to no training: that none answers it says nothing.
TEST(Shot, KnobsOfALiveRunAreNotCalledUnanswered) {
  query::Snapshot run = *Lesson();
  for (const auto state : {query::TraceState::kLive, query::TraceState::kFinished}) {
    run.state = state;
    const auto shot = TakeShot(std::make_shared<const query::Snapshot>(run), {});
    ASSERT_TRUE(shot.ok()) << shot.message();
    EXPECT_NE(shot->log.Find("run_control", "knob:prefetch.backward"), nullptr);
    const bool says_so = shot->log.Find("run_control", "notice") != nullptr;
    EXPECT_EQ(says_so, state == query::TraceState::kFinished);
  }
}

TEST(Shot, EveryRanksPredictionsAreThoseOfTheReport) {
  for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
    const auto shot = TakeShot(Lesson(), {.height = 1400, .language = language});
    ASSERT_TRUE(shot.ok()) << shot.message();
    // Of the schedule that is in view: the newest.
    const analysis::ScheduleMemory schedule =
        analysis::MakeReport(*Lesson()).schedules.back().memory;
    ASSERT_GT(schedule.predicted_bytes, 0);
    ASSERT_GT(schedule.bound_bytes, 0);
    int lines = 0;
    for (const query::RankRows& rows : Lesson()->ranks) {
      const std::string rank = std::to_string(rows.rank);
      if (shot->log.Find("memory", "rank:" + rank) == nullptr) continue;  // scrolled out
      for (const auto& [id, bytes] : {std::pair("predicted_peak:", schedule.predicted_bytes),
                                      std::pair("executed_bound:", schedule.bound_bytes)}) {
        const ui::DrawnItem* line = shot->log.Find("memory", id + rank);
        ASSERT_NE(line, nullptr) << id << rank;
        EXPECT_EQ(std::get<int64_t>(line->value), bytes);
        EXPECT_THAT(line->text, testing::HasSubstr(FormatBytes(bytes)));
        ++lines;
      }
    }
    EXPECT_GE(lines, 4);
  }
}

TEST(Shot, LabelsOfLinesThatLieNearOneAnotherDoNotOverlap) {
  query::Snapshot limited = *Lesson();
  const int64_t bound = analysis::MakeReport(*Lesson()).schedules.back().memory.bound_bytes;
  for (const double share : {0.97, 1.0, 1.01, 1.05}) {
    const auto limit = static_cast<int64_t>(static_cast<double>(bound) * share);
    limited.config["engine.memory_limit"] = std::to_string(limit) + "B";
    const auto shot = TakeShot(std::make_shared<const query::Snapshot>(limited), {.height = 1400});
    ASSERT_TRUE(shot.ok()) << shot.message();
    std::vector<ui::DrawnItem> labels;
    for (const char* id : {"predicted_peak:0", "executed_bound:0", "memory_limit"}) {
      const ui::DrawnItem* label = shot->log.Find("memory", id);
      ASSERT_NE(label, nullptr) << id;
      EXPECT_GT(label->box.y1 - label->box.y0, 5) << id;  // no bare line
      for (const ui::DrawnItem& other : labels) {
        EXPECT_FALSE(label->box.x0 < other.box.x1 && other.box.x0 < label->box.x1 &&
                     label->box.y0 + 0.5F < other.box.y1 && other.box.y0 + 0.5F < label->box.y1)
            << id << " and " << other.id << " at " << share;
      }
      labels.push_back(*label);
    }
    // In the order of their lines.
    const ui::Box& predicted = labels[0].box;
    const ui::Box& at_most = labels[1].box;
    const bool share_a_row = std::abs(predicted.y0 - at_most.y0) < 1;
    EXPECT_TRUE(share_a_row ? predicted.x1 < at_most.x0 : predicted.y0 > at_most.y0) << share;
  }
}

TEST(Shot, AFailedRunSaysWhyInBothLanguages) {
  query::Snapshot failed = *Lesson();
  const query::Step& step = failed.ranks[0].steps[12];
  const std::string message = "rank 1: B m0 block1 all_gather: comm.timeout of 30 s is over";
  failed.markers.push_back({step.end_ns, step.step, "error", "", "", message});
  failed.capabilities.push_back({"finisher", "partial", "no space left on device", 0});
  const auto snapshot = std::make_shared<query::Snapshot>(failed);
  for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
    const auto shot = TakeShot(snapshot, {.language = language});
    ASSERT_TRUE(shot.ok()) << shot.message();
    Keep(*shot, language == ui::Language::kChinese ? "failed-zh" : "failed-en");
    const ui::DrawnItem* problem = shot->log.Find("banner", "problem");
    ASSERT_NE(problem, nullptr);
    EXPECT_THAT(problem->text, testing::HasSubstr(message));
    EXPECT_EQ(std::get<int64_t>(shot->log.Find("banner", "problems")->value), 2);
    const ui::DrawnItem* line = shot->log.Find("timeline", "error:12");
    ASSERT_NE(line, nullptr);
    EXPECT_EQ(line->text, message);
  }
  const auto whole = TakeShot(Lesson(), {});
  EXPECT_EQ(whole->log.Find("banner", "problems"), nullptr);
}

TEST(Shot, SaysWhichStepsThereAre) {
  const auto shot = TakeShot(Lesson(), {.step = 99});
  ASSERT_FALSE(shot.ok());
  EXPECT_THAT(shot.message(), testing::HasSubstr("0 to 23"));
  EXPECT_TRUE(TakeShot(Lesson(), {.step = 5}).ok());
  const auto none = TakeShot(Lesson(), {.scope = analysis::ParseScope("90:95").value()});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.message(), testing::HasSubstr("0 to 23"));
}

TEST(Shot, SmallAndLargeWindowsDraw) {
  for (const auto& [width, height] : {std::pair{800, 500}, {1024, 700}, {2560, 1440}}) {
    const auto shot = TakeShot(Lesson(), {.width = width, .height = height});
    ASSERT_TRUE(shot.ok()) << shot.message();
    Keep(*shot, "size-" + std::to_string(width));
    for (const ui::DrawnItem& item : shot->log.items()) {
      if (item.panel != "top_bar" || item.id.rfind("button:", 0) == 0) continue;
      EXPECT_LT(item.box.x1, shot->log.Find("top_bar", "button:pause")->box.x0) << item.id;
    }
  }
}

TEST(Shot, InALowWindowNothingLiesOverWhatDetailsSays) {
  for (const int height : {640, 900}) {
    const auto shot = TakeShot(Lesson(), {.width = 1024, .height = height});
    ASSERT_TRUE(shot.ok()) << shot.message();
    const ui::DrawnItem* meaning = shot->log.Find("details", "meaning");
    const ui::DrawnItem* dropped = shot->log.Find("details", "dropped");
    ASSERT_TRUE(meaning != nullptr && dropped != nullptr);
    EXPECT_GE(dropped->box.y0, meaning->box.y1);
  }
}

TEST(Shot, ScaleEnlargesTextAndLines) {
  const auto height = [](float scale) {
    const auto shot = TakeShot(Lesson(), {.width = 3200, .height = 1800, .scale = scale});
    EXPECT_TRUE(shot.ok()) << shot.message();
    const ui::Box box = shot->log.Find("top_bar", "step_ns_p50")->box;
    return box.y1 - box.y0;
  };
  EXPECT_NEAR(height(2) / height(1), 2, 0.1);
}

// Where lines break depends on the window's size in points alone: Dear ImGui rounds sizes of fonts.
TEST(Shot, ASentenceTakesAsManyLinesAtAnyScale) {
  const auto height = [](float scale) {
    const auto shot = TakeShot(Lesson(), {.width = static_cast<int>(1093 * scale),
                                          .height = static_cast<int>(615 * scale),
                                          .scale = scale});
    const ui::DrawnItem* notice = shot->log.Find("run_control", "notice");
    EXPECT_NE(notice, nullptr) << scale;
    return notice == nullptr ? 0 : (notice->box.y1 - notice->box.y0) / scale;
  };
  const float wanted = height(1);
  for (const float scale : {1.1F, 1.21F, 1.331F, 1.4641F, 1.61F, 1.77F}) {
    EXPECT_NEAR(height(scale), wanted, wanted / 4) << scale;
  }
}

TEST(Shot, OtherTabsDrawInBothLanguages) {
  for (const char* panel : {"runs", "log"}) {
    for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
      const auto shot = TakeShot(Lesson(), {.language = language, .panel = panel});
      ASSERT_TRUE(shot.ok()) << shot.message();
      const bool chinese = language == ui::Language::kChinese;
      Keep(*shot, std::string(panel) + (chinese ? "-zh" : "-en"));
      EXPECT_THAT(shot->log.items(),
                  testing::Contains(testing::Field(&ui::DrawnItem::panel, panel)));
    }
  }
}

TEST(Shot, TheLogSaysInChineseWhatTheTraceSaysInEnglish) {
  query::Snapshot run = *Lesson();
  const std::string reason = "no tool listens (NVTX_INJECTION64_PATH is not set)";
  run.capabilities = {{"engine", "on", "", 0}, {"nvtx", "off", reason, 0}};
  const auto snapshot = std::make_shared<query::Snapshot>(run);
  const auto english = TakeShot(snapshot, {.panel = "log"});
  const auto chinese = TakeShot(snapshot, {.language = ui::Language::kChinese, .panel = "log"});
  ASSERT_TRUE(english.ok() && chinese.ok());
  EXPECT_EQ(english->log.Find("log", "reason:nvtx")->text, reason);
  EXPECT_EQ(chinese->log.Find("log", "source:engine")->text, "开");
  EXPECT_EQ(chinese->log.Find("log", "source:nvtx")->text, "关");
  EXPECT_THAT(chinese->log.Find("log", "reason:nvtx")->text, testing::HasSubstr("没有工具在监听"));
}

bool Draws(const Shot& shot, const std::string& panel) {
  return std::ranges::any_of(shot.log.items(),
                             [&](const ui::DrawnItem& item) { return item.panel == panel; });
}

TEST(Shot, APanelThatIsNamedIsShownWhateverElseIsAskedFor) {
  const ui::CompareWith ranges{"", analysis::ParseSteps("2:8").value(),
                               analysis::ParseSteps("14:20").value()};
  for (const char* panel : {"steps", "ranks", "timeline", "log", "collectives"}) {
    const auto shot = TakeShot(
        Lesson(), {.panel = panel, .critical_path = true, .compare = ranges, .at = "step=13+2ms"});
    ASSERT_TRUE(shot.ok()) << shot.message();
    EXPECT_TRUE(Draws(*shot, panel)) << panel;
    EXPECT_FALSE(Draws(*shot, "compare")) << panel;
  }
  const auto shot = TakeShot(Lesson(), {.compare = ranges});
  ASSERT_TRUE(shot.ok()) << shot.message();
  EXPECT_NE(shot->log.Find("compare", "sentence"), nullptr);
}

TEST(Shot, WhatTheWindowReadsBesideItsFramesIsInThePicture) {
  const auto lessons = TakeShot(Lesson(), {.panel = "lessons"});
  ASSERT_TRUE(lessons.ok()) << lessons.message();
  EXPECT_NE(lessons->log.Find("lessons", "lesson:trust"), nullptr);
  const std::string folder = testing::TempDir() + "/shardscope_shot_of_sql";
  std::filesystem::remove_all(folder);
  const std::string generate = BinDir() + "/trace_generator " + folder + " 2000 2 >&2";
  ASSERT_EQ(std::system(generate.c_str()), 0);
  const auto sql = TakeShot(query::ReadSnapshot(folder).value(), {.panel = "sql"});
  ASSERT_TRUE(sql.ok()) << sql.message();
  EXPECT_NE(sql->log.Find("sql", "table:step"), nullptr);
  std::filesystem::remove_all(folder);
}

TEST(Shot, BookmarksOfTheRunAreListedAndFlagged) {
  const std::string run = testing::TempDir() + "/shardscope_shot_of_bookmarks.db";
  const std::string file = run + ".bookmarks.json";
  // More than are placed in the frames of a picture.
  nlohmann::json kept = {{"version", 1}, {"bookmarks", nlohmann::json::array()}};
  for (int at = 0; at < 80; ++at) {
    kept["bookmarks"].push_back(
        {{"id", fmt::format("b{}", at)}, {"link", at < 79 ? "step=2" : "step=3&rank=1"}});
  }
  kept["bookmarks"][79]["note"] = "hi";
  std::ofstream(file) << kept.dump();
  const ShotOptions options{.step = 3, .panel = "bookmarks", .opened = run};
  const auto shot = TakeShot(Lesson(), options);
  ASSERT_TRUE(shot.ok()) << shot.message();
  EXPECT_NE(shot->log.Find("bookmarks", "bookmark:b0"), nullptr);
  const auto lanes = TakeShot(Lesson(), {.step = 3, .opened = run});
  ASSERT_TRUE(lanes.ok()) << lanes.message();
  const ui::DrawnItem* flag = lanes->log.Find("timeline", "flag:b79");
  ASSERT_NE(flag, nullptr);
  EXPECT_EQ(flag->text, "hi");
  ShotOptions table = options;
  table.format = ShotFormat::kCsv;
  const auto csv = TakeShot(Lesson(), table);
  ASSERT_TRUE(csv.ok()) << csv.message();
  EXPECT_TRUE(csv->text.starts_with("note,link,made"));
  EXPECT_NE(csv->text.find("hi,step=3&rank=1,"), std::string::npos);
  // Of a damaged file it is said why nothing is listed, without one that there are none.
  std::ofstream(file) << "damaged";
  const auto damaged = TakeShot(Lesson(), options);
  ASSERT_TRUE(damaged.ok()) << damaged.message();
  EXPECT_NE(damaged->log.Find("bookmarks", "problem"), nullptr);
  std::filesystem::remove(file);
  const auto without = TakeShot(Lesson(), options);
  ASSERT_TRUE(without.ok()) << without.message();
  EXPECT_NE(without->log.Find("bookmarks", "empty"), nullptr);
}

TEST(Shot, RunsSaysThatNothingStartsOnlyWithoutTheTrainer) {
  const std::string folder = testing::TempDir() + "/shardscope_shot_programs";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const ShotOptions options{.panel = "runs", .program_folder = folder};
  const auto without = TakeShot(Lesson(), options);
  ASSERT_TRUE(without.ok()) << without.message();
  EXPECT_NE(without->log.Find("runs", "start_hint"), nullptr);
  const std::string trainer = folder + "/shardscope-train";
  std::ofstream(trainer) << "#!/bin/sh\n";
  std::filesystem::permissions(trainer, std::filesystem::perms::owner_all);
  const auto with = TakeShot(Lesson(), options);
  ASSERT_TRUE(with.ok()) << with.message();
  EXPECT_EQ(with->log.Find("runs", "start_hint"), nullptr);
  std::filesystem::remove_all(folder);
}

TEST(Shot, JsonListsEveryItem) {
  const auto shot = TakeShot(Lesson(), {});
  ASSERT_TRUE(shot.ok());
  const auto json = nlohmann::json::parse(PrintShotJson(*Lesson(), {}, shot->log));
  EXPECT_EQ(json["items"].size(), shot->log.items().size());
  EXPECT_EQ(json["language"], "en");
}

}  // namespace
}  // namespace shardscope::shell
