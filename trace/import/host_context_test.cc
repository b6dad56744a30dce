#include "trace/import/host_context.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardscope::imports {
namespace {

// A recording may begin in the middle of a step: how many units there are is not known then.
TEST(HostContext, OfABackwardWhoseForwardWasNotRecordedUnitsHaveNumbersThatCanBe) {
  Recording recording;
  recording.tracks.push_back({.kind = TrackKind::kThread});
  const auto add = [&](int64_t start_ns, int64_t end_ns, const std::string& verb) {
    recording.spans.push_back({.start_ns = start_ns,
                               .duration_ns = end_ns - start_ns,
                               .name = recording.names.Add("FullyShardedDataParallel." + verb)});
  };
  add(0, 100, "_pre_backward_hook");
  add(10, 50, "_pre_backward_prefetch");
  const std::vector<HostContext> contexts =
      ContextsAt(&recording, HostSteps(recording), {{.track = 0, .time_ns = 20}});
  EXPECT_EQ(recording.names[contexts[0].unit], "root");
  EXPECT_EQ(contexts[0].phase, Phase::kBackward);
}

}  // namespace
}  // namespace shardscope::imports
