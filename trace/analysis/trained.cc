#include "trace/analysis/trained.h"

#include <fmt/format.h>

#include <string_view>

#include "trace/base/parse_number.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"

namespace shardscope::analysis {

std::optional<Trained> TrainedOf(const query::Snapshot& snapshot) {
  // A damaged file may say anything.
  const auto take = [&](std::string_view key, int64_t* value) {
    const auto found = snapshot.meta.find(std::string(key));
    if (found == snapshot.meta.end()) return false;
    const auto number = ParseInteger<int64_t>(found->second, 0);
    *value = number.value_or(0);
    return number.has_value();
  };
  Trained trained;
  const bool is_known = take(trace_keys::kParameters, &trained.parameters) &&
                        take(trace_keys::kTrainedParameters, &trained.trained) &&
                        take(trace_keys::kSparedGradientBytes, &trained.spared_gradient_bytes) &&
                        take(trace_keys::kSparedOptimizerBytes, &trained.spared_optimizer_bytes);
  if (!is_known || trained.parameters == 0) return std::nullopt;
  return trained;
}

std::string Describe(const std::optional<Trained>& trained) {
  if (!trained) return "";
  const auto share =
      static_cast<double>(trained->trained) / static_cast<double>(trained->parameters);
  return fmt::format(
      "  trained: {} of {} parameters ({}), which spares a rank {} of gradients and {} of "
      "optimizer state\n",
      trained->trained, trained->parameters, FormatPercent(share),
      FormatBytes(trained->spared_gradient_bytes), FormatBytes(trained->spared_optimizer_bytes));
}

}  // namespace shardscope::analysis
