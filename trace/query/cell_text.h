// The cells of a SELECT as text for people, for `shardscope sql` and the app alike.
#pragma once

#include <string>

#include "trace/query/select.h"

namespace shardscope::query {

// A real in six digits, exact enough for a millisecond figure; else ExactText().
std::string ShownText(const Cell& cell);

}  // namespace shardscope::query
