#include "engine/runtime/steering.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

namespace shardscope::runtime {
namespace {

config::Config TestConfig() {
  config::Config config;
  EXPECT_TRUE(config.Set("train.steps", "100").ok());
  return config;
}

Status AnythingGoes(const config::Config&, const config::Config&) { return Status::Ok(); }

config::Request Set(std::map<std::string, std::string> values) {
  return {.id = 7, .body = config::SetRequest{std::move(values)}};
}
config::Request Do(config::Action action) { return {.id = 8, .body = config::DoRequest{action}}; }
config::RunStatus StatusOf(Steering& steering) {
  return steering.Handle({.id = 9, .body = config::GetRequest{"status"}}).status;
}

TEST(SteeringTest, AChangeAppliesFromTheNextUndecidedStep) {
  Steering steering(TestConfig(), "run", AnythingGoes);
  EXPECT_TRUE(steering.Decide(0).changed.empty());
  EXPECT_TRUE(steering.Decide(1).changed.empty());  // in step 0
  const config::Response response = steering.Handle(Set({{"prefetch.backward", "none"}}));
  EXPECT_TRUE(response.ok);
  EXPECT_EQ(response.id, 7);
  EXPECT_EQ(response.applies_at, 2);
  EXPECT_EQ(StatusOf(steering).pending.at("prefetch.backward"), "none");
  EXPECT_EQ(StatusOf(steering).pending_step, 2);
  EXPECT_EQ(steering.config().Get("prefetch.backward"), "pre");
  const Decision decision = steering.Decide(2);
  ASSERT_EQ(decision.changed.size(), 1u);
  EXPECT_EQ(decision.changed[0].key, "prefetch.backward");
  EXPECT_EQ(decision.changed[0].old_value, "pre");
  EXPECT_EQ(decision.changed[0].new_value, "none");
  EXPECT_EQ(steering.config().Get("prefetch.backward"), "none");
  EXPECT_TRUE(StatusOf(steering).pending.empty());
}

TEST(SteeringTest, RefusedRequestsChangeNothing) {
  Steering steering(TestConfig(), "run", [](const config::Config&, const config::Config& after) {
    return after.Get("strategy") == "no_shard" ? Status::Error("not live") : Status::Ok();
  });
  steering.Decide(0);
  EXPECT_FALSE(steering.Handle(Set({{"prefetch.forward", "2"}, {"model.dim", "64"}})).ok);
  EXPECT_FALSE(steering.Handle(Set({{"prefetch.forward", "9"}})).ok);
  EXPECT_EQ(steering.Handle(Set({{"strategy", "no_shard"}})).error, "not live");
  EXPECT_FALSE(steering.Handle({.id = 1, .body = config::GetRequest{"weather"}}).ok);
  EXPECT_TRUE(steering.Decide(1).changed.empty());
}

TEST(SteeringTest, ListedChangesComeAtTheirSteps) {
  config::Config config = TestConfig();
  config.AddChange({.step = 3, .set = {{"prefetch.forward", "1"}}});
  Steering steering(config, "run", AnythingGoes);
  for (int64_t step = 0; step < 3; ++step) EXPECT_TRUE(steering.Decide(step).changed.empty());
  EXPECT_EQ(steering.Decide(3).changed.size(), 1u);
  EXPECT_TRUE(steering.Decide(4).changed.empty());
}

TEST(SteeringTest, PausedRunsStepSingly) {
  Steering steering(TestConfig(), "run", AnythingGoes);
  steering.Decide(0);
  EXPECT_EQ(StatusOf(steering).state, config::RunState::kTraining);
  EXPECT_TRUE(steering.Handle(Do(config::Action::kPause)).ok);
  EXPECT_TRUE(steering.Decide(1).pause);
  EXPECT_EQ(StatusOf(steering).state, config::RunState::kPaused);
  EXPECT_EQ(StatusOf(steering).step, 1);
  // A change made now applies to the very next step.
  EXPECT_EQ(steering.Handle(Set({{"train.lr", "0.5"}})).applies_at, 1);
  EXPECT_TRUE(steering.Handle(Do(config::Action::kStep)).ok);
  const Decision single = steering.Decide(1);
  EXPECT_FALSE(single.pause);
  EXPECT_EQ(single.changed.size(), 1u);
  EXPECT_TRUE(steering.Decide(2).pause);
  EXPECT_TRUE(steering.Handle(Do(config::Action::kResume)).ok);
  EXPECT_FALSE(steering.Decide(2).pause);
}

TEST(SteeringTest, ARunThatTrainsPausesAfterTheSingleStepThatIsAskedFor) {
  Steering steering(TestConfig(), "run", AnythingGoes);
  steering.Decide(0);
  const config::Response one = steering.Handle(Do(config::Action::kStep));
  EXPECT_TRUE(one.ok) << one.error;
  EXPECT_EQ(one.applies_at, 1);
  EXPECT_EQ(StatusOf(steering).state, config::RunState::kTraining);
  EXPECT_FALSE(steering.Decide(1).pause);
  EXPECT_EQ(StatusOf(steering).step, 1);
  EXPECT_TRUE(steering.Decide(2).pause);
  EXPECT_EQ(StatusOf(steering).state, config::RunState::kPaused);
  EXPECT_TRUE(steering.Handle(Do(config::Action::kResume)).ok);
  EXPECT_FALSE(steering.Decide(2).pause);
  // Two requests are two steps, and resume takes back what is left of them.
  EXPECT_TRUE(steering.Handle(Do(config::Action::kStep)).ok);
  EXPECT_TRUE(steering.Handle(Do(config::Action::kStep)).ok);
  EXPECT_FALSE(steering.Decide(3).pause);
  EXPECT_FALSE(steering.Decide(4).pause);
  EXPECT_TRUE(steering.Decide(5).pause);
  EXPECT_TRUE(steering.Handle(Do(config::Action::kStep)).ok);
  EXPECT_TRUE(steering.Handle(Do(config::Action::kResume)).ok);
  for (int64_t step = 5; step < 8; ++step) EXPECT_FALSE(steering.Decide(step).pause);
}

TEST(SteeringTest, AStepThatIsNotRunIsNotTheStepOfARunThatEnds) {
  Steering stopped(TestConfig(), "run", AnythingGoes);
  for (int64_t step = 0; step < 4; ++step) stopped.Decide(step);
  stopped.Handle(Do(config::Action::kStop));
  EXPECT_EQ(StatusOf(stopped).step, 3);
  EXPECT_TRUE(stopped.Decide(4).stop);
  EXPECT_EQ(StatusOf(stopped).step, 3);

  Steering whole(TestConfig(), "run", AnythingGoes);
  for (int64_t step = 0; step <= 100; ++step) whole.Decide(step);
  EXPECT_EQ(StatusOf(whole).step, 99);
}

TEST(SteeringTest, EveryWaitingRankSeesARequestThatAnotherHasTakenUp) {
  Steering steering(TestConfig(), "run", AnythingGoes);
  steering.Decide(0);
  steering.Handle(Do(config::Action::kPause));
  const Decision pause = steering.Decide(1);
  steering.Handle(Do(config::Action::kCheckpoint));
  EXPECT_TRUE(steering.Decide(1).checkpoint);  // rank 0 was first
  std::thread late([&] { steering.WaitWhilePaused(pause); });
  late.join();  // would wait for ever
}

TEST(SteeringTest, StopAndInterruptEndTheRunBeforeTheNextStep) {
  Steering stopped(TestConfig(), "run", AnythingGoes);
  stopped.Decide(0);
  stopped.Handle(Do(config::Action::kStop));
  EXPECT_TRUE(stopped.Decide(1).stop);
  EXPECT_FALSE(stopped.Handle(Set({{"train.lr", "0.5"}})).ok);

  Steering interrupted(TestConfig(), "run", AnythingGoes);
  interrupted.Decide(0);
  interrupted.Handle(Do(config::Action::kPause));
  const Decision pause = interrupted.Decide(1);
  interrupted.Interrupt(SIGTERM);
  interrupted.WaitWhilePaused(pause);
  EXPECT_TRUE(interrupted.Decide(1).stop);
  interrupted.SetFinished();
  EXPECT_EQ(StatusOf(interrupted).state, config::RunState::kFinished);
}

}  // namespace
}  // namespace shardscope::runtime
