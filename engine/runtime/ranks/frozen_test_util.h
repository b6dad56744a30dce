// Runs that train some parameters only, or LoRA's adapters, and what they have to come to: for
// tests of every device.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"
#include "engine/runtime/ranks/job_test_util.h"

namespace shardscope::runtime {

// What is trained of the model.
enum class Trains : uint8_t {
  kAdapters,      // of a llama
  kGptAdapters,   // of a gpt
  kLastAdapters,  // of MLPs alone, behind an attention that is frozen and needs no backward
  kTied,          // adapters where head and embedding are one
  kHead,
  kSome,  // a block's MLP and the head's neighbour in other units
};

inline constexpr Trains kAllTrains[] = {Trains::kAdapters,     Trains::kGptAdapters,
                                        Trains::kLastAdapters, Trains::kTied,
                                        Trains::kHead,         Trains::kSome};

struct FrozenCase {
  const char* strategy;
  int ranks;
  plan::Preset preset = plan::Preset::kFsdp2;
  int64_t micro_batches = 2;
  int stages = 0;
  int tensor = 0;
  int post_forward_ranks = 0;
};

// Of an instance of a parameterised test.
inline std::string FrozenName(const testing::TestParamInfo<FrozenCase>& instance) {
  const FrozenCase& tested = instance.param;
  return std::string(tested.strategy) + std::to_string(tested.ranks) + "preset" +
         std::to_string(static_cast<int>(tested.preset)) + "stages" +
         std::to_string(tested.stages) + "tensor" + std::to_string(tested.tensor) + "to" +
         std::to_string(tested.post_forward_ranks);
}

TestRun FrozenRun(const FrozenCase& tested, Trains trains);
plan::Schedule FrozenSchedule(const TestRun& run);
// A tied head has no place in a pipeline, nor in the slots of double_buffer.
bool CanBeTied(const TestRun& run);

// Relative: of parameters to the largest of each, and of losses and norms of gradients.
struct FrozenTolerance {
  double parameters = 1e-10;
  double scalars = 1e-10;
};
// Of a run that has trained: all is as the reference has it, and what is frozen has its bits.
void ExpectFrozen(const TestRun& run, const TestResult& trained,
                  const FrozenTolerance& tolerance = {});

}  // namespace shardscope::runtime
