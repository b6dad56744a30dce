#include "app/train/tokenizing_told.h"

#include <fmt/format.h>

#include <algorithm>

#include "trace/base/units.h"

namespace shardscope::app {
namespace {

constexpr auto kFirstTokenizing = std::chrono::seconds(1);
constexpr auto kNextTokenizing = std::chrono::seconds(5);

}  // namespace

std::string TokenizingTold::LineAt(Time now, int64_t done, int64_t all) {
  if (done == 0) next_ = now + kFirstTokenizing;
  if (now < next_) return "";
  next_ = now + kNextTokenizing;
  return fmt::format("tokenising {} of text: {} %", FormatBytes(all),
                     100 * done / std::max<int64_t>(1, all));
}

}  // namespace shardscope::app
