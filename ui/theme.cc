#include "ui/theme.h"

#include <algorithm>
#include <cmath>

#include "ui/commands.h"

namespace shardscope::ui {
namespace {

using query::MemoryCategory;
using query::OpClass;

void SetMemoryColors(Color gradient, Color other, Theme* theme) {
  const auto set = [theme](MemoryCategory category, Color color) {
    theme->memory[static_cast<size_t>(category)] = color;
  };
  set(MemoryCategory::kParameterShard, Rgb(0x7d8a9f));
  set(MemoryCategory::kUnshardedParameter, theme->op.all_gather);
  set(MemoryCategory::kGradient, gradient);
  set(MemoryCategory::kGradientShard, theme->op.reduce_scatter);
  set(MemoryCategory::kCommunicationBuffer, Rgb(0xf0d070));
  set(MemoryCategory::kOptimizer, theme->op.optimizer);
  set(MemoryCategory::kActivation, theme->op.backward);
  set(MemoryCategory::kTemporary, Rgb(0xa8d4ef));  // a paler activation
  set(MemoryCategory::kHost, theme->op.host);
  set(MemoryCategory::kOther, other);
}

Theme MakeDark() {
  Theme theme;
  theme.dark = true;
  theme.surface = {.window = Rgb(0x14171c),
                   .panel = Rgb(0x1b1f26),
                   .raised = Rgb(0x20252d),
                   .line = Rgb(0x2c323c),
                   .button = Rgb(0x2a303a),
                   .hovered = Rgb(0x323a46),
                   .chosen = Rgb(0x3b4656),
                   .primary = Rgb(0x2d7bbb),
                   .primary_hovered = Rgb(0x286ca5)};
  theme.ink = {.text = Rgb(0xe6e9ee),
               .dim = Rgb(0x9aa4b2),
               .faint = Rgb(0x5d6776),
               .filled = Rgb(0x9aa4b2),
               .on_light = Rgb(0x101318),
               .on_dark = Rgb(0xffffff)};
  theme.op = {.forward = Rgb(0x2f7fc1),
              .backward = Rgb(0x64b4e8),
              .recompute = Rgb(0x4a6fb5),
              .all_gather = Rgb(0xe69f00),
              .reduce_scatter = Rgb(0x14a67b),
              .all_reduce = Rgb(0xc9b037),
              .send_receive = Rgb(0x9b8be0),
              .optimizer = Rgb(0xc97ba7),
              .copy = Rgb(0x8d96a3),
              .host = Rgb(0x565f6d),
              .wait = Rgb(0x6b7280),
              .exposed = Rgb(0xd55e00),
              .stall_fill = Rgb(0x3a2416),
              .hatch = Rgb(0x000000, 0x60),
              .idle = Rgb(0x3a404b)};
  theme.state = {.accent = Rgb(0x4f9ddb),
                 .good = Rgb(0x2fbd91),
                 .bad = Rgb(0xf07a2a),
                 .pending = Rgb(0xe69f00),
                 .pending_fill = Rgb(0x3a2f14),
                 .pending_text = Rgb(0xf0b93a),
                 .live_fill = Rgb(0x1f6f4a),
                 .live_text = Rgb(0xd9f5e6),
                 .quiet_fill = Rgb(0x2f3743),
                 .quiet_text = Rgb(0xc9d1dc),
                 .cut_fill = Rgb(0x5a3413),
                 .cut_text = Rgb(0xf7c79b)};
  SetMemoryColors(Rgb(0x8fd3b6), Rgb(0x565f6d), &theme);
  return theme;
}

Theme MakeLight() {
  Theme theme;
  theme.dark = false;
  theme.surface = {.window = Rgb(0xeef0f3),
                   .panel = Rgb(0xffffff),
                   .raised = Rgb(0xf6f7f9),
                   .line = Rgb(0xd9dde3),
                   .button = Rgb(0xe8ebef),
                   .hovered = Rgb(0xdde2e8),
                   .chosen = Rgb(0xcfd6df),
                   .primary = Rgb(0x2d7bbb),
                   .primary_hovered = Rgb(0x286ca5)};
  theme.ink = {.text = Rgb(0x1b2026),
               .dim = Rgb(0x596373),
               .faint = Rgb(0x9aa3af),
               .filled = Rgb(0x596373),
               .on_light = Rgb(0x101318),
               .on_dark = Rgb(0xffffff)};
  theme.op = {.forward = Rgb(0x2f7fc1),
              .backward = Rgb(0x56a7dd),
              .recompute = Rgb(0x4664a8),
              .all_gather = Rgb(0xe69f00),
              .reduce_scatter = Rgb(0x009e73),
              .all_reduce = Rgb(0xb39b1e),
              .send_receive = Rgb(0x7d6cc9),
              .optimizer = Rgb(0xc97ba7),
              .copy = Rgb(0x8d96a3),
              .host = Rgb(0xaab2bd),
              .wait = Rgb(0xc3c9d1),
              .exposed = Rgb(0xd55e00),
              .stall_fill = Rgb(0xfde3cf),
              .hatch = Rgb(0x000000, 0x48),
              .idle = Rgb(0xc9ced6)};
  theme.state = {.accent = Rgb(0x266fae),
                 .good = Rgb(0x007a59),
                 .bad = Rgb(0xb34c00),
                 .pending = Rgb(0xe69f00),
                 .pending_fill = Rgb(0xfff0cf),
                 .pending_text = Rgb(0x7a5200),
                 .live_fill = Rgb(0xc9ead9),
                 .live_text = Rgb(0x0f5a38),
                 .quiet_fill = Rgb(0xdde2e8),
                 .quiet_text = Rgb(0x3c4653),
                 .cut_fill = Rgb(0xfbdcc2),
                 .cut_text = Rgb(0x7d3a00)};
  SetMemoryColors(Rgb(0x8fcdb4), Rgb(0xaab2bd), &theme);
  return theme;
}

// Linear light of each value of an sRGB channel. A table, as the label of each span asks for
// twelve.
const std::array<double, 256>& LinearChannels() {
  static const std::array<double, 256> kLinear = [] {
    std::array<double, 256> linear{};
    for (size_t value = 0; value < linear.size(); ++value) {
      const double c = static_cast<double>(value) / 255.0;
      linear[value] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    }
    return linear;
  }();
  return kLinear;
}

// Relative luminance of sRGB, as WCAG 2.1 defines it.
double Luminance(Color color) {
  const std::array<double, 256>& linear = LinearChannels();
  return 0.2126 * linear[color & 0xff] + 0.7152 * linear[color >> 8 & 0xff] +
         0.0722 * linear[color >> 16 & 0xff];
}

}  // namespace

const Theme& GetTheme(ThemeName name) {
  static const Theme kDark = MakeDark();
  static const Theme kLight = MakeLight();
  return name == ThemeName::kDark ? kDark : kLight;
}

Color OpColor(const Theme& theme, query::OpClass op_class) {
  switch (op_class) {
    case OpClass::kForward:
      return theme.op.forward;
    case OpClass::kBackward:
      return theme.op.backward;
    case OpClass::kRecompute:
      return theme.op.recompute;
    case OpClass::kAllGather:
      return theme.op.all_gather;
    case OpClass::kReduceScatter:
      return theme.op.reduce_scatter;
    case OpClass::kAllReduce:
    case OpClass::kReduce:
      return theme.op.all_reduce;
    case OpClass::kSendReceive:
    case OpClass::kBroadcast:
      return theme.op.send_receive;
    case OpClass::kOptimizer:
      return theme.op.optimizer;
    case OpClass::kCopy:
      return theme.op.copy;
    case OpClass::kHost:
    case OpClass::kBookkeeping:
      break;
  }
  return theme.op.host;
}

Color MemoryColor(const Theme& theme, query::MemoryCategory category) {
  return theme.memory[static_cast<size_t>(category)];
}

Color Mix(Color from, Color to, float share) {
  const float t = std::clamp(share, 0.0f, 1.0f);
  Color mixed = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const float a = static_cast<float>(from >> shift & 0xff);
    const float b = static_cast<float>(to >> shift & 0xff);
    mixed |= static_cast<Color>(a + (b - a) * t + 0.5f) << shift;
  }
  return mixed;
}

Color UnitShade(Color hue, int unit_index) {
  if (unit_index < 0) return hue;
  // Three shades in turn keep neighbours apart at both ends of any run of units.
  constexpr std::array<float, 3> kShift = {0.0f, 0.08f, -0.08f};
  const float shift = kShift[static_cast<size_t>(unit_index) % kShift.size()];
  const Color alpha = hue & 0xff000000;
  if (shift > 0) return Mix(hue, alpha | 0x00ffffff, shift);
  return Mix(hue, alpha, -shift);
}

Color InkOn(const Theme& theme, Color ground) {
  return Contrast(ground, theme.ink.on_light) >= Contrast(ground, theme.ink.on_dark)
             ? theme.ink.on_light
             : theme.ink.on_dark;
}

double Contrast(Color a, Color b) {
  const double la = Luminance(a);
  const double lb = Luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

}  // namespace shardscope::ui
