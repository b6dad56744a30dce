// Dear ImGui's own style from the theme, so that nothing of its default grey is left.
#pragma once

#include "ui/theme.h"

namespace shardscope::shell {

void ApplyStyle(const ui::Theme& theme, float scale);

}  // namespace shardscope::shell
