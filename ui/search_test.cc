#include "ui/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "ui/text.h"

namespace shardscope::ui {
namespace {

using Problem = analysis::SearchError::Problem;
using testing::HasSubstr;

analysis::SearchHit HitAt(int64_t start_ns, int32_t rank, int64_t op_run) {
  analysis::SearchHit hit;
  hit.rank = rank;
  hit.start_ns = start_ns;
  hit.end_ns = start_ns + 5;
  hit.row = static_cast<uint32_t>(op_run);
  hit.op_run = query::OpRunId(op_run);
  return hit;
}

// Hits at 10 (both ranks), 20 and 30; the view begins at 15.
class SearchSteps : public testing::Test {
 protected:
  SearchSteps() {
    context_.search.open = true;
    context_.search.text = "x";
    Find("x", {HitAt(10, 0, 1), HitAt(10, 1, 2), HitAt(20, 0, 3), HitAt(30, 0, 4)});
    context_.view = {15, 40, false, false};
  }

  void Find(const std::string& text, std::vector<analysis::SearchHit> hits) {
    auto found = std::make_shared<FoundHits>();
    found->text = text;
    found->result.hits = std::move(hits);
    context_.search.found = std::move(found);
  }

  // The hit that a step leads to; -1: none.
  int StepBy(int by) {
    const Commands commands = StepToHit(context_, by);
    if (commands.size() != 1 || !std::holds_alternative<SelectHit>(commands[0])) return -1;
    return static_cast<int>(std::get<SelectHit>(commands[0]).hit);
  }

  void Select(size_t hit) { context_.search.current = context_.search.found->result.hits[hit]; }

  Context context_;
};

TEST_F(SearchSteps, BeginInTheViewAndGoRoundTheEnds) {
  EXPECT_EQ(CurrentHit(context_.search), std::nullopt);
  EXPECT_EQ(StepBy(1), 2);
  EXPECT_EQ(StepBy(-1), 1);
  Select(3);
  EXPECT_EQ(CurrentHit(context_.search), 3u);
  EXPECT_EQ(StepBy(1), 0);
  EXPECT_EQ(StepBy(-1), 2);
  Select(0);
  EXPECT_EQ(StepBy(-1), 3);
  context_.search.current.reset();
  context_.view.start_ns = 99;  // behind the last
  EXPECT_EQ(StepBy(1), 0);
  EXPECT_EQ(StepBy(-1), 3);
}

TEST_F(SearchSteps, TheCurrentHitStaysItWhereOthersComeBefore) {
  Select(1);
  Find("x", {HitAt(5, 0, 9), HitAt(10, 0, 1), HitAt(10, 1, 2), HitAt(20, 0, 3)});
  EXPECT_EQ(CurrentHit(context_.search), 2u);
  // Rows are numbered anew where a run was loaded in part before.
  context_.search.current->row = 77;
  EXPECT_EQ(CurrentHit(context_.search), 2u);
  Find("x", {HitAt(10, 0, 1), HitAt(20, 0, 3)});
  EXPECT_EQ(CurrentHit(context_.search), std::nullopt);
}

TEST_F(SearchSteps, WaitForWhatWasTypedLast) {
  context_.search.text = "xy";
  EXPECT_EQ(StepBy(1), -1);
  Find("xy", {});
  EXPECT_EQ(StepBy(1), -1);
  context_.search.found = nullptr;
  EXPECT_EQ(StepBy(1), -1);
}

TEST_F(SearchSteps, OpenASearchThatIsClosed) {
  context_.search.open = false;
  const auto steps = [&](const char* text, int by) {
    context_.search.text = text;
    const Commands commands = StepToHit(context_, by);
    const auto* shows = commands.empty() ? nullptr : std::get_if<ShowSearch>(&commands[0]);
    EXPECT_TRUE(commands.size() == 1 && shows != nullptr && shows->show);
    return shows == nullptr ? 99 : shows->steps;
  };
  EXPECT_EQ(steps("", 1), 0);  // its field has the keyboard
  EXPECT_EQ(steps("  ", -1), 0);
  EXPECT_EQ(steps("block1", 1), 1);
  EXPECT_EQ(steps("block1", -1), -1);
}

TEST(SearchError, EnglishIsThatOfTheCommandLine) {
  for (const analysis::SearchError& error :
       std::vector<analysis::SearchError>{{Problem::kOpenQuote, "\"block", ""},
                                          {Problem::kUnknownTerm, "color:red", ""},
                                          {Problem::kUnknownTerm, "rnak:1", "rank"},
                                          {Problem::kUnknownKind, "kind:zzz", ""},
                                          {Problem::kUnknownKind, "kind:all_gater", "all_gather"},
                                          {Problem::kNoText, "kind:", "all_gather"},
                                          {Problem::kNoText, "unit:", "block1"},
                                          {Problem::kNoNumber, "rank:x", "rank"},
                                          {Problem::kNoDuration, "slower:5", ""},
                                          {Problem::kTwice, "rank:1", "rank"},
                                          {Problem::kNoValue, "exposed:1", ""}}) {
    EXPECT_EQ(SearchErrorText(Language::kEnglish, error), SearchErrorSentence(error) + ".");
  }
  const std::string nothing = SearchErrorText(Language::kEnglish, {});
  EXPECT_TRUE(nothing.starts_with("Nothing to look for: ")) << nothing;
  EXPECT_EQ(nothing.substr(1), analysis::SearchErrorSentence({}).substr(1) + ".");
}

TEST(SearchError, IsSaidInBothLanguagesWithItsTerm) {
  for (const char* query : {"\"block", "color:red", "rnak:1", "kind:zzz", "kind:all_gater",
                            "unit:", "rank:x", "slower:5", "rank:0 rank:1", "exposed:1", ""}) {
    const auto parsed = analysis::ParseSearch(query);
    const auto* error = std::get_if<analysis::SearchError>(&parsed);
    ASSERT_NE(error, nullptr) << query;
    const std::string english = SearchErrorText(Language::kEnglish, *error);
    const std::string chinese = SearchErrorText(Language::kChinese, *error);
    EXPECT_NE(english, chinese);
    for (const std::string& text : {english, chinese}) {
      EXPECT_THAT(text, HasSubstr(error->term));
      EXPECT_THAT(text, testing::Not(HasSubstr("{}")));
    }
  }
  EXPECT_THAT(SearchErrorText(Language::kEnglish, {Problem::kUnknownKind, "kind:al", "all_gather"}),
              HasSubstr("did you mean all_gather?"));
  EXPECT_THAT(SearchErrorText(Language::kChinese, {Problem::kUnknownKind, "kind:al", "all_gather"}),
              HasSubstr("是否想写 all_gather？"));
}

}  // namespace
}  // namespace shardscope::ui
