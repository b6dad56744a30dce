#include "engine/footprint/largest.h"

#include <algorithm>
#include <optional>
#include <string>

#include "engine/config/device.h"
#include "engine/footprint/advice.h"
#include "engine/footprint/device_limits.h"
#include "engine/footprint/memory_options.h"

namespace shardscope::footprint {
namespace {

// Values of a key that go with the others are multiples of this.
int64_t StepOf(const config::Config& config, std::string_view key) {
  if (key == "model.dim") {
    const bool is_on_gpu = config::GetDevice(config) == config::DeviceKind::kCuda;
    return (is_on_gpu ? kChannelStep : 2) * config.GetInt("model.heads");
  }
  if (key == "model.seq" && config.GetBool("tensor.sequence_parallel")) {
    return config::ToPolicy(config).mesh.size(plan::MeshDimension::kTensor);
  }
  return 1;
}

// In steps of the key from here on.
class ScaleSearch {
 public:
  ScaleSearch(const config::Config& config, std::string_view key, int64_t limit_bytes)
      : config_(config),
        key_(key),
        limit_bytes_(limit_bytes),
        step_(StepOf(config, key)),
        most_(static_cast<int64_t>(config::FindKey(key)->maximum) / step_) {}

  Largest Run() {
    const int64_t now = std::clamp<int64_t>(config_.GetInt(key_) / step_, 1, most_);
    Point low{now, NeededAt(now)};
    Point high = low;
    while (Fits(high) && high.steps < most_) {
      low = high;
      high = At(std::min(most_, 2 * high.steps));
    }
    if (Fits(high)) return {most_ * step_, true};
    while (!Fits(low) && low.steps > 1) {
      high = low;
      low = At(low.steps / 2);
    }
    if (!Fits(low)) return {};
    return {Between(low, high) * step_, false};
  }

 private:
  struct Point {
    int64_t steps = 0;
    std::optional<int64_t> needed_bytes;  // none: no step can be run
  };

  Point At(int64_t steps) const { return {steps, NeededAt(steps)}; }
  bool Fits(const Point& point) const {
    return point.needed_bytes && *point.needed_bytes <= limit_bytes_;
  }

  std::optional<int64_t> NeededAt(int64_t steps) const {
    const Result<config::Config> changed =
        With(config_, {{std::string(key_), std::to_string(steps * step_)}});
    if (!changed.ok()) return std::nullopt;
    const Result<int64_t> needed = NeededBytes(*changed);
    if (!needed.ok()) return std::nullopt;
    return *needed;
  }

  // `low` fits and `high` does not. As bytes grow about evenly, most guesses are close; every other
  // one halves what is left, so that none is needed for it.
  int64_t Between(Point low, Point high) const {
    bool halves = false;
    while (high.steps - low.steps > 1) {
      int64_t guess = low.steps + (high.steps - low.steps) / 2;
      if (!halves && high.needed_bytes) {
        const double share = static_cast<double>(limit_bytes_ - *low.needed_bytes) /
                             static_cast<double>(*high.needed_bytes - *low.needed_bytes);
        const auto steps = static_cast<double>(high.steps - low.steps);
        guess = low.steps + static_cast<int64_t>(share * steps);
      }
      halves = !halves;
      const Point point = At(std::clamp(guess, low.steps + 1, high.steps - 1));
      (Fits(point) ? low : high) = point;
    }
    return low.steps;
  }

  const config::Config& config_;
  const std::string_view key_;
  const int64_t limit_bytes_;
  const int64_t step_;
  const int64_t most_;
};

}  // namespace

std::vector<std::string_view> ScalesOf(const config::Config& config) {
  if (!config.Get("model.path").empty()) return {"train.batch", "model.seq"};
  return {"train.batch", "model.seq", "model.layers", "model.dim"};
}

Largest LargestThatFits(const config::Config& config, std::string_view key, int64_t limit_bytes) {
  return ScaleSearch(config, key, limit_bytes).Run();
}

}  // namespace shardscope::footprint
