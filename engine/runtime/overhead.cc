#include "engine/runtime/overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/config/device.h"

namespace shardscope::runtime {
namespace {

using Role = OverheadSteps::Role;

constexpr int64_t kAutomatic = -1;
// What a summary takes for warm-up (trace/analysis), and one more.
constexpr int64_t kWarmUpSteps = 3;
constexpr int64_t kRoundSteps = 4;
// Without being asked: in long runs only, where few steps are missing then.
constexpr int64_t kMostRounds = 5;
constexpr int64_t kStepsARound = 15;
constexpr int64_t kFewestRounds = 3;
constexpr int64_t kLongestStride = 8;

config::StepWindow Recorded(const config::Config& config) {
  config::StepWindow window = config::GetRecordSteps(config);
  window.end = std::min(window.end, config.GetInt("train.steps"));
  return window;
}

// A step's time ends where the next one begins, so the last step is none of a round's.
int64_t RoomIn(const config::StepWindow& window) {
  return std::max<int64_t>(0, window.end - window.begin - kWarmUpSteps - 1);
}

}  // namespace

OverheadSteps::OverheadSteps(const config::Config& config) {
  const config::StepWindow window = Recorded(config);
  const int64_t room = RoomIn(window);
  num_rounds_ = config.GetInt("record.measure_overhead");
  if (num_rounds_ == kAutomatic) {
    num_rounds_ = std::min(kMostRounds, (window.end - window.begin) / kStepsARound);
    if (config::GetDevice(config) != config::DeviceKind::kCuda || num_rounds_ < kFewestRounds)
      num_rounds_ = 0;
  }
  num_rounds_ = std::min(num_rounds_, room / kRoundSteps);
  if (num_rounds_ == 0) return;
  first_ = window.begin + kWarmUpSteps;
  stride_ = std::min(kLongestStride, room / num_rounds_);
}

OverheadSteps::Place OverheadSteps::Of(int64_t step) const {
  const int64_t since = step - first_;
  if (since < 0 || since >= stride_ * num_rounds_) return {};
  const int64_t round = since / stride_;
  switch (since % stride_) {
    case 0:
    case 3:
      return {Role::kWith, round};
    case 1:
      return {Role::kWithout, round};
    default:
      return {};
  }
}

Status CheckOverheadSteps(const config::Config& config) {
  const int64_t wanted = config.GetInt("record.measure_overhead");
  const config::StepWindow window = Recorded(config);
  if (wanted <= RoomIn(window) / kRoundSteps) return Status::Ok();
  return Status::Error(
      fmt::format("record.measure_overhead={} takes {} recorded steps, and train.steps={} with "
                  "record.steps={} has {}: train longer, or measure fewer times",
                  wanted, wanted * kRoundSteps + kWarmUpSteps + 1, config.Get("train.steps"),
                  config.Get("record.steps"), std::max<int64_t>(0, window.end - window.begin)));
}

void OverheadMeter::Begin(int rank, const Moment& begin, bool is_recorded) {
  const Role role = steps_.Of(begin.step).role;
  const bool is_as_planned = is_recorded == (role == Role::kWith);
  begun_[static_cast<size_t>(rank)] = {begin, role != Role::kNone && is_as_planned};
}

std::optional<schema::OverheadStepRow> OverheadMeter::End(int rank, const Moment& end) {
  const auto [begin, is_timed] = std::exchange(begun_[static_cast<size_t>(rank)], {});
  if (!is_timed || end.step != begin.step + 1 || end.regime != begin.regime) return std::nullopt;
  const OverheadSteps::Place place = steps_.Of(begin.step);
  return schema::OverheadStepRow{.round = place.round,
                                 .rank = rank,
                                 .step = begin.step,
                                 .recorded = place.role == Role::kWith ? 1 : 0,
                                 .start_ns = begin.time_ns,
                                 .duration_ns = end.time_ns - begin.time_ns};
}

}  // namespace shardscope::runtime
