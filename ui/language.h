// Language: of every text of the app.
#pragma once

#include <cstdint>

namespace shardscope::ui {

enum class Language : uint8_t { kEnglish, kChinese };

}  // namespace shardscope::ui
