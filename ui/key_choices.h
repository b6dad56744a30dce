// What a key of the configuration can be chosen to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"

namespace shardscope::ui {

// Canonical texts; empty: it is typed. Of the numbers that a key may be beside true and false one
// stands there: `value`, where it is one.
std::vector<std::string> ChoicesOf(const config::KeyInfo& key, std::string_view value);

}  // namespace shardscope::ui
