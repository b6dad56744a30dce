#include "ui/panels/details/details_text.h"

#include <gtest/gtest.h>

namespace shardscope::panels {
namespace {

using timeline::StreamWait;

StreamWait Wait(StreamWait::Verdict verdict, bool incoming, const std::string& other) {
  StreamWait wait;
  wait.verdict = verdict;
  wait.incoming = incoming;
  wait.from.name = incoming ? other : "own";
  wait.to.name = incoming ? "own" : other;
  wait.from.span = query::SpanId(1);
  wait.to.span = query::SpanId(2);
  return wait;
}

TEST(WaitTextTest, DifferencesComeFirstAndInRed) {
  const std::vector<StreamWait> waits = {Wait(StreamWait::Verdict::kPlanned, false, "F block0"),
                                         Wait(StreamWait::Verdict::kPlanned, true, "AG block0"),
                                         Wait(StreamWait::Verdict::kMissing, true, "RS block1")};
  const std::vector<DetailRow> rows = WaitRows(waits, ui::Language::kEnglish);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].value, "RS block1 (planned, not seen)");
  EXPECT_EQ(rows[0].tone, DetailRow::Tone::kBad);
  EXPECT_EQ(rows[1].value, "AG block0");
  EXPECT_EQ(rows[1].id, "waited_event");
  EXPECT_EQ(rows[2].value, "F block0");
  EXPECT_EQ(rows[2].id, "awaited_event");
  const std::string meaning = WaitMeaning(waits, ui::Language::kEnglish);
  EXPECT_NE(meaning.find("own wait for RS block1"), std::string::npos) << meaning;
}

TEST(WaitTextTest, AValueLeadsToTheOtherEnd) {
  StreamWait kernel = Wait(StreamWait::Verdict::kUnknown, true, "gemm");
  StreamWait op = Wait(StreamWait::Verdict::kPlanned, false, "F block0");
  op.to.is_op = true;
  op.to.op_run = query::OpRunId(2);
  StreamWait lost = Wait(StreamWait::Verdict::kUnknown, true, "stream 7");
  lost.from.span = query::SpanId::None();
  const std::vector<DetailRow> rows = WaitRows({kernel, lost, op}, ui::Language::kEnglish);
  ASSERT_EQ(rows.size(), 3u);
  ASSERT_TRUE(rows[0].link.has_value());
  EXPECT_EQ(std::get<ui::SelectSpan>(*rows[0].link).span, query::SpanId(1));
  EXPECT_FALSE(rows[1].link.has_value());
  ASSERT_TRUE(rows[2].link.has_value());
  EXPECT_EQ(std::get<ui::SelectOp>(*rows[2].link).op_run, query::OpRunId(2));
}

TEST(WaitTextTest, ManyWaitsDoNotFillThePanel) {
  const std::vector<StreamWait> many(20, Wait(StreamWait::Verdict::kPlanned, true, "x"));
  EXPECT_EQ(WaitRows(many, ui::Language::kEnglish).size(), 4u);
  EXPECT_EQ(WaitMeaning(many, ui::Language::kEnglish), "");
}

}  // namespace
}  // namespace shardscope::panels
