// Which values of its keys a comparison gives to each side.
#include "trace/analysis/compare/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace shardscope::analysis {
namespace {

constexpr const char* kTurnedKey = "prefetch.backward";

std::vector<int32_t> StepsUpTo(int32_t last) {
  std::vector<int32_t> steps(static_cast<size_t>(last) + 1);
  std::iota(steps.begin(), steps.end(), 0);
  return steps;
}

query::Snapshot RunWith(const std::string& value) {
  query::Snapshot run;
  run.config[kTurnedKey] = value;
  run.config["train.batch"] = "2";
  return run;
}

void Turn(int32_t step, const std::string& value, query::Snapshot* run) {
  run->markers.push_back({.time_ns = step,
                          .step = step,
                          .kind = "change",
                          .key = kTurnedKey,
                          .old_value = "",
                          .new_value = value});
}

// "A | B" of the key that was turned.
std::string Turned(const query::Snapshot& a, const std::vector<int32_t>& steps_a,
                   const query::Snapshot& b, const std::vector<int32_t>& steps_b) {
  const std::vector<SettingDifference> differences = SettingDifferences(a, steps_a, b, steps_b);
  if (differences.empty()) return "";
  EXPECT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences.front().key, kTurnedKey);
  return differences.front().a + " | " + differences.front().b;
}

TEST(CompareSetup, AKnobThatWasTurnedInTheStepsHasItsValuesInTheirOrder) {
  query::Snapshot a = RunWith("none");
  Turn(30, "pre", &a);
  const query::Snapshot b = RunWith("pre");
  EXPECT_EQ(Turned(a, StepsUpTo(99), b, StepsUpTo(99)), "none, then pre | pre");
  // Of steps before or behind the change there is one value.
  EXPECT_EQ(Turned(a, StepsUpTo(29), b, StepsUpTo(99)), "none | pre");
  EXPECT_EQ(Turned(a, {30, 31}, b, StepsUpTo(99)), "");
  EXPECT_EQ(Turned(a, {40, 41}, b, StepsUpTo(99)), "");
}

TEST(CompareSetup, AValueThatNoStepHadIsNotNamed) {
  query::Snapshot a = RunWith("none");
  Turn(10, "post", &a);
  Turn(12, "pre", &a);
  EXPECT_EQ(Turned(a, {8, 9, 13}, RunWith("post"), {0}), "none, then pre | post");
}

TEST(CompareSetup, OfManyValuesTheFirstAndTheLastAreNamed) {
  query::Snapshot a = RunWith("none");
  for (int32_t step = 1; step < 5; ++step) Turn(step, step % 2 == 0 ? "post" : "pre", &a);
  EXPECT_EQ(Turned(a, StepsUpTo(9), RunWith("none"), {0}), "none, then ..., then post | none");
  EXPECT_EQ(Turned(a, StepsUpTo(9), a, StepsUpTo(9)), "");
}

TEST(CompareSetup, ValuesThatDifferBetweenTheFirstAndTheLastAreAllNamed) {
  query::Snapshot a = RunWith("none");
  query::Snapshot b = RunWith("none");
  for (const auto& [step, value] : {std::pair{1, "pre"}, {2, "post"}, {3, "none"}}) {
    Turn(step, value, &a);
    if (step != 1) Turn(step, value, &b);
  }
  Turn(1, "auto", &b);
  EXPECT_EQ(Turned(a, StepsUpTo(9), b, StepsUpTo(9)),
            "none, then pre, then post, then none | none, then auto, then post, then none");
}

TEST(CompareSetup, WhatAutoComesToIsNoChange) {
  query::Snapshot a = RunWith("auto:0.6");
  Turn(1, "120MB/s", &a);
  EXPECT_EQ(Turned(a, StepsUpTo(9), RunWith("60MB/s"), {0}), "120MB/s | 60MB/s");
}

}  // namespace
}  // namespace shardscope::analysis
