#include "ui/panels/details/details_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/base/enum_count.h"
#include "trace/base/time.h"

namespace shardscope::panels {
namespace {

using timeline::OpFacts;

OpFacts HiddenGather() {
  OpFacts facts;
  facts.found = true;
  facts.op.kind = "all_gather";
  facts.op.unit = "block1";
  facts.op.phase = "backward";
  facts.op.op_class = query::OpClass::kAllGather;
  facts.run.issued_ns = 5 * kNsPerMs;
  facts.run.started_ns = 6 * kNsPerMs;
  facts.run.ended_ns = 20 * kNsPerMs;
  facts.step_start_ns = kNsPerMs;
  analysis::CollectiveRun run;
  run.last_rank = 1;
  run.last_arrival_ns = 10 * kNsPerMs;
  run.wait_ns = 4 * kNsPerMs;
  run.transfer_ns = 10 * kNsPerMs;
  facts.collective = run;
  facts.slack.found = true;
  facts.slack.first_use_ns = 34 * kNsPerMs;
  facts.slack.slack_ns = 14 * kNsPerMs;
  facts.hidden_under = "B block2";
  facts.hidden_ns = 14 * kNsPerMs;
  return facts;
}

const DetailRow* Find(const std::vector<DetailRow>& rows, const std::string& id) {
  for (const DetailRow& row : rows) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

TEST(DetailsTextTest, HiddenGatherSaysHowMuchSlowerTheLinkCouldBe) {
  const OpFacts facts = HiddenGather();
  const std::string meaning = DetailMeaning(facts, ui::Language::kEnglish);
  EXPECT_NE(meaning.find("B block2"), std::string::npos) << meaning;
  EXPECT_NE(meaning.find("14.0 ms"), std::string::npos) << meaning;
  EXPECT_NE(meaning.find("2.4x"), std::string::npos) << meaning;  // (10 + 14) / 10
  EXPECT_EQ(DetailTitle(facts.op), "all_gather block1 B");
}

TEST(DetailsTextTest, ARangeWhoseEndWasNotSeenHasNoDuration) {
  timeline::WorkFacts facts;
  facts.kind = timeline::WorkFacts::Kind::kRange;
  facts.name = "nccl:all_gather";
  facts.range.end_ns = 7;
  EXPECT_EQ(WorkMeaning(facts, ui::Language::kEnglish), "");
  ASSERT_NE(Find(WorkRows(facts, ui::Language::kEnglish), "duration"), nullptr);
  facts.name += " (not ended)";
  const std::vector<DetailRow> rows = WorkRows(facts, ui::Language::kEnglish);
  EXPECT_EQ(Find(rows, "duration"), nullptr);
  ASSERT_NE(Find(rows, "ended"), nullptr);
  EXPECT_EQ(Find(rows, "ended")->value, "not seen");
  EXPECT_NE(WorkMeaning(facts, ui::Language::kEnglish).find("was not seen"), std::string::npos);
}

TEST(DetailsTextTest, ABucketSaysWhatItHolds) {
  OpFacts facts = HiddenGather();
  const std::string without = DetailMeaning(facts, ui::Language::kEnglish);
  facts.parameters = {"head.weight"};
  EXPECT_EQ(DetailMeaning(facts, ui::Language::kEnglish), without + " It carries head.weight.");
  facts.parameters = {"head.weight", "head.norm.weight", "block1.mlp.down.weight"};
  EXPECT_EQ(DetailMeaning(facts, ui::Language::kEnglish),
            without + " It carries 3 parameters, head.weight to block1.mlp.down.weight.");
}

TEST(DetailsTextTest, EarlyButUncoveredGatherIsNotCalledHidden) {
  OpFacts facts = HiddenGather();
  facts.hidden_ns = 7 * kNsPerMs;  // of 14
  const std::string meaning = DetailMeaning(facts, ui::Language::kEnglish);
  EXPECT_EQ(meaning.find("fully hidden"), std::string::npos) << meaning;
  EXPECT_NE(meaning.find("50%"), std::string::npos) << meaning;
}

TEST(DetailsTextTest, RanksStandInTheOrderOfTheirArrivalTheLatestFirst) {
  OpFacts facts = HiddenGather();
  facts.run.id = query::OpRunId(20);
  for (int32_t at = 0; at < 2; ++at) {
    facts.arrivals.push_back({1 - at, query::OpRunId(21 - at), at * kNsPerMs});
  }
  const auto ids = [&facts] {
    std::vector<std::string> arrivals;
    for (const DetailRow& row : DetailRows(facts, ui::Language::kEnglish)) {
      if (row.id.starts_with("arrival")) arrivals.push_back(row.id);
    }
    return arrivals;
  };
  const std::vector<DetailRow> rows = DetailRows(facts, ui::Language::kEnglish);
  EXPECT_EQ(ids(), (std::vector<std::string>{"arrival:0", "arrival:1"}));
  EXPECT_EQ(Find(rows, "arrival:1")->value, "rank 1");
  ASSERT_TRUE(Find(rows, "arrival:1")->link.has_value());
  EXPECT_TRUE(std::get<ui::SelectOp>(*Find(rows, "arrival:1")->link).reveal);
  EXPECT_STREQ(ui::Tr(ui::Language::kEnglish, Find(rows, "arrival:1")->label.name), "came first");
  EXPECT_EQ(Find(rows, "arrival:0")->value, "rank 0 +1.00 ms");
  EXPECT_EQ(std::get<int64_t>(Find(rows, "arrival:0")->number), kNsPerMs);
  EXPECT_FALSE(Find(rows, "arrival:0")->link.has_value());  // it is selected
  EXPECT_STREQ(ui::Tr(ui::Language::kEnglish, Find(rows, "arrival:0")->label.name), "came last");
  for (int32_t rank = 2; rank < 8; ++rank) {
    facts.arrivals.push_back({rank, query::OpRunId(20 + rank), rank * kNsPerMs});
  }
  EXPECT_EQ(ids().size(), 8u);  // all
  EXPECT_EQ(Find(DetailRows(facts, ui::Language::kEnglish), "arrivals_more"), nullptr);
  for (int32_t rank = 8; rank < 64; ++rank) {
    facts.arrivals.push_back({rank, query::OpRunId(20 + rank), rank * kNsPerMs});
  }
  EXPECT_EQ(ids(), (std::vector<std::string>{"arrival:63", "arrival:62", "arrival:61", "arrival:60",
                                             "arrival:59", "arrival:58", "arrival:57",
                                             "arrivals_more", "arrival:1"}));
  EXPECT_EQ(Find(DetailRows(facts, ui::Language::kEnglish), "arrivals_more")->value, "56 more");
  facts.arrivals.resize(1);  // alone there is no order
  EXPECT_TRUE(ids().empty());
}

TEST(DetailsTextTest, RowsCountFromTheStepAndNameTheLastRank) {
  const std::vector<DetailRow> rows = DetailRows(HiddenGather(), ui::Language::kEnglish);
  ASSERT_NE(Find(rows, "issued"), nullptr);
  EXPECT_EQ(Find(rows, "issued")->value, "4.000 ms");
  EXPECT_EQ(Find(rows, "last_arrived")->value, "9.000 ms rank 1");
  EXPECT_EQ(Find(rows, "slack")->value, "+14.0 ms");
  EXPECT_EQ(Find(rows, "slack")->tone, DetailRow::Tone::kGood);
  EXPECT_EQ(std::get<int64_t>(Find(rows, "transfer")->number), 10 * kNsPerMs);
  EXPECT_EQ(Find(rows, "bus_bandwidth"), nullptr);  // unknown
}

// What nothing can use yet is not called used.
TEST(DetailsTextTest, AStalledGatherSaysWhenItWasWanted) {
  OpFacts facts = HiddenGather();
  facts.slack.first_use_ns = 17 * kNsPerMs;
  facts.slack.slack_ns = -3 * kNsPerMs;
  const std::vector<DetailRow> rows = DetailRows(facts, ui::Language::kEnglish);
  const DetailRow* wanted = Find(rows, "first_use");
  ASSERT_NE(wanted, nullptr);
  EXPECT_EQ(wanted->value, "16.000 ms");  // it ended at 19
  EXPECT_STREQ(ui::Tr(ui::Language::kEnglish, wanted->label.name), "first wanted");
  EXPECT_STREQ(ui::Tr(ui::Language::kChinese, wanted->label.name), "首次需要");
}

TEST(DetailsTextTest, EveryCauseHasItsOwnRemedyInBothLanguages) {
  for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
    std::set<std::string> meanings;
    for (int cause = 0; cause <= static_cast<int>(analysis::StallCause::kOther); ++cause) {
      OpFacts facts = HiddenGather();
      facts.slack.slack_ns = -28 * kNsPerMs;
      facts.stall = analysis::Stall();
      facts.stall->stall_ns = 28 * kNsPerMs;
      facts.stall->cause = static_cast<analysis::StallCause>(cause);
      facts.stall->cause_object = "RS block2";
      const std::string meaning = DetailMeaning(facts, language);
      EXPECT_NE(meaning.find("28.0 ms"), std::string::npos);
      meanings.insert(meaning);
    }
    EXPECT_EQ(meanings.size(), kCountOf<analysis::StallCause>);
  }
}

TEST(DetailsTextTest, WhatIsSetIsNotRecommended) {
  OpFacts facts = HiddenGather();
  facts.slack.slack_ns = -kNsPerMs;
  facts.stall = analysis::Stall();
  facts.stall->cause = analysis::StallCause::kSlowTransfer;
  for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
    facts.has_half_parameters = false;
    EXPECT_NE(DetailMeaning(facts, language).find("bf16"), std::string::npos);
    facts.has_half_parameters = true;
    EXPECT_EQ(DetailMeaning(facts, language).find("bf16"), std::string::npos);
  }
}

TEST(DetailsTextTest, AHostThatWasLateByItselfGetsNoAdviceOnKnobs) {
  OpFacts facts = HiddenGather();
  facts.slack.slack_ns = -kNsPerMs;
  facts.stall = analysis::Stall();
  facts.stall->cause = analysis::StallCause::kIssuedLate;
  facts.stall->cause_object = "B block2";
  const std::string waited = DetailMeaning(facts, ui::Language::kEnglish);
  EXPECT_NE(waited.find("run-ahead"), std::string::npos) << waited;
  facts.stall->cause_object.clear();
  const std::string busy = DetailMeaning(facts, ui::Language::kEnglish);
  EXPECT_EQ(busy.find("run-ahead"), std::string::npos) << busy;
  EXPECT_NE(busy.find("other programs"), std::string::npos) << busy;
}

// On real rows: everything that the lesson ran can be selected and explained.
TEST(DetailsTextTest, EveryOpOfTheLessonIsExplained) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 4, 2);
  for (const query::OpRun& run : snapshot->ranks[1].op_runs) {
    const OpFacts facts = timeline::FactsOf(*snapshot, 1, run.id);
    ASSERT_TRUE(facts.found);
    EXPECT_FALSE(DetailMeaning(facts, ui::Language::kEnglish).empty());
    const std::vector<DetailRow> rows = DetailRows(facts, ui::Language::kChinese);
    EXPECT_GE(rows.size(), 5U);
    const bool has_cpu_time = run.cpu_ns > 0 || run.slot_wait_ns > 0;
    EXPECT_EQ(Find(rows, "cpu") != nullptr, has_cpu_time && !facts.is_collective());
    const DetailRow* slack = Find(rows, "slack");
    EXPECT_EQ(slack != nullptr, facts.slack.found);
  }
}

// One of its own: what has none would show the first text of the catalogue.
TEST(DetailsTextTest, EveryRowIsExplained) {
  std::vector<DetailRow> rows;
  const auto add = [&rows](std::vector<DetailRow> more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 4, 2);
  for (const query::OpRun& run : snapshot->ranks[1].op_runs) {
    add(DetailRows(timeline::FactsOf(*snapshot, 1, run.id), ui::Language::kEnglish));
  }
  OpFacts gather = HiddenGather();
  gather.collective->bus_bandwidth = 1e9;
  add(DetailRows(gather, ui::Language::kEnglish));
  timeline::WorkFacts work;
  work.kind = timeline::WorkFacts::Kind::kWork;
  work.op = "B block1";
  work.launched_by = "thread";
  work.has_arrival = true;
  work.nccl = "AllGather";
  work.work.grid = {4, 1, 1};
  work.work.cluster = {2, 1, 1};
  work.work.channel_kind = query::ChannelKind::kCompute;
  for (const query::GpuWorkKind kind : {query::GpuWorkKind::kKernel, query::GpuWorkKind::kSet}) {
    work.work.kind = kind;
    add(WorkRows(work, ui::Language::kEnglish));
  }
  work.kind = timeline::WorkFacts::Kind::kRange;
  add(WorkRows(work, ui::Language::kEnglish));
  timeline::StreamWait wait;
  for (const bool incoming : {true, false}) {
    wait.incoming = incoming;
    add(WaitRows({wait}, ui::Language::kEnglish));
  }
  std::set<ui::Text> names;
  std::set<ui::Text> tips;
  for (const DetailRow& row : rows) {
    names.insert(row.label.name);
    tips.insert(row.label.tip);
    EXPECT_NE(row.label.tip, ui::Text{}) << row.id;
    EXPECT_GT(std::string(ui::Tr(ui::Language::kEnglish, row.label.tip)).size(),
              std::string(ui::Tr(ui::Language::kEnglish, row.label.name)).size())
        << row.id;
  }
  EXPECT_EQ(names.size(), tips.size());
  EXPECT_GE(names.size(), 30U);
}

TEST(DetailsTextTest, AKernelWithoutAShapeShowsNone) {
  timeline::WorkFacts work;
  work.kind = timeline::WorkFacts::Kind::kWork;
  work.work.kind = query::GpuWorkKind::kKernel;
  const auto has_grid = [&] {
    return std::ranges::any_of(WorkRows(work, ui::Language::kEnglish),
                               [](const DetailRow& row) { return std::string(row.id) == "grid"; });
  };
  EXPECT_FALSE(has_grid());
  work.work.grid = {4, 1, 1};
  EXPECT_TRUE(has_grid());
}

}  // namespace
}  // namespace shardscope::panels
