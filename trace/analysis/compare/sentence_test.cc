// What the first line of a comparison says, and that its figures belong together.
#include "trace/analysis/compare/sentence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/compare/gate.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

Comparison WithSettings(const std::vector<std::string>& keys) {
  Comparison comparison;
  comparison.verdict = ComparisonVerdict::kWithinNoise;
  for (const std::string& key : keys) comparison.settings.push_back({key, "1", "2"});
  return comparison;
}

TEST(CompareSentence, NamesTheMostImportantSettingsAndCountsTheOthers) {
  const Comparison one = WithSettings({"link.bandwidth"});
  EXPECT_THAT(SentenceOf(one), HasSubstr("; link.bandwidth is 1 in A and 2 in B."));
  Comparison many = WithSettings(
      {"num_ranks", "host", "lora.rank", "model.seq", "run.ranks", "strategy", "train.batch"});
  EXPECT_THAT(SentenceOf(many),
              HasSubstr("; num_ranks is 1 in A and 2 in B, strategy is 1 in A and 2 in B, "
                        "lora.rank is 1 in A and 2 in B, and 3 others."));
  // What the order of collectives says already is not said twice; all else is.
  many.settings.push_back({"prefetch.forward", "2", "1"});
  many.a.schedule.forward_lead = 2;
  many.b.schedule.forward_lead = 1;
  const std::string sentence = SentenceOf(many);
  EXPECT_THAT(sentence, HasSubstr("issued 2 units ahead in A and 1 in B, num_ranks is 1 in A"));
  EXPECT_THAT(sentence, HasSubstr(", and 3 others."));
  EXPECT_THAT(sentence, Not(HasSubstr("prefetch.forward")));
}

TEST(CompareSentence, CountsWhatIsTooLongToName) {
  Comparison comparison = WithSettings({"data.path"});
  comparison.settings[0].a = std::string(50, 'a');
  EXPECT_THAT(SentenceOf(comparison), HasSubstr("; 1 setting differs."));
  comparison.settings.push_back({"strategy", "full", "ddp"});
  EXPECT_THAT(SentenceOf(comparison),
              HasSubstr("; strategy is full in A and ddp in B, and 1 other."));
}

// In ms; of A all are 100.
Comparison Worse(const std::array<double, kNumStepParts>& parts,
                 const std::vector<std::pair<RowKey, double>>& rows) {
  const auto by = [](double ms) {
    Delta delta;
    delta.a_ns = 100e6;
    delta.b_ns = 100e6 + ms * 1e6;
    return delta;
  };
  Comparison comparison;
  comparison.verdict = ComparisonVerdict::kWorse;
  double step_ms = 0;
  for (size_t at = 0; at < kNumStepParts; ++at) {
    comparison.parts[at] = by(parts[at]);
    step_ms += parts[at];
  }
  comparison.step = by(step_ms);
  for (const auto& [key, ms] : rows) {
    ComparedRow row;
    row.key = key;
    row.on_path = by(ms);
    comparison.rows.push_back(row);
  }
  return comparison;
}

// Reduce-scatters of one unit are dearer, of another as much cheaper: they are no part of what is
// lost.
TEST(CompareSentence, NamesTheLargestPartFirstAndNoGrossSum) {
  const RowKey backward = {StepPart::kCompute, "backward", "backward", "block0", ""};
  const RowKey scatter = {StepPart::kExposed, "reduce_scatter", "backward", "block0", "shard"};
  RowKey other = scatter;
  other.unit = "block1";
  const std::string sentence =
      SentenceOf(Worse({7.68, 0.99, 0, 5.72}, {{backward, 6.5}, {scatter, 4.83}, {other, -4}}));
  EXPECT_THAT(sentence, HasSubstr(": 7.68 ms of the 14.4 ms is compute, 6.50 ms of it backward "
                                  "compute of block0."));
  EXPECT_THAT(sentence, Not(HasSubstr("reduce-scatter")));
  // What is more than its part, as the part is more than all, is not said to be of it.
  RowKey gather = scatter;
  gather.kind = "all_gather";
  EXPECT_THAT(
      SentenceOf(Worse({-2, 12, 0, 0}, {{scatter, 15}, {gather, -3}})),
      HasSubstr(": 12.0 ms more exposed communication, 15.0 ms more in exposed reduce-scatters"));
}

// One rank; a step for each length.
query::SnapshotPtr RunOf(const std::vector<int64_t>& step_ns, int64_t tokens) {
  TestSnapshot test(1);
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0");
  int64_t start_ns = 0;
  int32_t step = 2;  // behind warm-up
  for (const int64_t length_ns : step_ns) {
    test.Run(0, step, forward, start_ns, start_ns + length_ns / 2);
    test.Step(0, step++, start_ns, start_ns + length_ns).tokens = tokens;
    start_ns += length_ns;
  }
  return test.Build();
}

Comparison CompareRuns(const query::SnapshotPtr& a, const query::SnapshotPtr& b) {
  return Compare({a.get(), {}, "a"}, {b.get(), {}, "b"});
}

TEST(CompareSentence, SaysWhereStepsDifferInTheirTokens) {
  const std::vector<int64_t> alike(8, 1'000'000);
  const query::SnapshotPtr all = RunOf(alike, 512);
  EXPECT_EQ(CompareRuns(all, RunOf(alike, 512)).a.tokens, 512);
  EXPECT_THAT(CompareRuns(all, RunOf(alike, 512)).sentence, Not(HasSubstr("tokens")));
  const Comparison half = CompareRuns(all, RunOf(alike, 256));
  EXPECT_THAT(half.sentence,
              HasSubstr("within noise (1.00 ms -> 1.00 ms a step, 512 -> 256 tokens, "
                        "512 k -> 256 k tokens/s)"));
  const Comparison faster = CompareRuns(all, RunOf(std::vector<int64_t>(8, 500'000), 256));
  EXPECT_EQ(faster.verdict, ComparisonVerdict::kBetter);
  EXPECT_THAT(faster.sentence, HasSubstr("512 -> 256 tokens, 512 k -> 512 k tokens/s)"));
  EXPECT_THAT(CompareRuns(all, RunOf(alike, 0)).sentence, Not(HasSubstr("tokens")));
}

// Terminals and JSON get ASCII; the app writes as its other panels do.
TEST(CompareSentence, IsWrittenWithTheSignsOfItsReader) {
  const std::vector<int64_t> alike(8, 100'000);
  const Comparison half = CompareRuns(RunOf(alike, 512), RunOf(alike, 256));
  EXPECT_EQ(half.sentence, SentenceOf(half));
  EXPECT_THAT(half.sentence, HasSubstr("(100 us -> 100 us a step, 512 -> 256 tokens, "));
  const auto in_app = [](int64_t duration_ns) {
    return std::to_string(duration_ns / 1000) + " µs";
  };
  const std::string shown = SentenceOf(half, {in_app, "→"});
  EXPECT_THAT(shown, HasSubstr("(100 µs → 100 µs a step, 512 → 256 tokens, "));
  EXPECT_THAT(shown, Not(HasSubstr("->")));
}

TEST(CompareGate, JudgesTheStepWhereItsTokensAreAlikeOrNotKnown) {
  const std::vector<int64_t> fast(8, 1'000'000);
  const std::vector<int64_t> slow(8, 1'100'000);
  for (const auto& [tokens_a, tokens_b] :
       {std::pair(512, 512), std::pair(0, 512), std::pair(0, 0)}) {
    const Comparison slower = CompareRuns(RunOf(fast, tokens_a), RunOf(slow, tokens_b));
    const Gate fails = GateOf(slower, 0.05);
    EXPECT_EQ(fails.outcome, GateOutcome::kFails);
    EXPECT_FALSE(fails.is_per_token);
    EXPECT_DOUBLE_EQ(fails.slower, slower.slower());
    EXPECT_EQ(fails.sentence, "--fail-if-slower 5% fails: B takes 10% more a step, beyond noise.");
    EXPECT_EQ(GateOf(slower, 0.2).sentence,
              "--fail-if-slower 20% passes: B takes 10% more a step.");
  }
  EXPECT_EQ(GateOf(CompareRuns(RunOf(fast, 512), RunOf({1'100'000}, 512)), 0.05).outcome,
            GateOutcome::kUnknown);
}

TEST(CompareGate, JudgesTheTokenWhereStepsDifferInTheirTokens) {
  const query::SnapshotPtr a = RunOf(std::vector<int64_t>(8, 1'000'000), 512);
  // Twice the tokens in steps that are longer by half: three quarters of the time a token.
  const Comparison better = CompareRuns(a, RunOf(std::vector<int64_t>(8, 1'500'000), 1024));
  EXPECT_EQ(better.verdict, ComparisonVerdict::kWorse);
  const Gate passes = GateOf(better, 0);
  EXPECT_EQ(passes.outcome, GateOutcome::kPasses);
  EXPECT_EQ(passes.verdict, ComparisonVerdict::kBetter);
  EXPECT_DOUBLE_EQ(passes.slower, -0.25);
  EXPECT_EQ(passes.sentence,
            "--fail-if-slower 0% passes: B takes 25% less a token (512 k -> 683 k tokens/s), which "
            "is judged as steps differ in their tokens.");
  // Half of the tokens in steps that are shorter by a fifth.
  const Comparison worse = CompareRuns(a, RunOf(std::vector<int64_t>(8, 800'000), 256));
  EXPECT_EQ(worse.verdict, ComparisonVerdict::kBetter);
  const Gate fails = GateOf(worse, 0.5);
  EXPECT_EQ(fails.outcome, GateOutcome::kFails);
  EXPECT_DOUBLE_EQ(fails.slower, 0.6);
  EXPECT_THAT(fails.sentence,
              HasSubstr("fails: B takes 60% more a token (512 k -> 320 k tokens/s)"));
  EXPECT_EQ(GateOf(worse, 0.7).outcome, GateOutcome::kPasses);
  // As many tokens in as long a time.
  const Gate alike = GateOf(CompareRuns(a, RunOf(std::vector<int64_t>(8, 500'000), 256)), 0);
  EXPECT_EQ(alike.outcome, GateOutcome::kPasses);
  EXPECT_THAT(alike.sentence, HasSubstr("within noise."));
  // Too few steps say as little of a token.
  const Gate few = GateOf(CompareRuns(a, RunOf({800'000, 800'000}, 256)), 0.05);
  EXPECT_EQ(few.outcome, GateOutcome::kUnknown);
  EXPECT_THAT(few.sentence, HasSubstr("cannot be said of so few steps: B takes 60% more a token"));
}

// The slow steps of one side are many, of the other few: the means of the middle half lie further
// apart than the steps are shifted.
TEST(Comparison, EachDifferenceLiesWithinItsInterval) {
  std::vector<int64_t> a;
  std::vector<int64_t> b;
  for (int64_t at = 0; at < 40; ++at) {
    a.push_back(1'000'000 + 10 * at);
    b.push_back(at < 28 ? 1'000'000 + 10 * at : 3'000'000 + 50'000 * at);
  }
  const auto check = [](const Comparison& comparison) {
    const auto lies_within = [](const Delta& delta) {
      ASSERT_TRUE(delta.shift.known);
      EXPECT_LE(static_cast<double>(delta.shift.low_ns), delta.ns());
      EXPECT_GE(static_cast<double>(delta.shift.high_ns), delta.ns());
      EXPECT_LE(delta.shift.low_ns, delta.shift.estimate_ns);
      EXPECT_GE(delta.shift.high_ns, delta.shift.estimate_ns);
    };
    double parts_ns = 0;
    double rows_ns = 0;
    lies_within(comparison.step);
    for (const Delta& part : comparison.parts) {
      lies_within(part);
      parts_ns += part.ns();
    }
    for (const ComparedRow& row : comparison.rows) {
      lies_within(row.on_path);
      rows_ns += row.on_path.ns();
    }
    EXPECT_NEAR(parts_ns, comparison.step.ns(), 1e-3);
    EXPECT_NEAR(rows_ns, comparison.step.ns(), 1e-3);
  };
  const Comparison skewed = CompareRuns(RunOf(a, 0), RunOf(b, 0));
  EXPECT_GT(skewed.step.ns(), static_cast<double>(ShiftBetween(a, b).high_ns));
  check(skewed);
  check(CompareRuns(RunOf(b, 0), RunOf(a, 0)));
}

}  // namespace
}  // namespace shardscope::analysis
