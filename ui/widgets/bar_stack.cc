#include "ui/widgets/bar_stack.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>

namespace shardscope::widgets {

void DrawBarStack(const ui::Box& box, double tallest_ns, std::initializer_list<BarPart> parts) {
  if (tallest_ns <= 0) return;
  const float x1 = std::max(box.x0 + 1, box.x1 - (box.x1 - box.x0 > 3 ? 1.0F : 0.0F));
  const auto scale = static_cast<double>(box.y1 - box.y0) / tallest_ns;
  double below_ns = 0;
  for (const BarPart& part : parts) {
    const float y1 = box.y1 - std::round(static_cast<float>(below_ns * scale));
    below_ns += part.ns;
    const float y0 = box.y1 - std::round(static_cast<float>(below_ns * scale));
    if (y0 >= y1) continue;
    ImGui::GetWindowDrawList()->AddRectFilled({box.x0, std::max(y0, box.y0)}, {x1, y1}, part.color);
  }
}

}  // namespace shardscope::widgets
