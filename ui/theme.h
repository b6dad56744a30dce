// Theme: every colour and size of the app. Nothing else names a colour.
//
// Plain data without Dear ImGui, so that lanes can pick colours on any thread. The two tables are
// constant.
#pragma once

#include <array>
#include <cstdint>

#include "trace/query/snapshot.h"

struct ImFont;

namespace shardscope::ui {

enum class ThemeName : uint8_t;

// 0xAABBGGRR, as Dear ImGui's ImU32.
using Color = uint32_t;

// From "#rrggbb" as the design writes it.
constexpr Color Rgb(uint32_t rgb, uint32_t alpha = 0xff) {
  return alpha << 24 | (rgb & 0xff) << 16 | (rgb & 0xff00) | (rgb >> 16 & 0xff);
}

struct SurfaceColors {
  Color window = 0;   // behind everything
  Color panel = 0;    // a docked panel
  Color raised = 0;   // card, tooltip, ruler
  Color line = 0;     // hairlines, slider rails
  Color button = 0;   // chips, segments, icon buttons
  Color hovered = 0;  // the same under the mouse
  Color chosen = 0;   // the segment in force
  Color primary = 0;  // the button that does what a panel is for; forward, with a white text on it
  Color primary_hovered = 0;
};

struct InkColors {
  Color text = 0;
  Color dim = 0;
  Color faint = 0;     // thin lines, marks, what is disabled: too weak to be read
  Color filled = 0;    // filled part and handle of a slider
  Color on_light = 0;  // labels on spans, chosen by luminance
  Color on_dark = 0;
};

struct OpColors {
  Color forward = 0;
  Color backward = 0;
  Color recompute = 0;
  Color all_gather = 0;
  Color reduce_scatter = 0;
  Color all_reduce = 0;
  Color send_receive = 0;
  Color optimizer = 0;
  Color copy = 0;
  Color host = 0;
  Color wait = 0;        // the waiting part of a collective
  Color exposed = 0;     // stalls, exposed strip
  Color stall_fill = 0;  // ground under a stall's diagonal lines
  Color hatch = 0;       // 45 degree lines on emulated spans
  Color idle = 0;
};

struct StateColors {
  Color accent = 0;  // active tab, links, keyboard focus
  Color good = 0;
  Color bad = 0;
  Color pending = 0;       // outline of a pending value, change marker
  Color pending_fill = 0;  // ground of the bar "applies at step K"
  Color pending_text = 0;
  Color live_fill = 0;
  Color live_text = 0;
  Color quiet_fill = 0;  // FINISHED, PAUSED
  Color quiet_text = 0;
  Color cut_fill = 0;
  Color cut_text = 0;
};

struct Theme {
  SurfaceColors surface;
  InkColors ink;
  OpColors op;
  StateColors state;
  std::array<Color, query::kNumMemoryCategories> memory{};  // indexed by query::MemoryCategory
  bool dark = true;
};

const Theme& GetTheme(ThemeName name);

Color OpColor(const Theme& theme, query::OpClass op_class);
Color MemoryColor(const Theme& theme, query::MemoryCategory category);

// `hue` varied by at most 8 % in lightness, so that neighbouring units separate.
Color UnitShade(Color hue, int unit_index);

// Black or white ink, whichever reads better on `ground`.
Color InkOn(const Theme& theme, Color ground);

constexpr Color WithAlpha(Color color, float alpha) {
  return (color & 0x00ffffff) | static_cast<Color>(alpha * 255.0f + 0.5f) << 24;
}
// `from` at 0, `to` at 1; alpha too.
Color Mix(Color from, Color to, float share);

// WCAG contrast of two opaque colours, 1 to 21.
double Contrast(Color a, Color b);

// Sizes in pixels at scale 1; draw code multiplies by Context::scale.
inline constexpr float kTextSize = 12;
inline constexpr float kSmallTextSize = 11;
inline constexpr float kTitleSize = 13;
inline constexpr float kKeyNumberSize = 14;
inline constexpr float kMonoSize = 11;
inline constexpr float kRounding = 6;
inline constexpr float kSmallRounding = 4;
inline constexpr float kGrid = 8;
inline constexpr float kPanelPadding = 14;
inline constexpr float kTopBarHeight = 44;
inline constexpr float kRunControlWidth = 300;
inline constexpr float kRightColumnWidth = 330;
inline constexpr float kHostLaneHeight = 14;
inline constexpr float kComputeLaneHeight = 36;
inline constexpr float kCommunicationLaneHeight = 26;
inline constexpr float kExposedLaneHeight = 8;
inline constexpr float kStreamLaneHeight = 18;
inline constexpr float kThreadLaneHeight = 14;  // of one level of nested ranges
inline constexpr float kLaneGap = 3;
inline constexpr float kFoldedRankHeight = 14;

// The three faces that everything is written in. Loaded by ui/shell/backend/gui.h.
struct Fonts {
  ImFont* text = nullptr;  // Roboto, with CJK merged
  ImFont* bold = nullptr;
  ImFont* mono = nullptr;
};

}  // namespace shardscope::ui
