#include "ui/timeline/link_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/names.h"
#include "ui/timeline/run_index.h"
#include "ui/timeline/shown_steps.h"
#include "ui/timeline/steps.h"

namespace shardscope::timeline {
namespace {

using testing::HasSubstr;
using LinkProblem = ui::LinkError::Problem;

class LinkPlaceTest : public testing::Test {
 protected:
  LinkPlaceTest() : index_(std::make_shared<RunIndex>()) {
    context_.snapshot = analysis::MakeLessonSnapshot(4, 12, 6);
    index_->Advance(*context_.snapshot);
    context_.index = index_;
  }

  LinkPlace PlaceOfText(const std::string& text) const {
    const auto place = PlaceOf(*context_.snapshot, LinkOfText(text));
    if (const auto* found = std::get_if<LinkPlace>(&place)) return *found;
    ADD_FAILURE() << LinkErrorText(ui::Language::kEnglish, std::get<ui::LinkError>(place));
    return {};
  }

  ui::LinkError ErrorOfText(const std::string& text) const {
    const auto place = PlaceOf(*context_.snapshot, LinkOfText(text));
    if (const auto* error = std::get_if<ui::LinkError>(&place)) return *error;
    ADD_FAILURE() << text;
    return {};
  }

  static ui::Link LinkOfText(const std::string& text) {
    const auto link = ui::ParseLink(text);
    EXPECT_TRUE(std::holds_alternative<ui::Link>(link)) << text;
    return std::get<ui::Link>(link);
  }

  ui::Context context_;
  std::shared_ptr<RunIndex> index_;
};

TEST_F(LinkPlaceTest, EveryOpOfAStepIsReachedByItsLink) {
  int seen = 0;
  for (const query::RankRows& rows : context_.snapshot->ranks) {
    rows.op_runs.ForEachOfSteps(7, 7, [&](const query::OpRun& run, size_t row) {
      context_.selection = {run.id, rows.rank, {}};
      const auto link = LinkOfSelection(context_);
      ASSERT_TRUE(link);
      const LinkPlace place = PlaceOfText(PrintLink(*link));
      ASSERT_TRUE(place.hit);
      EXPECT_EQ(place.hit->op_run, run.id);
      EXPECT_EQ(place.hit->row, row);
      EXPECT_EQ(place.hit->rank, rows.rank);
      EXPECT_EQ(TimesOf(*context_.snapshot, *link), (Range{run.started_ns, run.ended_ns}));
      ++seen;
    });
  }
  EXPECT_GT(seen, 40);
}

// It names the op, not the row: a link of one run leads to the same op of another.
TEST_F(LinkPlaceTest, SurvivesAnotherRunOfTheSameProgram) {
  const query::RankRows& rows = context_.snapshot->ranks[1];
  std::vector<ui::Link> links;
  std::vector<std::string> names;
  rows.op_runs.ForEachOfSteps(3, 3, [&](const query::OpRun& run, size_t) {
    context_.selection = {run.id, rows.rank, {}};
    links.push_back(LinkOfSelection(context_).value());
    names.push_back(analysis::ShortName(*context_.snapshot->FindPlanOp(run.plan_op)));
  });
  const query::SnapshotPtr longer = analysis::MakeLessonSnapshot(4, 20, 15);
  for (size_t at = 0; at < links.size(); ++at) {
    const auto place = PlaceOf(*longer, links[at]);
    ASSERT_TRUE(std::holds_alternative<LinkPlace>(place)) << PrintLink(links[at]);
    const analysis::SearchHit& hit = *std::get<LinkPlace>(place).hit;
    EXPECT_EQ(hit.step, 3);
    EXPECT_EQ(analysis::ShortName(*longer->FindPlanOp(longer->ranks[1].op_runs[hit.row].plan_op)),
              names[at]);
  }
}

TEST_F(LinkPlaceTest, AnOpIsReachedByItsPlaceInTheProgram) {
  const LinkPlace place = PlaceOfText("step=2&rank=3&op=5");
  ASSERT_TRUE(place.hit);
  const query::OpRun& run = context_.snapshot->ranks[3].op_runs[place.hit->row];
  EXPECT_EQ(run.step, 2);
  EXPECT_EQ(context_.snapshot->FindPlanOp(run.plan_op)->op, 5);
  EXPECT_FALSE(place.shown);  // what shows the op
}

TEST_F(LinkPlaceTest, TimesOfAStepMoveWithIt) {
  const StepSpan step = FindStep(*context_.snapshot, 8).value();
  const LinkPlace place = PlaceOfText("step=8&t=-1ms..+4ms");
  EXPECT_EQ(place.shown, (Range{step.start_ns - 1'000'000, step.start_ns + 4'000'000}));
  const int64_t start_ns = context_.snapshot->start_ns;
  EXPECT_EQ(PlaceOfText("t=1ms..2ms").shown, (Range{start_ns + 1'000'000, start_ns + 2'000'000}));
  const StepSpan last = FindStep(*context_.snapshot, 10).value();
  EXPECT_EQ(PlaceOfText("step=8..10").shown, (Range{step.start_ns, last.end_ns}));
  EXPECT_FALSE(PlaceOfText("step=8").shown);
}

TEST_F(LinkPlaceTest, TheLinkOfAViewShowsTheSame) {
  const StepSpan step = FindStep(*context_.snapshot, 5).value();
  context_.view = {step.start_ns + 123'457, step.end_ns - 77'123};
  context_.focus.step = StepAt(*context_.snapshot, step.start_ns + 1'000'000);
  context_.focus.scope = analysis::Scope{.kind = analysis::ScopeKind::kLastSteps};
  context_.search.open = true;
  context_.search.text = "kind:forward rank:0";
  const std::string text = PrintLink(LinkOfView(context_));
  EXPECT_THAT(text, HasSubstr("step=5&"));
  const ui::Link link = LinkOfText(text);
  EXPECT_EQ(link.search, "kind:forward rank:0");
  EXPECT_EQ(link.scope, context_.focus.scope);
  const LinkPlace place = PlaceOfText(text);
  ASSERT_TRUE(place.shown);
  const int64_t a_pixel = (context_.view.end_ns - context_.view.start_ns) / 4000;
  EXPECT_LE(std::abs(place.shown->start_ns - context_.view.start_ns), a_pixel);
  EXPECT_LE(std::abs(place.shown->end_ns - context_.view.end_ns), a_pixel);
}

TEST_F(LinkPlaceTest, AMarkedStretchIsReachedByItsLink) {
  const StepSpan step = FindStep(*context_.snapshot, 5).value();
  const int64_t quarter_ns = (step.end_ns - step.start_ns) / 4;
  const Interval time{step.start_ns + quarter_ns, step.start_ns + 2 * quarter_ns};
  context_.area.query = analysis::AreaQuery{time, {2}};
  context_.view = {step.start_ns, step.end_ns};
  for (const ui::Link& link : {LinkOfSelection(context_).value(), LinkOfMark(context_)}) {
    EXPECT_THAT(PrintLink(link), testing::StartsWith("step=5&rank=2&area=+"));
    const LinkPlace place = PlaceOfText(PrintLink(link));
    ASSERT_TRUE(place.area);
    EXPECT_EQ(place.area->ranks, std::vector<int32_t>{2});
    EXPECT_LE(std::abs(place.area->time.start_ns - time.start_ns), quarter_ns / 1000);
    EXPECT_LE(std::abs(place.area->time.end_ns - time.end_ns), quarter_ns / 1000);
  }
}

TEST_F(LinkPlaceTest, AStretchOfSomeRanksIsReachedWithThem) {
  const StepSpan step = FindStep(*context_.snapshot, 5).value();
  // In the order of their lanes, of which one is pinned.
  context_.area.query = analysis::AreaQuery{{step.start_ns, step.start_ns + 1'000'000}, {2, 0, 1}};
  context_.view = {step.start_ns, step.end_ns};
  const std::string text = PrintLink(LinkOfView(context_));
  EXPECT_THAT(text, testing::StartsWith("step=5&ranks=0-2&area=+"));
  EXPECT_EQ(PlaceOfText(text).area->ranks, (std::vector<int32_t>{0, 1, 2}));
  context_.area.query->ranks.clear();  // all
  EXPECT_THAT(PrintLink(LinkOfView(context_)), testing::StartsWith("step=5&area=+"));
  const ui::LinkError error = ErrorOfText("step=5&ranks=2-99&area=+0ms..+1ms");
  EXPECT_EQ(error.problem, LinkProblem::kNoSuchRank);
  EXPECT_EQ(error.part, "ranks=2-99");
}

TEST_F(LinkPlaceTest, ABookmarkMarksWhatIsInView) {
  const StepSpan step = FindStep(*context_.snapshot, 5).value();
  const int64_t length_ns = step.end_ns - step.start_ns;
  context_.view = {step.start_ns, step.end_ns};
  EXPECT_EQ(PrintLink(LinkOfMark(context_)), "step=5");
  context_.view = {FindStep(*context_.snapshot, 3)->start_ns, step.end_ns};
  EXPECT_EQ(PrintLink(LinkOfMark(context_)), "step=3..5");
  context_.view = {step.start_ns + length_ns / 4, step.start_ns + length_ns / 2};
  EXPECT_THAT(PrintLink(LinkOfMark(context_)), testing::StartsWith("step=5&t=+"));
  // What is selected elsewhere does not count.
  const query::OpRun& run = context_.snapshot->ranks[0].op_runs[0];
  context_.selection = {run.id, 0, {}};
  EXPECT_THAT(PrintLink(LinkOfMark(context_)), testing::StartsWith("step=5&t=+"));
  context_.view = {run.started_ns, run.ended_ns + 1};
  EXPECT_THAT(PrintLink(LinkOfMark(context_)), testing::HasSubstr("&op="));
}

TEST_F(LinkPlaceTest, SaysWhatIsNotThere) {
  const auto sentence = [&](const std::string& text) {
    return LinkErrorText(ui::Language::kEnglish, ErrorOfText(text));
  };
  EXPECT_THAT(sentence("step=99"), HasSubstr("step=99: there is no such step"));
  EXPECT_THAT(sentence("step=99"), HasSubstr("0 – 11"));
  EXPECT_THAT(sentence("step=1&rank=7"), HasSubstr("rank=7: there is no such rank"));
  EXPECT_THAT(sentence("step=1&rank=0&op=AG%20blok1"), HasSubstr("Did you mean AG block1?"));
  EXPECT_EQ(ErrorOfText("step=1&rank=0&op=9999").problem, LinkProblem::kNoSuchOp);
  EXPECT_EQ(ErrorOfText("step=1&rank=0&op=AG%20block1&nth=50").problem, LinkProblem::kNoSuchOp);
  EXPECT_EQ(ErrorOfText("rank=0&work=gone&at=1ms").problem, LinkProblem::kNoSuchWork);
  EXPECT_EQ(ErrorOfText("t=4000s..4001s").problem, LinkProblem::kOutside);
  EXPECT_FALSE(TimesOf(*context_.snapshot, LinkOfText("step=99")));
}

// Steps 4 to 7 of 12, as if the others were not loaded.
TEST_F(LinkPlaceTest, WhatLiesInOtherPartsOfTheRunIsToldByItsStep) {
  const query::Snapshot& whole = *context_.snapshot;
  query::Snapshot some = whole;
  query::RunPart part{4, 7, 0, 11, 1};
  auto starts = std::make_shared<std::vector<query::RunPart::StepStart>>();
  for (int32_t step = 0; step < 12; ++step) {
    starts->push_back({step, FindStep(whole, step)->start_ns});
  }
  part.step_starts = starts;
  part.start_ns = whole.start_ns - 5'000'000;  // when the model was made
  part.end_ns = whole.end_ns;
  some.part = part;
  some.start_ns = FindStep(whole, 4)->start_ns;
  some.end_ns = FindStep(whole, 7)->end_ns;
  const auto step_of = [&some](const std::string& text) {
    return StepInOtherPart(some, LinkOfText(text));
  };
  for (const int32_t step : {0, 2, 8, 11}) {
    const StepSpan span = *FindStep(whole, step);
    const int64_t margin_ns = (span.end_ns - span.start_ns) / 4;
    EXPECT_EQ(step_of("step=" + std::to_string(step)), step);
    const ui::Link link = LinkOfTimes(some, span.start_ns + margin_ns, span.end_ns - margin_ns);
    EXPECT_EQ(StepInOtherPart(some, link), step) << PrintLink(link);
    EXPECT_EQ(StepInOtherPart(whole, link), std::nullopt);
    const Range times = *TimesOf(some, link);
    EXPECT_NEAR(times.start_ns, span.start_ns + margin_ns, 1'000);
    EXPECT_NEAR(times.end_ns, span.end_ns - margin_ns, 1'000);
  }
  EXPECT_EQ(step_of("step=5"), std::nullopt);
  EXPECT_EQ(step_of("step=12"), std::nullopt);
  EXPECT_EQ(step_of("rank=1"), std::nullopt);
  EXPECT_EQ(step_of("t=0ns..1ms"), 0);  // before the first step
  const StepSpan inside = *FindStep(whole, 5);
  // The middle of a view decides; what came after the last step is in the part that has that.
  const StepSpan before = *FindStep(whole, 2);
  EXPECT_EQ(
      StepInOtherPart(some, LinkOfTimes(some, before.start_ns,
                                        before.end_ns + 1 + 2 * (some.start_ns - before.end_ns))),
      std::optional<int32_t>(3));
  // Between the last step and the next: of the part that begins with that one.
  some.end_ns = FindStep(whole, 8)->start_ns - 2'000;
  EXPECT_EQ(StepInOtherPart(some, LinkOfTimes(some, some.end_ns + 500, some.end_ns + 1'500)), 8);
  some.end_ns = whole.end_ns + 1'000;
  EXPECT_EQ(some.RunEndNs(), some.end_ns);
  some.end_ns = FindStep(whole, 7)->end_ns;
  EXPECT_EQ(StepInOtherPart(some, LinkOfTimes(some, inside.start_ns, inside.end_ns)), std::nullopt);
  EXPECT_EQ(StepInOtherPart(some, LinkOfTimes(some, whole.end_ns + 1, whole.end_ns + 2)),
            std::nullopt);
}

}  // namespace
}  // namespace shardscope::timeline
