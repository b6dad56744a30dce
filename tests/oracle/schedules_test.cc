// Every schedule that builders and passes make from random models and policies runs in many random
// interleavings, without a finding, and always computes what the model's arithmetic gives.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "engine/plan/policy.h"
#include "engine/plan/state.h"
#include "engine/plan/text.h"
#include "tests/oracle/bytes.h"
#include "tests/oracle/generator.h"
#include "tests/oracle/interpreter.h"
#include "tests/oracle/options.h"
#include "tests/oracle/reference.h"

namespace shardscope::oracle {
namespace {

constexpr int kPoliciesOfAModel = 5;

std::string Problems(const plan::Schedule& schedule, const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += Describe(schedule, finding) + "\n";
  if (!text.empty()) text += plan::PrintSchedule(schedule);
  return text;
}

struct Tally {
  int schedules = 0;
  int64_t interleavings = 0;
  int64_t actions = 0;
  std::set<std::string> names;  // distinct combinations of knobs
};

// The result of one schedule, the same in all interleavings.
Value RunAll(const plan::Schedule& schedule, uint64_t seed, Tally* tally) {
  EXPECT_EQ(Problems(schedule, CheckBytes(schedule)), "") << schedule.name;
  Interpreter interpreter(schedule);
  std::set<Value> results;
  for (int number = 0; number < TestOptions().interleavings; ++number) {
    const uint64_t order = seed + static_cast<uint64_t>(number);
    const Outcome outcome = interpreter.Run(RandomOrder(schedule, interpreter.graph(), order));
    results.insert(outcome.result);
    EXPECT_TRUE(outcome.findings.empty()) << "interleaving " << order << "\n"
                                          << Problems(schedule, outcome.findings);
    if (!outcome.findings.empty()) break;
  }
  EXPECT_EQ(results.size(), 1U) << schedule.name;
  ++tally->schedules;
  tally->interleavings += TestOptions().interleavings;
  tally->actions += int64_t{TestOptions().interleavings} * interpreter.graph().num_actions();
  tally->names.insert(schedule.name);
  return results.empty() ? kPoison : *results.begin();
}

// Of one model: in which order what is added up, and where. Empty: not comparable.
std::string ArithmeticOf(const plan::ModelDescription& model, const plan::Policy& policy) {
  const plan::Strategy& strategy = *policy.strategy;
  // What is made again of products has other inputs than what forward made.
  const auto keeps = plan::WhatForwardKeeps(model, policy.checkpointing);
  if (std::ranges::count(keeps, plan::Keeps::kProducts) > 0) return "";
  const bool has_norm = policy.offload != plan::Offload::kAll || policy.update.clips;
  // With the optimizer's state alone on the host ranks have weights twice.
  if (!has_norm || policy.offload == plan::Offload::kOptimizer) return "";
  // What is on which rank follows from where the model is cut, which is random.
  constexpr plan::MeshDimensions kCut =
      plan::Only(plan::MeshDimension::kPipeline) | plan::Only(plan::MeshDimension::kTensor);
  if (policy.mesh.SizeOf(kCut) > 1) return "";
  if (strategy.is_rooted) return std::string(strategy.name);
  if (strategy.shards_gradients) {
    std::string name = "shards of " + std::to_string(policy.mesh.size(plan::MeshDimension::kShard));
    for (const plan::Unit& unit : model.units) {
      name += plan::KeepsWhole(unit, policy) ? " whole" : " split";
    }
    if (policy.micro_batches == 1) return name;
    if (policy.accumulation.sync == plan::GradientSync::kNoSync) name += " no_sync";
    if (policy.accumulation.sync == plan::GradientSync::kReduceScatterOnly &&
        policy.mesh.size(plan::MeshDimension::kReplicate) > 1) {
      name += " scattered";
    }
    return name;
  }
  if (strategy.shards_optimizer) return std::string(strategy.name);
  // Whether micro-batches or ranks are added up first does not matter if there is one of either.
  const bool any_order = policy.micro_batches == 1 || policy.mesh.num_ranks() == 1;
  const std::string ranks = " of " + std::to_string(policy.mesh.num_ranks());
  return (any_order ? "whole" : std::string(strategy.name)) + ranks;
}

TEST(RandomSchedules, ComputeTheSameInEveryInterleaving) {
  Random random(TestOptions().seed);
  Tally tally;
  while (tally.schedules < TestOptions().schedules && !HasFailure()) {
    const plan::ModelDescription whole = RandomModel(random);
    const plan::Policy arithmetic = RandomArithmetic(random);
    std::map<std::string, Value> results;  // those that do the same arithmetic agree
    for (int number = 0; number < kPoliciesOfAModel; ++number) {
      plan::Policy policy = RandomKnobs(arithmetic, random);
      const plan::ModelDescription model = Divided(whole, &policy, random);
      const Result<plan::Schedule> schedule = plan::BuildSchedule(model, policy);
      ASSERT_TRUE(schedule.ok()) << schedule.message();
      const Value result = RunAll(*schedule, random.Next(), &tally);
      if (const std::string name = ArithmeticOf(model, policy); !name.empty()) {
        EXPECT_EQ(results.emplace(name, result).first->second, result) << schedule->name;
      }
      EXPECT_EQ(result, ReferenceResult(model, policy)) << schedule->name << "\n"
                                                        << plan::PrintSchedule(*schedule);
    }
    // The result tells arithmetics apart.
    std::set<Value> different;
    for (const auto& [name, result] : results) different.insert(result);
    EXPECT_EQ(different.size(), results.size());
  }
  std::cout << tally.schedules << " schedules (" << tally.names.size()
            << " combinations of knobs), " << tally.interleavings << " interleavings, "
            << tally.actions << " actions\n";
}

// Units before the first that is trained have no backward, for which others leave a part.
TEST(RandomSchedules, ReshardToFewerRanksWhereSomeUnitsHaveNoBackward) {
  Random random(TestOptions().seed);
  Tally tally;
  const int wanted = std::max(20, TestOptions().schedules / 20);
  while (tally.schedules < wanted && !HasFailure()) {
    const plan::ModelDescription whole = RandomModel(random);
    plan::Policy policy = RandomArithmetic(random);
    if (plan::FirstTrainedSegment(whole.segments) == 0) continue;
    policy.strategy = plan::FindStrategy(random.OneIn(3) ? "hybrid" : "full");
    policy.mesh = {{1, policy.strategy->replicates_shards() ? 2 : 1, 4, random.OneIn(3) ? 2 : 1}};
    policy.post_forward_ranks = 2;
    policy.accumulation.reshards = random.OneIn(2);
    const plan::ModelDescription model = Divided(whole, &policy, random);
    const Result<plan::Schedule> schedule = plan::BuildSchedule(model, policy);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    EXPECT_EQ(RunAll(*schedule, random.Next(), &tally), ReferenceResult(model, policy))
        << schedule->name << "\n"
        << plan::PrintSchedule(*schedule);
  }
}

}  // namespace
}  // namespace shardscope::oracle
