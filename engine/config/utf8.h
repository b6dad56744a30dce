// The one check on text that comes from outside (paths, names, control messages).
#pragma once

#include <string_view>

namespace shardscope::config {

// Valid UTF-8 (no surrogates, no overlong forms) without control characters.
bool IsPlainUtf8(std::string_view text);

}  // namespace shardscope::config
