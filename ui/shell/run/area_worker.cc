#include "ui/shell/run/area_worker.h"

#include <limits>

namespace shardscope::shell {
namespace {

// Their causes are found within a few frames.
constexpr int64_t kFewOps = 50'000;

}  // namespace

std::shared_ptr<const analysis::Area> Measure(const AreaRequest& request,
                                              const std::stop_token& stop) {
  const int64_t most_ops = request.causes ? std::numeric_limits<int64_t>::max() : kFewOps;
  auto area = std::make_shared<analysis::Area>(
      analysis::MeasureArea(*request.snapshot, request.query, {most_ops, stop}));
  return area->stopped ? nullptr : std::move(area);
}

}  // namespace shardscope::shell
