// The time lens and the plan in pictures, and a step as an animation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/moment/moment.h"
#include "trace/analysis/moment/moment_words.h"
#include "trace/analysis/report/report.h"
#include "ui/shell/shot.h"

namespace shardscope::shell {
namespace {

query::SnapshotPtr LensLesson() {
  static const query::SnapshotPtr kLensLesson = analysis::MakeLessonSnapshot(2, 24, 12);
  return kLensLesson;
}

TEST(LensShot, TheLensStandsWhereItIsAskedForAndSaysWhatHappensThere) {
  const int64_t start_ns = analysis::TimesOfStep(*LensLesson(), 5).value().start_ns;
  for (const int64_t offset_ns : {3'000'000, 11'500'000}) {
    const std::string at = fmt::format("step=5+{}ns", offset_ns);
    const auto shot = TakeShot(LensLesson(), {.at = at});
    ASSERT_TRUE(shot.ok()) << shot.message();
    const ui::DrawnItem* now = shot->log.Find("timeline", "lens_now");
    ASSERT_NE(now, nullptr);
    EXPECT_EQ(std::get<int64_t>(now->value), offset_ns);
    const int64_t time_ns = start_ns + offset_ns;
    const analysis::Moment moment =
        analysis::Moments(LensLesson(), {time_ns, time_ns + 1}).At(time_ns);
    for (const analysis::RankMoment& rank : moment.ranks) {
      const ui::DrawnItem* words = shot->log.Find("timeline", fmt::format("moment:{}", rank.rank));
      ASSERT_NE(words, nullptr);
      EXPECT_EQ(words->text, MomentSentence(rank, analysis::EnglishMomentWords()));
    }
  }
  // From the start of the run, and without a step that could be played.
  const auto early = TakeShot(LensLesson(), {.at = "1us"});
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(std::get<int64_t>(early->log.Find("timeline", "lens_now")->value), 1000);
  EXPECT_THAT(TakeShot(LensLesson(), {.at = "step=99"}).message(),
              testing::StartsWith("--at no step 99: this trace has the steps 0 to 23"));
  EXPECT_THAT(TakeShot(LensLesson(), {.at = "soon"}).message(), testing::HasSubstr("step=3+4.2ms"));
}

TEST(LensShot, WhatIsDescribedRunsAtThatMoment) {
  for (const int64_t offset_ns : {3'000'000, 11'500'000}) {
    const auto shot = TakeShot(LensLesson(), {.at = fmt::format("step=10+{}ns", offset_ns)});
    ASSERT_TRUE(shot.ok()) << shot.message();
    const auto detail = [&](const char* id) {
      const ui::DrawnItem* item = shot->log.Find("details", id);
      return item == nullptr ? -1 : std::get<int64_t>(item->value);
    };
    EXPECT_EQ(detail("step"), 10);
    EXPECT_GE(detail("started"), 0);
    EXPECT_LE(detail("started"), offset_ns);
    EXPECT_GT(detail("ended"), offset_ns);
  }
  // What is asked for by name stays.
  const ui::Link link{.step = 5, .rank = 1, .op_index = 12};
  const auto chosen = TakeShot(LensLesson(), {.at = "step=10+3ms", .link = link});
  ASSERT_TRUE(chosen.ok()) << chosen.message();
  ASSERT_NE(chosen->log.Find("details", "step"), nullptr);
  EXPECT_EQ(std::get<int64_t>(chosen->log.Find("details", "step")->value), 5);
}

TEST(Animation, GoesThroughAStep) {
  std::vector<std::vector<uint8_t>> frames;
  int64_t frame_ns = 0;
  const FrameSink sink = {.begin =
                              [&](int64_t ns) {
                                frame_ns = ns;
                                return Status::Ok();
                              },
                          .take =
                              [&](const Image& image) {
                                frames.push_back(image.rgba);
                                return Status::Ok();
                              }};
  const ShotOptions options{.width = 900, .height = 600, .step = 5};
  ASSERT_TRUE(TakeAnimation(LensLesson(), options, {.frames = 4}, sink).ok());
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frame_ns, 100'000'000);
  for (size_t at = 1; at < frames.size(); ++at) EXPECT_NE(frames[at], frames[at - 1]);
  // Each is the picture of its moment.
  const Interval times = analysis::TimesOfStep(*LensLesson(), 5).value();
  ShotOptions third = options;
  third.at = fmt::format("step=5+{}ns", (times.end_ns - times.start_ns) * 2 / 4);
  EXPECT_TRUE(TakeShot(LensLesson(), third).value().image.rgba == frames[2]);

  frames.clear();
  ASSERT_TRUE(TakeAnimation(LensLesson(), options, {.frames = 2, .slowness = 50}, sink).ok());
  EXPECT_EQ(frame_ns, (times.end_ns - times.start_ns) / 2 * 50);
}

TEST(Animation, SaysWhatIsTooMuch) {
  const FrameSink none = {.begin = [](int64_t) { return Status::Ok(); },
                          .take = [](const Image&) { return Status::Error("full"); }};
  const auto message = [&](const ShotOptions& options, const Animation& animation) {
    return TakeAnimation(LensLesson(), options, animation, none).message();
  };
  EXPECT_EQ(message({}, {.frames = 1}), "--frames 1: give a number from 2 to 600");
  EXPECT_EQ(message({}, {.frames = 601}), "--frames 601: give a number from 2 to 600");
  EXPECT_THAT(message({.width = 3840, .height = 2160}, {.frames = 300}),
              testing::HasSubstr("ask for fewer --frames or a smaller --size"));
  EXPECT_THAT(message({}, {.slowness = 1}), testing::StartsWith("--speed 1/1: 60 frames"));
  EXPECT_THAT(message({}, {.frames = 2, .slowness = 1'000'000}),
              testing::StartsWith("--speed 1/1000000: 2 frames"));
  EXPECT_THAT(message({.step = 77}, {}), testing::StartsWith("no step 77"));
  EXPECT_EQ(message({}, {}), "full");
  const auto empty = std::make_shared<const query::Snapshot>();
  EXPECT_EQ(TakeAnimation(empty, {}, {}, none).message(),
            "this trace has no finished step that could be played");
}

TEST(PlanShot, OutlinesWhatIsPlannedUnderTheLanes) {
  for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
    const auto shot = TakeShot(LensLesson(), {.step = 5, .language = language, .plan = true});
    ASSERT_TRUE(shot.ok()) << shot.message();
    const ui::DrawnItem* ops = shot->log.Find("timeline", "plan_ops");
    ASSERT_NE(ops, nullptr);
    EXPECT_GT(std::get<int64_t>(ops->value), 50);
    ASSERT_NE(shot->log.Find("timeline", "plan"), nullptr);
    EXPECT_THAT(
        shot->log.Find("timeline", "plan")->text,
        testing::HasSubstr(language == ui::Language::kEnglish ? "Every op ran in the planned order."
                                                              : "每个 op 都按计划顺序执行。"));
    EXPECT_THAT(
        shot->log.Find("timeline", "plan")->text,
        testing::HasSubstr(language == ui::Language::kEnglish ? "step 5 over all ranks: planned "
                                                              : "第 5 步（所有 rank）计划 "));
  }
  const auto without = TakeShot(LensLesson(), {.step = 5});
  EXPECT_EQ(without->log.Find("timeline", "plan"), nullptr);
  query::Snapshot foreign = *LensLesson();
  for (auto& [id, schedule] : foreign.schedules) schedule.text.clear();
  const auto none =
      TakeShot(std::make_shared<const query::Snapshot>(foreign), {.step = 5, .plan = true});
  EXPECT_THAT(none->log.Find("timeline", "plan")->text, testing::HasSubstr("No plan to show"));
  EXPECT_EQ(none->log.Find("timeline", "plan_ops"), nullptr);
}

TEST(CriticalPathShot, ItsPartsAreThoseOfTheStepsReport) {
  for (const int32_t step : {4, 17}) {
    const auto shot = TakeShot(LensLesson(), {.step = step, .critical_path = true});
    ASSERT_TRUE(shot.ok()) << shot.message();
    const analysis::Scope scope{.kind = analysis::ScopeKind::kSteps, .first = step, .last = step};
    const analysis::Report report = analysis::MakeReport(*LensLesson(), {.scope = scope});
    std::map<std::string, double> expected;
    for (const analysis::PathGroup& group : report.figures.explanation.path) {
      expected["path_part:" + std::string(Name(group.kind))] += group.ns_per_step;
    }
    ASSERT_GT(expected.size(), 2u);
    std::map<std::string, double> drawn;
    int64_t stretches_ns = 0;
    double sum_ns = 0;
    for (const ui::DrawnItem& item : shot->log.items()) {
      if (item.id.starts_with("path_part:")) drawn[item.id] = std::get<double>(item.value);
      if (item.id.starts_with("path:")) stretches_ns += std::get<int64_t>(item.value);
    }
    EXPECT_EQ(drawn, expected);
    for (const auto& [kind, ns] : expected) sum_ns += ns;
    EXPECT_DOUBLE_EQ(static_cast<double>(stretches_ns), sum_ns);  // all of it is in the picture
    EXPECT_THAT(shot->log.Find("timeline", "critical_path")->text,
                testing::StartsWith(fmt::format("Step {}: ", step)));
  }
  const auto without = TakeShot(LensLesson(), {.step = 4});
  EXPECT_EQ(without->log.Find("timeline", "critical_path"), nullptr);
}

TEST(CriticalPathShot, ItsNamesAreTheAnalysis) {
  const auto shot = TakeShot(LensLesson(), {.step = 4, .critical_path = true});
  int parts = 0;
  for (int kind = 0; kind < analysis::kNumPathKinds; ++kind) {
    const std::string name(Name(static_cast<analysis::PathKind>(kind)));
    const ui::DrawnItem* item = shot->log.Find("timeline", "path_part:" + name);
    if (item == nullptr) continue;
    ++parts;
    EXPECT_THAT(item->text, testing::StartsWith(name + " "));
  }
  EXPECT_GT(parts, 1);
  const auto chinese = TakeShot(
      LensLesson(), {.step = 4, .language = ui::Language::kChinese, .critical_path = true});
  ASSERT_TRUE(chinese.ok()) << chinese.message();
  EXPECT_THAT(chinese->log.Find("timeline", "path_part:compute")->text,
              testing::StartsWith("计算 "));
}

}  // namespace
}  // namespace shardscope::shell
