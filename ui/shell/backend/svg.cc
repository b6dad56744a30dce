#include "ui/shell/backend/svg.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "trace/base/text.h"
#include "ui/shell/backend/gui.h"

namespace shardscope::shell {
namespace {

constexpr float kSamePlace = 0.6f;  // pixels that glyphs of one text may be moved to whole ones

float Rounded(float value) { return std::round(value * 100) / 100; }

std::string Fill(ImU32 colour) {
  const auto channel = [colour](int shift) { return (colour >> shift) & 0xFFu; };
  std::string fill = fmt::format("fill=\"#{:02x}{:02x}{:02x}\"", channel(IM_COL32_R_SHIFT),
                                 channel(IM_COL32_G_SHIFT), channel(IM_COL32_B_SHIFT));
  const unsigned alpha = channel(IM_COL32_A_SHIFT);
  if (alpha != 0xFF) fill += fmt::format(" fill-opacity=\"{:.3g}\"", alpha / 255.0);
  return fill;
}

// A glyph in the texture, and the font and size that it is of.
struct Glyph {
  const ImFontGlyph* glyph = nullptr;
  ImFontBaked* baked = nullptr;
};

// Which glyph lies where in the texture.
class Glyphs {
 public:
  Glyphs() {
    ImFontAtlasBuilder* builder = ImGui::GetIO().Fonts->Builder;
    for (int i = 0; builder != nullptr && i < builder->BakedPool.Size; ++i) {
      ImFontBaked* baked = &builder->BakedPool[i];
      if (baked->WantDestroy) continue;
      for (const ImFontGlyph& glyph : baked->Glyphs) {
        if (glyph.Visible) by_corner_[KeyOf(glyph.U0, glyph.V0)] = {&glyph, baked};
      }
    }
  }

  // With its upper left corner there; of one that is cut off at an edge, some point inside.
  std::optional<Glyph> Find(ImVec2 corner, ImVec2 inside) const {
    const auto found = by_corner_.find(KeyOf(corner.x, corner.y));
    if (found != by_corner_.end()) return found->second;
    for (const auto& [key, glyph] : by_corner_) {
      const ImFontGlyph& g = *glyph.glyph;
      if (g.U0 <= inside.x && inside.x <= g.U1 && g.V0 <= inside.y && inside.y <= g.V1) {
        return glyph;
      }
    }
    return std::nullopt;
  }

 private:
  static uint64_t KeyOf(float u, float v) {
    uint32_t bits[2];
    std::memcpy(&bits[0], &u, sizeof(u));
    std::memcpy(&bits[1], &v, sizeof(v));
    return uint64_t{bits[0]} << 32 | bits[1];
  }

  std::unordered_map<uint64_t, Glyph> by_corner_;
};

// What is written of the same font, colour and line, one glyph after the other.
struct Line {
  ImFontBaked* baked = nullptr;
  ImU32 colour = 0;
  float x = 0;         // of the first glyph's origin
  float baseline = 0;  // y
  float scale = 1;     // of the font's size
  float end = 0;       // where the next glyph's origin is expected
  std::string text;
};

class SvgWriter {
 public:
  explicit SvgWriter(const ImDrawData& data, const std::string& title) : data_(data) {
    const ImVec2 size = data.DisplaySize;
    svg_ = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" xml:space=\"preserve\">\n<title>{2}</title>\n"
        "<rect {3} width=\"{0}\" height=\"{1}\"/>\n",
        size.x, size.y, EscapedMarkup(Printable(title, "")),
        Fill(ImGui::ColorConvertFloat4ToU32(ImGui::GetStyle().Colors[ImGuiCol_DockingEmptyBg])));
  }

  std::string Write() {
    for (const ImDrawList* list : data_.CmdLists) {
      window_ = list->_OwnerName == nullptr ? "" : list->_OwnerName;
      for (const ImDrawCmd& command : list->CmdBuffer) {
        if (command.UserCallback == nullptr && command.ElemCount > 0) WriteCommand(*list, command);
      }
    }
    EndGroup();
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

  // After Write().
  std::vector<WrittenText> TakeTexts() { return std::move(texts_); }

 private:
  void WriteCommand(const ImDrawList& list, const ImDrawCmd& command) {
    BeginGroup(command.ClipRect);
    const ImDrawVert* vertices = list.VtxBuffer.Data + command.VtxOffset;
    const std::span indices(list.IdxBuffer.Data + command.IdxOffset, command.ElemCount);
    size_t at = 0;
    while (at + 2 < indices.size()) {
      // A fan: triangles about one vertex, each along an edge of the one before.
      fan_.assign({vertices[indices[at]], vertices[indices[at + 1]], vertices[indices[at + 2]]});
      size_t next = at + 3;
      while (next + 2 < indices.size() && indices[next] == indices[at] &&
             indices[next + 1] == indices[next - 1]) {
        fan_.push_back(vertices[indices[next + 2]]);
        next += 3;
      }
      WriteFan();
      at = next;
    }
    EndLine();
  }

  void WriteFan() {
    if (fan_.size() == 4 && WriteGlyph()) return;
    EndLine();
    if ((fan_[0].col & IM_COL32_A_MASK) == 0) return;
    svg_ += fmt::format("<path {} d=\"", Fill(fan_[0].col));
    for (size_t i = 0; i < fan_.size(); ++i) {
      svg_ += fmt::format("{}{} {}", i == 0 ? "M" : "L", Rounded(fan_[i].pos.x),
                          Rounded(fan_[i].pos.y));
    }
    svg_ += "Z\"/>\n";
  }

  // False: the four corners are no glyph's.
  bool WriteGlyph() {
    const ImDrawVert& from = fan_[0];
    const ImDrawVert& to = fan_[2];
    if (from.uv.x == to.uv.x || from.uv.y == to.uv.y) return false;
    const auto found =
        glyphs_.Find(from.uv, {(from.uv.x + to.uv.x) / 2, (from.uv.y + to.uv.y) / 2});
    if (!found) return false;
    const ImFontGlyph& glyph = *found->glyph;
    // Of a whole glyph, also where the corners are of a part.
    const float width = (to.pos.x - from.pos.x) / (to.uv.x - from.uv.x) * (glyph.U1 - glyph.U0);
    const float height = (to.pos.y - from.pos.y) / (to.uv.y - from.uv.y) * (glyph.V1 - glyph.V0);
    const float left = from.pos.x - (from.uv.x - glyph.U0) / (glyph.U1 - glyph.U0) * width;
    const float top = from.pos.y - (from.uv.y - glyph.V0) / (glyph.V1 - glyph.V0) * height;
    const float scale = width / (glyph.X1 - glyph.X0);
    const float x = left - glyph.X0 * scale;
    const float baseline = top + (found->baked->Ascent - glyph.Y0) * scale;
    AddToLine(*found, from.col, x, baseline, scale);
    return true;
  }

  void AddToLine(const Glyph& glyph, ImU32 colour, float x, float baseline, float scale) {
    const bool same_line = line_.baked == glyph.baked && line_.colour == colour &&
                           std::abs(line_.baseline - baseline) < kSamePlace;
    const float space = glyph.baked->GetCharAdvance(' ') * scale;
    // Spaces have no corners.
    const float spaces = same_line ? std::round((x - line_.end) / space) : -1;
    if (spaces < 0 || spaces > 3 || std::abs(x - line_.end - spaces * space) > kSamePlace) {
      EndLine();
      line_ = {glyph.baked, colour, x, baseline, scale, x, ""};
    } else {
      line_.text.append(static_cast<size_t>(spaces), ' ');
    }
    char bytes[5];
    ImTextCharToUtf8(bytes, glyph.glyph->Codepoint);
    line_.text += bytes;
    line_.end = x + glyph.glyph->AdvanceX * scale;
  }

  void EndLine() {
    if (line_.text.empty()) return;
    NoteText();
    const FontFace& face = FaceOf(*line_.baked->OwnerFont);
    svg_ += fmt::format(
        "<text {} x=\"{}\" y=\"{}\" font-family=\"{}, Noto Sans CJK SC, sans-serif\" "
        "font-size=\"{}\"{} textLength=\"{}\">{}"
        "</text>\n",
        Fill(line_.colour), Rounded(line_.x), Rounded(line_.baseline), face.family,
        Rounded(line_.baked->Size * line_.scale / face.line),
        face.bold ? " font-weight=\"bold\"" : "", Rounded(line_.end - line_.x),
        EscapedMarkup(line_.text));
    line_.text.clear();
  }

  void NoteText() {
    const float ascent = line_.baked->Ascent * line_.scale;
    const float descent = line_.baked->Descent * line_.scale;  // below the baseline: negative
    const ui::Box box{line_.x, line_.baseline - ascent, line_.end, line_.baseline - descent};
    const bool is_seen =
        box.x0 < clip_.z && box.x1 > clip_.x && box.y0 < clip_.w && box.y1 > clip_.y;
    if (is_seen) texts_.push_back({box, window_, line_.text});
  }

  void BeginGroup(const ImVec4& clip) {
    if (in_group_ && std::memcmp(&clip, &clip_, sizeof(clip)) == 0) return;
    EndGroup();
    svg_ += fmt::format(
        "<clipPath id=\"c{0}\"><rect x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{4}\"/></clipPath>"
        "<g clip-path=\"url(#c{0})\">\n",
        num_groups_++, Rounded(clip.x), Rounded(clip.y), Rounded(clip.z - clip.x),
        Rounded(clip.w - clip.y));
    clip_ = clip;
    in_group_ = true;
  }

  void EndGroup() {
    EndLine();
    if (in_group_) svg_ += "</g>\n";
    in_group_ = false;
  }

  const ImDrawData& data_;
  Glyphs glyphs_;
  std::string svg_;
  std::string window_;  // whose list is written
  std::vector<WrittenText> texts_;
  std::vector<ImDrawVert> fan_;
  Line line_;
  ImVec4 clip_;
  bool in_group_ = false;
  int num_groups_ = 0;
};

}  // namespace

void DrawSharpEdges(bool sharp) {
  ImGuiStyle& style = ImGui::GetStyle();
  style.AntiAliasedLines = style.AntiAliasedFill = !sharp;
}

std::string SvgOf(const ImDrawData& data, const std::string& title) {
  return SvgWriter(data, title).Write();
}

std::vector<WrittenText> WrittenTextsOf(const ImDrawData& data) {
  SvgWriter writer(data, "");
  writer.Write();
  return writer.TakeTexts();
}

}  // namespace shardscope::shell
