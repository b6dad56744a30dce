// golden_gpu_trace FOLDER [STEPS [RANKS [pre|post|none]]]: writes the golden GPU scenario as a
// trace into FOLDER, which it makes. For pictures and tests of the app.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/golden/gpu_scenario.h"

int main(int argc, char** argv) {
  using namespace shardscope;
  if (argc < 2) {
    fmt::print(stderr, "usage: {} FOLDER [STEPS [RANKS [pre|post|none]]]\n", argv[0]);
    return 2;
  }
  golden::ScenarioOptions options;
  options.steps = argc > 2 ? std::atoll(argv[2]) : 4;
  options.policy.mesh =
      plan::MeshOf(plan::MeshDimension::kShard, argc > 3 ? std::atoi(argv[3]) : 2);
  const std::string prefetch = argc > 4 ? argv[4] : "pre";
  options.policy.backward_prefetch = prefetch == "none"   ? plan::BackwardPrefetch::kNone
                                     : prefetch == "post" ? plan::BackwardPrefetch::kPost
                                                          : plan::BackwardPrefetch::kPre;
  std::filesystem::create_directories(argv[1]);
  const Result<cupti::CuptiFunctions> cupti = cupti::LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
  const Status written = cupti.ok()
                             ? golden::WriteTrace(golden::MakeScenario(options), *cupti, argv[1])
                             : cupti.status();
  if (!written.ok()) fmt::print(stderr, "{}\n", written.message());
  return written.ok() ? 0 : 1;
}
