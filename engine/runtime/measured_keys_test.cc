#include "engine/runtime/measured_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/job_test_util.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

std::shared_ptr<const plan::Schedule> ScheduleWithUnits(TestRun run, bool of_modules) {
  run.units.modules = of_modules;
  Result<plan::Schedule> schedule = plan::BuildSchedule(DescriptionOf(run), PolicyOf(run));
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return std::make_shared<const plan::Schedule>(schedule.ok() ? *std::move(schedule)
                                                              : plan::Schedule());
}

// A step in which the forward of each unit takes that long.
StepTimes StepOfEqualUnits(const plan::Schedule& schedule, int64_t forward_ns) {
  StepTimes times;
  for (size_t unit = 0; unit < schedule.units.size(); ++unit) {
    times.unit_forward_ns.emplace_back(static_cast<int32_t>(unit), forward_ns);
  }
  return times;
}

int64_t WireBytesOfAttention(const plan::Schedule& schedule) {
  int64_t most = 0;
  for (const plan::Op& op : schedule.programs.front().ops) {
    if (op.kind != plan::OpKind::kAllGather || op.unit == plan::kNone) continue;
    const std::string& unit = schedule.units[static_cast<size_t>(op.unit)].name;
    if (unit.ends_with(".attention")) most = std::max(most, op.wire_bytes);
  }
  return most;
}

// A live unit.policy takes effect while the first steps are measured: then steps of a Schedule with
// more and smaller units come, of which those before say nothing.
TEST(MeasuredKeysTest, TheRateOfALinkIsThatOfTheScheduleInForce) {
  config::Config config;
  ASSERT_TRUE(config.SetAll({{"link.bandwidth", "auto:0.5"}, {"link.latency", "0"}}).ok());
  TestRun run;
  CpuDevice device{CpuOptions()};
  auto ranks = Ranks::Prepare(
      JobOf(run),
      transport::MakeEmulatedTransport(run.training.num_ranks, 60 * kNsPerSecond, 1e9, 0), &device);
  ASSERT_TRUE(ranks.ok()) << ranks.message();
  Steering steering(config, "run", [](const auto&, const auto&) { return Status::Ok(); });
  std::vector<std::string> messages;
  MeasuredKeys measured(config, ranks->get(),
                        {.steering = &steering,
                         .write_config = [](const config::Config&) { return Status::Ok(); },
                         .on_message = [&](const std::string& text) { messages.push_back(text); }});
  Regime regime;
  regime.config = config;
  regime.schedule = ScheduleWithUnits(run, /*of_modules=*/false);
  const size_t num_units_before = regime.schedule->units.size();
  measured.Enter(regime, /*link_changed=*/true);
  const auto add_step = [&](int64_t step, int64_t forward_ns) {
    measured.Add(step, StepOfEqualUnits(*regime.schedule, forward_ns));
  };
  for (int rank = 0; rank < run.training.num_ranks; ++rank) add_step(1, 4 * kNsPerMs);

  regime.schedule = ScheduleWithUnits(run, /*of_modules=*/true);
  ASSERT_GT(regime.schedule->units.size(), num_units_before);
  measured.Enter(regime, /*link_changed=*/false);
  const auto rate = [&]() -> double {
    const config::Response response =
        steering.Handle({.id = 1, .body = config::GetRequest{"status"}});
    const auto pending = response.status.pending.find("link.bandwidth");
    if (pending == response.status.pending.end()) return 0;
    config::Config found;
    EXPECT_TRUE(found.Set("link.bandwidth", pending->second).ok());
    return config::GetLinkBandwidth(found).bytes_per_second;
  };
  for (int64_t step = 2; step <= 4; ++step) {
    for (int rank = 0; rank < run.training.num_ranks; ++rank) {
      EXPECT_EQ(rate(), 0) << "before step " << step << " of rank " << rank;
      add_step(step, kNsPerMs);
    }
  }
  const auto wire_bytes = static_cast<double>(WireBytesOfAttention(*regime.schedule));
  ASSERT_GT(wire_bytes, 0);
  // In kB/s, as it is written.
  EXPECT_NEAR(rate(), wire_bytes / 0.5e-3, 1e3);
  EXPECT_EQ(messages.size(), 1u);
}

}  // namespace
}  // namespace shardscope::runtime
