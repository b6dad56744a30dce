// Steps of recordings in which nothing marks them, by what their host did.
#include "trace/import/steps.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace shardscope::imports {
namespace {

struct Span {
  int64_t start_ns;
  int64_t end_ns;
  std::string name;
};

const std::string kBackwardName = "autograd::engine::evaluate_function: MmBackward0";
const std::string kAdamw = "Optimizer.step#AdamW.step";

// Of one thread; names of aten are operators.
Recording RecordingOf(const std::vector<Span>& spans) {
  Recording recording;
  recording.tracks.push_back({.kind = TrackKind::kThread});
  for (const Span& span : spans) {
    recording.spans.push_back({.start_ns = span.start_ns,
                               .duration_ns = span.end_ns - span.start_ns,
                               .name = recording.names.Add(span.name),
                               .track = 0,
                               .is_operator = span.name.starts_with("aten::")});
  }
  return recording;
}

// Starts and ends.
std::vector<std::pair<int64_t, int64_t>> StepsOf(const Recording& recording) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  const HostSteps host_steps(recording);
  for (const RecordedStep& step : host_steps.steps()) {
    EXPECT_EQ(step.number, static_cast<int64_t>(steps.size()));
    steps.emplace_back(step.start_ns, step.start_ns + step.duration_ns);
  }
  return steps;
}

using Times = std::vector<std::pair<int64_t, int64_t>>;

// Forward, backward, and with it what `at` + 50 on does.
std::vector<Span> Step(int64_t at, const std::vector<Span>& rest) {
  std::vector<Span> spans = {
      {at, at + 10, "aten::mm"}, {at + 20, at + 40, kBackwardName}, {at + 21, at + 30, "aten::mm"}};
  for (const Span& span : rest) spans.push_back({at + span.start_ns, at + span.end_ns, span.name});
  return spans;
}

std::vector<Span> ThreeSteps(const std::vector<Span>& rest) {
  std::vector<Span> spans;
  for (const int64_t at : {0, 100, 200}) {
    for (const Span& span : Step(at, rest)) spans.push_back(span);
  }
  return spans;
}

TEST(HostSteps, EndWithTheOptimizer) {
  const Recording recording = RecordingOf(ThreeSteps({{50, 60, kAdamw}, {52, 55, "aten::add_"}}));
  EXPECT_EQ(StepsOf(recording), (Times{{0, 60}, {60, 160}, {160, 260}}));
  EXPECT_TRUE(HostSteps(recording).are_marked());
}

// A program may have many of one class, and sets gradients to zero behind them.
TEST(HostSteps, EndOnceForAllOptimizersOfAStep) {
  const Recording recording =
      RecordingOf(ThreeSteps({{50, 55, kAdamw},
                              {56, 60, kAdamw},
                              {61, 70, "Optimizer.zero_grad#AdamW.zero_grad"},
                              {62, 65, "aten::zero_"},
                              {71, 75, "Optimizer.step#SGD.step"}}));
  EXPECT_EQ(StepsOf(recording), (Times{{0, 75}, {75, 175}, {175, 275}}));
}

// One for each parameter, within the functions of the backward.
TEST(HostSteps, EndOnceWhereOptimizersRunInTheBackward) {
  const Recording recording =
      RecordingOf(ThreeSteps({{31, 33, kAdamw}, {45, 60, kBackwardName}, {50, 55, kAdamw}}));
  EXPECT_EQ(StepsOf(recording), (Times{{0, 55}, {55, 155}, {155, 260}}));
}

TEST(HostSteps, WithoutThemAllIsOneStep) {
  for (const std::vector<Span>& rest :
       {std::vector<Span>{}, std::vector<Span>{{50, 60, "training"}}}) {
    const Recording recording = RecordingOf(ThreeSteps(rest));
    EXPECT_EQ(StepsOf(recording).size(), 1U);
    EXPECT_FALSE(HostSteps(recording).are_marked());
  }
  EXPECT_EQ(StepsOf(RecordingOf(Step(0, {{50, 60, kAdamw}}))), (Times{{0, 60}}));
}

TEST(HostSteps, MarksComeBeforeOptimizers) {
  Recording recording = RecordingOf(ThreeSteps({{50, 60, kAdamw}}));
  recording.steps = {{0, 0, 150}};
  EXPECT_EQ(StepsOf(recording), (Times{{0, 150}}));
}

}  // namespace
}  // namespace shardscope::imports
