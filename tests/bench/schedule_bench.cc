// How long a large Schedule takes to build and to validate: schedule_bench, then
// Google Benchmark's options. The size that counts: 128 ranks, 80 layers, 8 micro-batches, < 1 s.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "engine/plan/policy.h"
#include "engine/plan/uniform_model.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {
namespace {

constexpr int kRanks = 128;
constexpr int kLayers = 80;
constexpr int kMicroBatches = 8;

Policy LargePolicy(Preset preset) {
  Policy policy;
  policy.preset = preset;
  policy.num_ranks = kRanks;
  policy.micro_batches = kMicroBatches;
  policy.forward_prefetch = 1;
  if (preset == Preset::kFsdp1) policy.prefetch_limit = 2;
  return policy;
}

// Every rank runs the same program, and there is only one copy of it.
bool RankSymmetric(const Schedule& schedule) {
  return schedule.programs.size() == 1 &&
         std::all_of(schedule.program_of_rank.begin(), schedule.program_of_rank.end(),
                     [](int32_t program) { return program == 0; });
}

void SetSize(const Schedule& schedule, benchmark::State* state) {
  state->counters["ops_a_rank"] = static_cast<double>(schedule.programs.front().ops.size());
  state->counters["programs"] = static_cast<double>(schedule.programs.size());
}

// BuildSchedule() ends with Validate().
void BuildAndValidate(benchmark::State& state, Preset preset) {
  const ModelDescription model = UniformModel(kLayers, true);
  const Policy policy = LargePolicy(preset);
  for ([[maybe_unused]] const auto iteration : state) {
    const Result<Schedule> schedule = BuildSchedule(model, policy);
    if (!schedule.ok() || !RankSymmetric(*schedule)) {
      state.SkipWithError(schedule.ok() ? "not rank-symmetric" : schedule.message().c_str());
      return;
    }
    SetSize(*schedule, &state);
  }
}
BENCHMARK_CAPTURE(BuildAndValidate, fsdp2, Preset::kFsdp2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BuildAndValidate, fsdp1, Preset::kFsdp1)->Unit(benchmark::kMillisecond);

// Validation alone, of this many different programs: 1 as built, 128 as if no two ranks were equal.
void ValidatePrograms(benchmark::State& state) {
  Result<Schedule> schedule =
      BuildSchedule(UniformModel(kLayers, true), LargePolicy(Preset::kFsdp2));
  if (!schedule.ok()) return state.SkipWithError(schedule.message().c_str());
  const auto num_programs = static_cast<size_t>(state.range(0));
  const Program program = schedule->programs.front();
  schedule->programs.assign(num_programs, program);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    schedule->program_of_rank[rank] = static_cast<int32_t>(rank % num_programs);
  }
  for ([[maybe_unused]] const auto iteration : state) {
    const Status status = Validate(*schedule);
    if (!status.ok()) return state.SkipWithError(status.message().c_str());
  }
  SetSize(*schedule, &state);
}
BENCHMARK(ValidatePrograms)->Arg(1)->Arg(kRanks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardscope::plan

BENCHMARK_MAIN();
