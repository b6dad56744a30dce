#include "trace/analysis/find/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

using Problem = SearchError::Problem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two ranks, each with an all-gather of block0, its forward and a reduce-scatter of block1 in step
// 0; rank 0 also with the first two in step 1.
//
//   rank 0   AG 0-10      F 6-30         RS 30-50    |  AG 100-104  F 95-110
//   rank 1   AG 0-20          F 20-40    RS 22-38    |
class SearchTest : public testing::Test {
 protected:
  SearchTest() : test_(2) {
    gather_ = test_.Plan("all_gather", "forward", "block0");
    forward_ = test_.Plan("forward", "forward", "", "block0.mlp", {gather_});
    scatter_ = test_.Plan("reduce_scatter", "backward", "block1");
    test_.Run(0, 0, gather_, 0, 10);
    test_.Run(0, 0, forward_, 6, 30);
    test_.Run(0, 0, scatter_, 30, 50);
    test_.Run(1, 0, gather_, 0, 20);
    test_.Run(1, 0, forward_, 20, 40);
    test_.Run(1, 0, scatter_, 22, 38);
    test_.Step(0, 0, 0, 60);
    test_.Step(1, 0, 0, 60);
    // In the order of their ends, not of their starts.
    test_.Run(0, 1, gather_, 100, 104);
    test_.Run(0, 1, forward_, 95, 110);
    test_.Step(0, 1, 90, 120);
  }

  int32_t AddName(const std::string& name) {
    test_.snapshot().names.Append(name);
    return static_cast<int32_t>(test_.snapshot().names.size()) - 1;
  }

  // On rank 0.
  void AddWork(int64_t id, const std::string& name, int64_t start_ns, int64_t end_ns,
               query::SpanCategory category, query::PlanOpId plan_op = query::PlanOpId::None(),
               int32_t step = -1) {
    query::GpuWork work;
    work.id = query::SpanId(id);
    work.name = AddName(name);
    work.start_ns = start_ns;
    work.end_ns = end_ns;
    work.category = category;
    work.plan_op = plan_op;
    work.step = step;
    test_.snapshot().ranks[0].gpu_work.Append(work);
  }

  void AddRange(int32_t rank, int64_t id, const std::string& name, int64_t start_ns,
                int64_t end_ns) {
    query::Span span;
    span.id = query::SpanId(id);
    span.name = AddName(name);
    span.start_ns = start_ns;
    span.end_ns = end_ns;
    test_.snapshot().ranks[static_cast<size_t>(rank)].spans.Append(span);
  }

  SearchResult Find(std::string_view text, const SearchOptions& options = {}) {
    snapshot_ = test_.Build();
    const auto parsed = ParseSearch(text);
    const auto* query = std::get_if<SearchQuery>(&parsed);
    EXPECT_NE(query, nullptr) << text;
    return query == nullptr ? SearchResult{} : Search(*snapshot_, *query, options);
  }

  // Rank and start of each hit.
  std::vector<std::pair<int32_t, int64_t>> Places(std::string_view text) {
    std::vector<std::pair<int32_t, int64_t>> places;
    for (const SearchHit& hit : Find(text).hits) places.emplace_back(hit.rank, hit.start_ns);
    return places;
  }

  std::vector<std::string> Names(std::string_view text) {
    std::vector<std::string> names;
    for (const SearchHit& hit : Find(text).hits) names.push_back(NameOf(*snapshot_, hit));
    return names;
  }

  TestSnapshot test_;
  query::PlanOpId gather_;
  query::PlanOpId forward_;
  query::PlanOpId scatter_;
  query::SnapshotPtr snapshot_;
};

TEST_F(SearchTest, FindsAPartOfTheNameAndAddsUpWhatItFound) {
  const SearchResult found = Find("ALL_Gather");
  EXPECT_FALSE(found.stopped);
  EXPECT_EQ(found.count, 3);
  EXPECT_EQ(found.sum_ns, 10 + 20 + 4);
  EXPECT_EQ(found.longest_ns, 20);
  EXPECT_DOUBLE_EQ(found.duration_ns.p50, 10);
  EXPECT_DOUBLE_EQ(found.duration_ns.p95, 19);  // nine tenths of the way from 10 to 20
  ASSERT_EQ(found.hits.size(), 3u);
  const SearchHit& second = found.hits[1];
  EXPECT_EQ(second.what, HitKind::kOp);
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.step, 0);
  EXPECT_EQ(second.start_ns, 0);
  EXPECT_EQ(second.end_ns, 20);
  EXPECT_EQ(second.op_run, snapshot_->ranks[1].op_runs[0].id);
  EXPECT_EQ(second.track, snapshot_->ranks[1].op_runs[0].track);
  EXPECT_TRUE(second.span.is_none());
  EXPECT_EQ(NameOf(*snapshot_, second), "F m0 block0 all_gather");
  EXPECT_EQ(KindOf(*snapshot_, second), "all_gather");
}

TEST_F(SearchTest, HitsAreInTheOrderOfTheirStarts) {
  EXPECT_THAT(Places("kind:op step:1"), ElementsAre(std::pair(0, 95), std::pair(0, 100)));
  EXPECT_THAT(Places("block0"), ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(0, 6),
                                            std::pair(1, 20), std::pair(0, 95), std::pair(0, 100)));
}

TEST_F(SearchTest, AllTermsHaveToHold) {
  EXPECT_EQ(Find("gather block0").count, 3);
  EXPECT_EQ(Find("gather block1").count, 0);
  EXPECT_EQ(Find("\"block0 all_gather\"").count, 3);  // of "F m0 block0 all_gather"
  EXPECT_EQ(Find("\"all_gather block0\"").count, 0);
  EXPECT_EQ(Find("\"AG block0\"").count, 3);  // as lanes call it
  EXPECT_EQ(Find("gather rank:0 step:0").count, 1);
  EXPECT_EQ(Find("  gather\t rank:1 slower:19ns ").count, 1);
}

TEST_F(SearchTest, KindIsThatOfAnOpItsClassOrItsCategory) {
  EXPECT_EQ(Find("kind:all_gather").count, 3);
  EXPECT_EQ(Find("kind:All-Gather").count, 3);
  EXPECT_EQ(Find("kind:communication").count, 5);
  EXPECT_EQ(Find("kind:communication kind:all_gather").count, 3);
  EXPECT_EQ(Find("kind:compute").count, 3);
  EXPECT_EQ(Find("kind:op").count, 8);
  EXPECT_EQ(Find("kind:forward kind:communication").count, 0);
  EXPECT_EQ(Find("kind:backward").count, 0);
}

TEST_F(SearchTest, RankUnitStepAndDuration) {
  EXPECT_EQ(Find("rank:0").count, 5);
  EXPECT_EQ(Find("rank:1").count, 3);
  EXPECT_EQ(Find("rank:2").count, 0);
  EXPECT_EQ(Find("unit:BLOCK1").count, 2);
  EXPECT_EQ(Find("unit:block0").count, 6);  // compute by its segment
  EXPECT_EQ(Find("unit:block").count, 8);
  EXPECT_EQ(Find("unit:block0 unit:mlp").count, 3);
  EXPECT_EQ(Find("step:0").count, 6);
  EXPECT_EQ(Find("step:1").count, 2);
  EXPECT_EQ(Find("step:7").count, 0);
  EXPECT_EQ(Find("slower:20ns").count, 1);  // the forward of 24; those of 20 take no longer
  EXPECT_EQ(Find("slower:19ns").count, 4);
  EXPECT_EQ(Find("slower:0").count, 8);
  EXPECT_EQ(Find("slower:1us").count, 0);
  EXPECT_EQ(Find("kind:communication slower:9ns").sum_ns, 10 + 20 + 20 + 16);
}

TEST_F(SearchTest, AStepThatTheTraceDoesNotHaveIsNamed) {
  test_.Run(0, 5, forward_, 130, 140);  // of a step that goes on
  const query::SnapshotPtr snapshot = test_.Build();
  const auto check = [&](std::string_view text) {
    return CheckHasStep(*snapshot, std::get<SearchQuery>(ParseSearch(text)));
  };
  EXPECT_EQ(check("step:99").message(), "no step 99: this trace has the steps 0 to 1");
  EXPECT_EQ(check("step:99 rank:0 forward").message(),
            "no step 99: this trace has the steps 0 to 1");
  for (const char* text :
       {"step:0 nothing", "step:1 rank:1", "step:5 kind:all_gather", "nothing"}) {
    EXPECT_TRUE(check(text).ok()) << text;
  }
}

TEST_F(SearchTest, ExposedIsCommunicationThatComputeDoesNotHideWhole) {
  // 0-10 but for 6-10, 0-20 whole and 30-50 whole; 22-38 and 100-104 are hidden.
  EXPECT_THAT(Places("exposed"), ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(0, 30)));
  EXPECT_EQ(Find("Exposed kind:reduce_scatter").count, 1);
  EXPECT_EQ(Find("exposed kind:forward").count, 0);
  EXPECT_EQ(Find("\"exposed\"").count, 0);  // in quotes it is a text
  // The steps that have such a hit are those with exposed time.
  std::set<std::pair<int32_t, int32_t>> with_hits;
  for (const SearchHit& hit : Find("exposed").hits) with_hits.insert({hit.rank, hit.step});
  for (const StepBreakdown& row : Breakdowns(*snapshot_)) {
    EXPECT_EQ(row.time.exposed_ns > 0, with_hits.contains({row.rank, row.step})) << row.rank;
  }
}

TEST_F(SearchTest, WhileARunGoesOnWhatIsNotYetKnownIsNotExposed) {
  test_.snapshot().state = query::TraceState::kLive;
  test_.Run(0, 1, scatter_, 111, 140);  // the compute under it may still run
  EXPECT_EQ(Find("exposed step:1").count, 0);
  test_.snapshot().state = query::TraceState::kFinished;
  EXPECT_EQ(Find("exposed step:1").count, 1);
}

TEST_F(SearchTest, OfAnEvaluationNothingIsExposed) {
  test_.Run(0, -2, gather_, 70, 80);
  EXPECT_EQ(Find("kind:all_gather").count, 4);
  EXPECT_EQ(Find("exposed kind:all_gather").count, 2);
}

TEST_F(SearchTest, WorkOfTheGpuIsFoundByItsNameAndItsOp) {
  AddWork(71, "ncclDevKernel_AllGather_RING_LL", 0, 9, query::SpanCategory::kCommunication, gather_,
          0);
  AddWork(72, "ampere_sgemm_128x64_tn", 4, 8, query::SpanCategory::kCompute, forward_, 0);
  AddWork(73, "ncclDevKernel_AllReduce", 5, 7, query::SpanCategory::kCommunication);
  AddWork(74, "fill", 130, 140, query::SpanCategory::kCompute);
  EXPECT_THAT(Names("nccldevkernel"),
              ElementsAre("ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_AllReduce"));
  const SearchResult found = Find("sgemm");
  ASSERT_EQ(found.count, 1);
  EXPECT_EQ(found.hits[0].what, HitKind::kWork);
  EXPECT_EQ(found.hits[0].span, query::SpanId(72));
  EXPECT_TRUE(found.hits[0].op_run.is_none());
  EXPECT_EQ(KindOf(*snapshot_, found.hits[0]), "kernel");
  EXPECT_EQ(Find("kind:kernel").count, 4);
  EXPECT_EQ(Find("kind:work kind:communication").count, 2);
  EXPECT_EQ(Find("kind:work unit:block0").count, 2);
  EXPECT_EQ(Find("kind:work rank:1").count, 0);
  EXPECT_EQ(Find("kind:work step:0").count, 3);  // that of no op, too: by its time
  EXPECT_EQ(Find("kind:work slower:9ns").count, 1);
  // 0-9 is hidden from 4 to 8 alone, 5-7 whole.
  EXPECT_THAT(Names("exposed kind:work"), ElementsAre("ncclDevKernel_AllGather_RING_LL"));
}

TEST_F(SearchTest, RangesAreFoundByNameAndAreOfTheStepThatTheyBeginIn) {
  AddRange(1, 81, "at::native::copy_", 10, 14);
  AddRange(1, 82, "DataLoader.next", 62, 70);
  EXPECT_THAT(Names("at::NATIVE"), ElementsAre("at::native::copy_"));
  EXPECT_EQ(Find("kind:range").count, 2);
  EXPECT_EQ(Find("kind:range kind:host").count, 2);
  EXPECT_EQ(Find("kind:range step:0").count, 1);
  EXPECT_EQ(Find("dataloader").hits[0].step, -1);
  EXPECT_EQ(Find("kind:range unit:block0").count, 0);
  EXPECT_EQ(Find("kind:range exposed").count, 0);
  EXPECT_EQ(Find("kind:range rank:0").count, 0);
  EXPECT_EQ(Find("kind:range slower:5ns").sum_ns, 8);
}

// What is drawn of the hits reaches as far as they do, seen or not.
TEST_F(SearchTest, RangesWhoseEndWasNotSeenAreInNoSum) {
  AddRange(1, 81, "load", 10, 14);
  AddRange(1, 82, "load (not ended)", 20, 60);
  const SearchResult found = Find("load");
  EXPECT_EQ(found.count, 2);
  EXPECT_EQ(found.sum_ns, 4);
  EXPECT_DOUBLE_EQ(found.duration_ns.p95, 4);
  EXPECT_EQ(found.longest_ns, 40);
  ASSERT_EQ(found.hits.size(), 2u);
  EXPECT_TRUE(found.hits[0].has_end);
  EXPECT_FALSE(found.hits[1].has_end);
}

TEST_F(SearchTest, MarkersAreMomentsOfAllRanks) {
  test_.snapshot().markers = {{90, 1, "change", "prefetch.backward", "none", "pre"},
                              {115, 1, "error", "", "", "rank 1: out of memory"}};
  const SearchResult errors = Find("kind:error");
  ASSERT_EQ(errors.count, 1);
  EXPECT_EQ(errors.hits[0].what, HitKind::kMarker);
  EXPECT_EQ(errors.hits[0].rank, -1);
  EXPECT_EQ(errors.hits[0].step, 1);
  EXPECT_EQ(errors.hits[0].start_ns, 115);
  EXPECT_EQ(errors.hits[0].end_ns, 115);
  EXPECT_EQ(errors.sum_ns, 0);
  EXPECT_DOUBLE_EQ(errors.duration_ns.p50, 0);
  EXPECT_EQ(KindOf(*snapshot_, errors.hits[0]), "error");
  EXPECT_THAT(Names("\"out of\""), ElementsAre("error: rank 1: out of memory"));
  EXPECT_THAT(Names("backward kind:marker"),
              ElementsAre("prefetch.backward: none \xE2\x86\x92 pre"));
  EXPECT_EQ(Find("kind:marker").count, 2);
  EXPECT_EQ(Find("kind:marker rank:0").count, 0);
  EXPECT_EQ(Find("kind:marker step:0").count, 0);
  EXPECT_EQ(Find("kind:marker slower:0").count, 0);
  // They have no part in the percentiles of what takes time.
  const SearchResult step = Find("step:1");
  EXPECT_EQ(step.count, 4);
  EXPECT_DOUBLE_EQ(step.duration_ns.p50, 9.5);  // of 4 and 15
}

TEST_F(SearchTest, KeepsTheFirstHitsAndCountsAll) {
  for (const size_t most : {0u, 1u, 2u, 3u, 7u}) {
    const SearchResult found = Find("kind:op", {.most_hits = most});
    EXPECT_EQ(found.count, 8);
    EXPECT_EQ(found.sum_ns, 10 + 24 + 20 + 20 + 20 + 16 + 4 + 15);
    EXPECT_DOUBLE_EQ(found.duration_ns.p50, 18);  // between 16 and 20
    ASSERT_EQ(found.hits.size(), most);
    const std::vector<SearchHit> all = Find("kind:op").hits;
    EXPECT_EQ(found.hits,
              std::vector<SearchHit>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most)));
  }
}

TEST(SearchThreads, FindTheSame) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(5, 6, 3);
  for (const char* text :
       {"kind:op", "gather", "exposed", "rank:2 block", "step:4", "slower:1ms"}) {
    const SearchQuery query = std::get<SearchQuery>(ParseSearch(text));
    for (const size_t most : {0u, 7u, 100'000u}) {
      const SearchResult one = Search(*snapshot, query, {.most_hits = most});
      const SearchResult several =
          Search(*snapshot, query, {.most_hits = most, .rows_a_thread = 1});
      EXPECT_GT(one.count, 0) << text;
      EXPECT_EQ(several.count, one.count) << text;
      EXPECT_EQ(several.hits, one.hits) << text;
      EXPECT_EQ(several.sum_ns, one.sum_ns) << text;
      EXPECT_EQ(several.longest_ns, one.longest_ns) << text;
      EXPECT_EQ(several.duration_ns.p50, one.duration_ns.p50) << text;
      EXPECT_EQ(several.duration_ns.p95, one.duration_ns.p95) << text;
    }
  }
}

TEST_F(SearchTest, StopsWhenAsked) {
  std::stop_source stop;
  EXPECT_FALSE(Find("gather", {.stop = stop.get_token()}).stopped);
  stop.request_stop();
  const SearchResult found = Find("gather", {.stop = stop.get_token()});
  EXPECT_TRUE(found.stopped);
  EXPECT_THAT(found.hits, IsEmpty());
}

SearchError ErrorOf(std::string_view text) {
  const auto parsed = ParseSearch(text);
  const auto* error = std::get_if<SearchError>(&parsed);
  EXPECT_NE(error, nullptr) << text;
  return error == nullptr ? SearchError{} : *error;
}

TEST(SearchErrors, NameTheTermAndSayTheRemedy) {
  const struct {
    const char* text;
    Problem problem;
    const char* term;
    const char* remedy;
  } cases[] = {
      {"", Problem::kEmpty, "", "give a part of a name"},
      {"  ", Problem::kEmpty, "", "kind:"},
      {"\"\"", Problem::kEmpty, "", "exposed"},
      {"rank:0 \"block0 all", Problem::kOpenQuote, "\"block0 all", "close it"},
      {"block0 color:red", Problem::kUnknownTerm, "color:red", "in quotes"},
      {"rnak:1", Problem::kUnknownTerm, "rnak:1", "did you mean rank?"},
      {"block0 Step=3", Problem::kUnknownTerm, "Step=3", "did you mean step:3?"},
      {"kind:all_gater", Problem::kUnknownKind, "kind:all_gater", "did you mean all_gather?"},
      {"kind:zzz", Problem::kUnknownKind, "kind:zzz", "kernel"},
      {"kind:", Problem::kNoText, "kind:", "kind:all_gather"},
      {"unit: block0", Problem::kNoText, "unit:", "unit:block1"},
      {"rank:", Problem::kNoNumber, "rank:", "rank:1"},
      {"rank:one", Problem::kNoNumber, "rank:one", "rank:1"},
      {"step:-1", Problem::kNoNumber, "step:-1", "step:1"},
      {"step:3x", Problem::kNoNumber, "step:3x", "step:1"},
      {"rank:99999999999", Problem::kNoNumber, "rank:99999999999", "rank:1"},
      {"slower:5", Problem::kNoDuration, "slower:5", "slower:5ms"},
      {"slower:", Problem::kNoDuration, "slower:", "slower:5ms"},
      {"slower:fast", Problem::kNoDuration, "slower:fast", "slower:5ms"},
      {"rank:0 rank:1", Problem::kTwice, "rank:1", "once"},
      {"step:0 gather step:0", Problem::kTwice, "step:0", "once"},
      {"slower:1ms slower:2ms", Problem::kTwice, "slower:2ms", "once"},
      {"exposed:1", Problem::kNoValue, "exposed:1", "exposed alone"},
  };
  for (const auto& one : cases) {
    const SearchError error = ErrorOf(one.text);
    EXPECT_EQ(error.problem, one.problem) << one.text;
    EXPECT_EQ(error.term, one.term);
    const std::string sentence = SearchErrorSentence(error);
    EXPECT_THAT(sentence, HasSubstr(one.term));
    EXPECT_THAT(sentence, HasSubstr(one.remedy));
  }
}

TEST(SearchErrors, WhatOnlyLooksLikeATermIsText) {
  for (const char* text : {"at::native", "16:30", "\"kind:zzz\"", ":", "a.b:c", "exposed_copy"}) {
    const auto parsed = ParseSearch(text);
    const auto* query = std::get_if<SearchQuery>(&parsed);
    ASSERT_NE(query, nullptr) << text;
    EXPECT_EQ(query->texts.size(), 1u) << text;
    EXPECT_FALSE(query->exposed) << text;
  }
}

}  // namespace
}  // namespace shardscope::analysis
