#include "trace/analysis/explain/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace shardscope::analysis {
namespace {

using testing::HasSubstr;

StepBreakdown Step(int64_t compute_ns, int64_t exposed_ns, int64_t copy_ns, int64_t idle_ns) {
  StepBreakdown row;
  row.step = 5;
  row.time.compute_ns = compute_ns;
  row.time.exposed_ns = exposed_ns;
  row.time.exposed_copy_ns = copy_ns;
  row.time.idle_ns = idle_ns;
  row.step_ns = compute_ns + exposed_ns + copy_ns + idle_ns;
  return row;
}

StallGroup Group(StallCause cause, double ns_per_step) {
  StallGroup group;
  group.cause = cause;
  group.title = "AG block1 -> F";
  group.ns_per_step = ns_per_step;
  group.worst.rank = 1;
  group.worst.step = 7;
  return group;
}

// One step, in which `rank` costs that much in one stage.
Front FrontOf(int32_t rank, int64_t delay_ns) {
  Front front;
  front.num_steps = 1;
  front.total_ns = 1000;
  front.parts = {{5, "backward block2", rank, delay_ns, delay_ns}};
  RankDelay& delay = front.delays.emplace_back();
  delay.rank = rank;
  delay.stage = "backward block2";
  delay.is_lasting = true;
  delay.ns_per_step = static_cast<double>(delay_ns);
  return front;
}

TEST(Losses, AddUpToWhatIsNotCompute) {
  const Losses losses =
      MakeLosses({Step(600, 250, 50, 100)},
                 {Group(StallCause::kIssuedLate, 200), Group(StallCause::kTail, 30)}, Front());
  EXPECT_DOUBLE_EQ(losses.lost_ns, 400);
  const double sum =
      std::accumulate(losses.losses.begin(), losses.losses.end(), 0.0,
                      [](double total, const Loss& loss) { return total + loss.ns_per_step; });
  EXPECT_DOUBLE_EQ(sum, 400);
  ASSERT_FALSE(losses.losses.empty());
  EXPECT_EQ(losses.losses.front().kind, LossKind::kLateIssue);
}

TEST(Losses, NoOrderHidesMoreCommunicationThanThereIsCompute) {
  StepBreakdown step = Step(200, 700, 0, 100);
  step.time.communication_ns = 800;  // 600 more than there is compute
  const Losses losses =
      MakeLosses({step},
                 {Group(StallCause::kQueuedBehind, 300), Group(StallCause::kIssuedLate, 100),
                  Group(StallCause::kSlowTransfer, 300)},
                 Front());
  ASSERT_EQ(losses.losses.size(), 4u);
  EXPECT_EQ(losses.losses[0].kind, LossKind::kSlowTransfer);
  EXPECT_DOUBLE_EQ(losses.losses[0].ns_per_step, 600);
  EXPECT_EQ(losses.losses[2].kind, LossKind::kQueued);
  EXPECT_DOUBLE_EQ(losses.losses[2].ns_per_step, 75);
  EXPECT_DOUBLE_EQ(losses.losses[3].ns_per_step, 25);
  for (const Loss& loss : losses.losses) {
    for (const StallGroup& group : loss.ops) EXPECT_LE(group.ns_per_step, loss.ns_per_step);
  }
}

// A gather that the host asked for late stalls the step while nothing is sent.
TEST(Losses, TransfersAreNotToBlameForWhatTheHostLost) {
  StepBreakdown step = Step(300, 190, 0, 1000);
  step.time.communication_ns = 240;  // all of it would fit beside compute
  const Losses losses = MakeLosses({step}, {Group(StallCause::kIssuedLate, 1190)}, Front());
  ASSERT_EQ(losses.losses.size(), 1u);
  EXPECT_EQ(losses.losses[0].kind, LossKind::kLateIssue);
  EXPECT_DOUBLE_EQ(losses.losses[0].ns_per_step, 1190);
}

TEST(Verdict, NamesWhatIsLostMostAndWhy) {
  const Losses losses =
      MakeLosses({Step(600, 300, 0, 100)}, {Group(StallCause::kIssuedLate, 250)}, Front());
  const Verdict verdict = MakeVerdict(losses, {});
  EXPECT_EQ(verdict.bound, Bound::kCommunication);
  EXPECT_DOUBLE_EQ(verdict.share, 0.3);  // with the 50 that no stall explains
  EXPECT_THAT(verdict.sentence, HasSubstr("collectives are issued late"));
  EXPECT_THAT(verdict.sentence, HasSubstr("AG block1 -> F"));
}

// Many small causes of one bound outweigh one of another that is larger than each.
TEST(Verdict, AddsUpBeforeItCompares) {
  const Losses losses =
      MakeLosses({Step(700, 180, 0, 120)},
                 {Group(StallCause::kIssuedLate, 60), Group(StallCause::kTail, 60),
                  Group(StallCause::kSlowTransfer, 60)},
                 Front());
  EXPECT_EQ(MakeVerdict(losses, {}).bound, Bound::kCommunication);
}

TEST(Verdict, SaysWhenThereIsNothingToGain) {
  const Losses losses = MakeLosses({Step(960, 10, 0, 30)}, {}, Front());
  const Verdict verdict = MakeVerdict(losses, {});
  EXPECT_EQ(verdict.bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(verdict.share, 0.96);
  EXPECT_THAT(verdict.sentence, HasSubstr("nothing to gain"));
  EXPECT_THAT(MakeAdvice(losses, {}), testing::SizeIs(1));  // idle time
}

TEST(Verdict, NamesWhatIsRecomputedWhereThereIsNothingElseToGain) {
  Losses losses = MakeLosses({Step(960, 10, 0, 30)}, {}, Front());
  losses.recomputed = kLeastLoss / 2;
  EXPECT_THAT(MakeVerdict(losses, {}).sentence, HasSubstr("nothing to gain"));
  losses.recomputed = 0.18;
  const Verdict verdict = MakeVerdict(losses, {});
  EXPECT_EQ(verdict.bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(verdict.recomputed, 0.18);
  EXPECT_THAT(verdict.sentence, HasSubstr("18% of the step computes again"));
}

TEST(Verdict, NamesTheSlowRank) {
  const Front front = FrontOf(3, 150);
  const Losses losses =
      MakeLosses({Step(800, 200, 0, 0)}, {Group(StallCause::kLateRank, 140)}, front);
  const Verdict verdict = MakeVerdict(losses, {});
  EXPECT_EQ(verdict.bound, Bound::kRanks);
  EXPECT_THAT(verdict.sentence, HasSubstr("rank 3 holds up the others"));
  EXPECT_THAT(verdict.sentence, HasSubstr("backward block2"));
}

// As the sentence about ranks says: it is one cause, and one figure.
TEST(Verdict, ASlowRankCostsWhatItDelaysInAllStages) {
  Front front = FrontOf(3, 150);
  front.parts.push_back({5, "forward block0", 3, 40, 40});
  front.parts.push_back({5, "optimizer", 2, 30, 30});  // another one's
  const Losses losses =
      MakeLosses({Step(700, 300, 0, 0)}, {Group(StallCause::kLateRank, 140)}, front);
  EXPECT_EQ(losses.losses.front().kind, LossKind::kSlowRank);
  EXPECT_DOUBLE_EQ(losses.losses.front().ns_per_step, 190);
  EXPECT_DOUBLE_EQ(losses.losses.front().ns_per_step, CostOfDelays(front, {3}).ns_per_step);
  EXPECT_DOUBLE_EQ(MakeAdvice(losses, {}).front().saving_ns_per_step, 190);
  EXPECT_THAT(MakeVerdict(losses, {}).sentence,
              HasSubstr("190 ns a step: rank 3, most of it in backward block2"));
}

// It is more than idle, and with exposed communication more than the step.
TEST(Verdict, SaysHowMuchOfTheWaitForCoresIsNotIdle) {
  StepBreakdown step = Step(100, 400, 0, 500);
  step.slot_wait_ns = 480;
  const std::vector<StallGroup> stalls = {Group(StallCause::kSlot, 800)};
  const Verdict verdict = MakeVerdict(MakeLosses({step}, stalls, Front()), {});
  EXPECT_EQ(verdict.bound, Bound::kCores);
  EXPECT_THAT(verdict.sentence,
              HasSubstr("800 ns a step, 320 ns of it with communication or copies beside it"));
  step.slot_wait_ns = 795;
  EXPECT_THAT(MakeVerdict(MakeLosses({step}, stalls, Front()), {}).sentence,
              testing::Not(HasSubstr("beside it")));
}

TEST(Verdict, OfARunWithoutStepsIsUnknown) {
  EXPECT_EQ(MakeVerdict(MakeLosses({}, {}, Front()), {}).bound, Bound::kUnknown);
}

TEST(Advice, SavesAtMostWhatIsLost) {
  const Front front = FrontOf(3, 900);  // more than any rank waits
  const Losses losses =
      MakeLosses({Step(500, 300, 100, 100)},
                 {Group(StallCause::kLateRank, 100), Group(StallCause::kSlowTransfer, 150)}, front);
  const std::vector<Advice> advice = MakeAdvice(losses, {});
  ASSERT_LE(advice.size(), kMostAdvice);
  double saved = 0;
  for (const Advice& item : advice) saved += item.saving_ns_per_step;
  EXPECT_LE(saved, 500);
  EXPECT_EQ(advice.front().kind, LossKind::kSlowRank);
}

TEST(Advice, IsSilentAboutWhatNobodyCanChangeAndAboutTrifles) {
  const Losses losses =
      MakeLosses({Step(880, 110, 0, 10)}, {Group(StallCause::kFirstGather, 100)}, Front());
  EXPECT_THAT(MakeAdvice(losses, {}), testing::IsEmpty());
}

TEST(Advice, NamesOurKnobsForOurRunsOnly) {
  const Losses losses =
      MakeLosses({Step(600, 400, 0, 0)}, {Group(StallCause::kIssuedLate, 400)}, Front());
  EXPECT_THAT(MakeAdvice(losses, {}).at(0).remedy, HasSubstr("prefetch.forward"));
  const std::string imported = MakeAdvice(losses, {.imported = true}).at(0).remedy;
  EXPECT_THAT(imported, HasSubstr("set_modules_to_forward_prefetch"));
  EXPECT_THAT(imported, testing::Not(HasSubstr("prefetch.forward")));
}

// PyTorch's data loader and torch.compile are no way out of a training of ours.
TEST(Advice, OfTheHostIsWhatTheProgramCanDo) {
  const Losses losses = MakeLosses({Step(600, 0, 0, 400)}, {}, Front());
  EXPECT_EQ(MakeAdvice(losses, {}).at(0).remedy_case, RemedyCase::kWithoutGpu);
  EXPECT_THAT(MakeAdvice(losses, {.on_gpu = true}).at(0).remedy, HasSubstr("train.batch"));
  EXPECT_THAT(MakeAdvice(losses, {.imported = true, .on_gpu = true}).at(0).remedy,
              HasSubstr("torch.compile"));
  EXPECT_THAT(MakeVerdict(losses, {.on_gpu = true}).sentence,
              HasSubstr("First try: larger work per op"));
}

// Who asks for a reduction too late is not told to prefetch.
TEST(Advice, OfReductionsIsNotToPrefetch) {
  StallGroup reduction = Group(StallCause::kIssuedLate, 300);
  reduction.blocking_name = "B layers.3 reduce_scatter";
  reduction.collective_kind = "reduce_scatter";
  const Losses losses = MakeLosses({Step(600, 300, 0, 0)}, {reduction}, Front());
  RunTraits traits{.imported = true};
  EXPECT_THAT(MakeVerdict(losses, traits).sentence, HasSubstr("First try: larger units."));
  EXPECT_THAT(MakeAdvice(losses, traits).front().remedy, HasSubstr("fewer and larger units"));
  EXPECT_EQ(MakeAdvice(losses, traits).front().remedy_case, RemedyCase::kOfReductionsOnCpu);
  EXPECT_EQ(MakeAdvice(losses, traits).front().knobs, "");
  traits.on_gpu = true;
  EXPECT_THAT(MakeAdvice(losses, traits).front().remedy, HasSubstr("reduce earlier"));
  traits.imported = false;
  EXPECT_THAT(MakeAdvice(losses, traits).front().remedy, HasSubstr("prefetch.forward"));
}

// A unit may be called anything: the kind of the collective says what it does.
TEST(Advice, OfAGatherIsToPrefetchWhateverItsUnitIsCalled) {
  StallGroup gather = Group(StallCause::kIssuedLate, 300);
  gather.blocking_name = "B reduce_mean all_gather";
  gather.collective_kind = "all_gather";
  const Losses losses = MakeLosses({Step(600, 300, 0, 0)}, {gather}, Front());
  const RunTraits traits{.imported = true};
  EXPECT_EQ(MakeAdvice(losses, traits).front().remedy_case, RemedyCase::kUsual);
  EXPECT_THAT(MakeVerdict(losses, traits).sentence,
              HasSubstr("First try: prefetch one unit further ahead."));
}

// Of our own data-parallel run it is told by our keys.
TEST(Advice, OfReductionsHereNamesOurKeys) {
  for (const StallCause cause : {StallCause::kIssuedLate, StallCause::kTail}) {
    const Losses losses = MakeLosses({Step(600, 300, 100, 0)}, {Group(cause, 300)}, Front());
    const Advice ours = MakeAdvice(losses, {.gathers = false}).front();
    EXPECT_EQ(ours.remedy_case, RemedyCase::kOfReductionsHere);
    EXPECT_THAT(ours.remedy, HasSubstr("ddp.bucket_cap"));
    EXPECT_THAT(ours.remedy, testing::Not(HasSubstr("bucket_cap_mb")));
    EXPECT_THAT(MakeVerdict(losses, {.gathers = false}).sentence, HasSubstr("smaller buckets"));
    const Advice imported = MakeAdvice(losses, {.imported = true, .gathers = false}).front();
    EXPECT_THAT(imported.remedy, HasSubstr("bucket_cap_mb"));
  }
}

// prefetch.* and reshard_after_forward turn nothing where units are whole on every rank.
TEST(Advice, NamesNoKnobThatTheStrategyHasNot) {
  for (const StallCause cause :
       {StallCause::kIssuedLate, StallCause::kQueuedBehind, StallCause::kSlowTransfer}) {
    const Losses losses = MakeLosses({Step(600, 300, 100, 0)}, {Group(cause, 300)}, Front());
    const std::vector<Advice> all = MakeAdvice(losses, {.gathers = false});
    EXPECT_FALSE(all.empty()) << Name(cause);
    for (const Advice& advice : all) {
      EXPECT_EQ(advice.knobs, "");
      EXPECT_THAT(advice.remedy, testing::Not(HasSubstr("prefetch")));
      EXPECT_THAT(advice.remedy, testing::Not(HasSubstr("reshard")));
    }
    EXPECT_THAT(MakeVerdict(losses, {.gathers = false}).sentence,
                testing::Not(testing::AnyOf(HasSubstr("prefetch"), HasSubstr("reshard"))));
  }
}

}  // namespace
}  // namespace shardscope::analysis
