#include "ui/shell/backend/gui.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/hash.h"
#include "trace/base/mapped_file.h"
#include "ui/shell/backend/embedded_fonts.h"
#include "ui/theme.h"

namespace shardscope::shell {
namespace {

// Face of Noto Sans CJK's collection that has Simplified Chinese forms.
constexpr ImU32 kSimplifiedChineseFace = 2;

// Dear ImGui sizes a font by its line height, (ascent + descent) / em, and these differ: without a
// correction merged glyphs would be smaller than the letters beside them.
constexpr float kRobotoLine = 1.172f;
constexpr float kJetBrainsMonoLine = 1.32f;
constexpr float kNotoSansCjkLine = 1.448f;

constexpr FontFace kText = {"Roboto", false, kRobotoLine};
constexpr FontFace kBold = {"Roboto", true, kRobotoLine};
constexpr FontFace kMono = {"JetBrains Mono", false, kJetBrainsMonoLine};

ImFont* AddEmbedded(std::span<const unsigned char> data, const FontFace& face, bool merge = false) {
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  config.MergeMode = merge;
  if (merge) config.ExtraSizeScale = face.line / kRobotoLine;
  std::snprintf(config.Name, sizeof(config.Name), "%s%s", face.family, face.bold ? " Bold" : "");
  // The atlas only reads data that it does not own; its interface lacks the const.
  return ImGui::GetIO().Fonts->AddFontFromMemoryTTF(const_cast<unsigned char*>(data.data()),
                                                    static_cast<int>(data.size()), 0, &config);
}

// Arrows and the sign for infinity are in the mono face, not in Roboto.
void MergeSymbols() { AddEmbedded(EmbeddedMonoFont(), kMono, /*merge=*/true); }

// A font of the system, mapped once and for good: some 20 MB, of which few pages are looked at.
// Empty: there is none, or it cannot be read.
std::span<const std::byte> MappedFont(const std::string& path) {
  constexpr size_t kLeastBytes = 101;  // Dear ImGui takes no less for a font
  static std::map<std::string, MappedFile> fonts;
  auto font = fonts.find(path);
  if (font == fonts.end()) {
    if (path.empty()) return {};
    Result<MappedFile> file = MappedFile::Open(path);
    if (!file.ok() || file->bytes().size() < kLeastBytes) return {};
    font = fonts.emplace(path, std::move(*file)).first;
  }
  return font->second.bytes();
}

bool MergeCjk(bool bold, float line) {
  const std::span<const std::byte> data = MappedFont(FindCjkFont(bold));
  if (data.empty()) return false;
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  config.MergeMode = true;
  config.ExtraSizeScale = kNotoSansCjkLine / line;
  config.FontNo = kSimplifiedChineseFace;
  return ImGui::GetIO().Fonts->AddFontFromMemoryTTF(const_cast<std::byte*>(data.data()),
                                                    static_cast<int>(data.size()), 0,
                                                    &config) != nullptr;
}

// Where the next frame's input begins: at a release after something that it would change, and at a
// press of the mouse that has just come to where it is.
const ImGuiInputEvent* EndOfFrameInput(const ImVector<ImGuiInputEvent>& queue) {
  bool acted = false;
  bool moved = false;
  for (const ImGuiInputEvent& event : queue) {
    const bool button = event.Type == ImGuiInputEventType_MouseButton;
    if (button && event.MouseButton.Down && moved) return &event;
    moved = moved || event.Type == ImGuiInputEventType_MousePos;
    const bool key = event.Type == ImGuiInputEventType_Key;
    if (key && !event.Key.Down && acted) return &event;
    acted =
        acted || (key && event.Key.Down) || button || event.Type == ImGuiInputEventType_MouseWheel;
  }
  return queue.end();
}

bool IsModifier(const ImGuiInputEvent& event) {
  if (event.Type != ImGuiInputEventType_Key) return false;
  return (event.Key.Key & ImGuiMod_Mask_) != 0 || ImGui::IsLRModKey(event.Key.Key);
}

// FNV-1a, eight bytes at a time.
class Hash {
 public:
  void Add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), bytes += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes, sizeof(word));
      Mix(word);
    }
    for (; size > 0; --size) Mix(*bytes++);
  }
  template <typename Value>
  void AddValue(const Value& value) {
    Add(&value, sizeof(value));
  }
  uint64_t value() const { return value_; }

 private:
  void Mix(uint64_t word) {
    value_ = FnvStep(value_, word);
    value_ ^= value_ >> 32;
  }

  uint64_t value_ = kFnvBasis;
};

ImVec4 ToVec4(ui::Color color) { return ImGui::ColorConvertU32ToFloat4(color); }

void ApplySizes(ImGuiStyle* style) {
  style->WindowPadding = {ui::kPanelPadding, 8};
  style->FramePadding = {7, 7};
  style->ItemSpacing = {8, 6};
  style->ItemInnerSpacing = {6, 4};
  style->WindowRounding = ui::kRounding;
  style->ChildRounding = 0;
  style->FrameRounding = ui::kSmallRounding;
  style->PopupRounding = ui::kRounding;
  style->ScrollbarRounding = 4;
  style->ScrollbarSize = 8;
  style->GrabRounding = 4;
  style->TabRounding = 0;
  style->WindowBorderSize = 0;
  style->ChildBorderSize = 0;
  style->PopupBorderSize = 1;
  style->FrameBorderSize = 0;
  style->TabBorderSize = 0;
  style->TabBarBorderSize = 0;
  style->TabBarOverlineSize =
      0;  // the accent line stands under the tab; ui/shell/panel_windows.cc draws it
  style->DockingSeparatorSize = ui::kGrid;
  style->WindowMenuButtonPosition = ImGuiDir_None;
  style->DisabledAlpha = 1;  // widgets choose their disabled ink themselves
}

void ApplyTabColors(const ui::Theme& theme, ImVec4* colors) {
  const ImVec4 panel = ToVec4(theme.surface.panel);
  for (const ImGuiCol tab : {ImGuiCol_Tab, ImGuiCol_TabHovered, ImGuiCol_TabSelected,
                             ImGuiCol_TabDimmed, ImGuiCol_TabDimmedSelected,
                             ImGuiCol_TabSelectedOverline, ImGuiCol_TabDimmedSelectedOverline,
                             ImGuiCol_TitleBg, ImGuiCol_TitleBgActive, ImGuiCol_TitleBgCollapsed}) {
    colors[tab] = panel;
  }
}

}  // namespace

std::string FindCjkFont(bool bold) {
  const char* file = bold ? "NotoSansCJK-Bold.ttc" : "NotoSansCJK-Regular.ttc";
  for (const char* folder : {"/usr/share/fonts/opentype/noto/", "/usr/share/fonts/noto-cjk/",
                             "/usr/share/fonts/google-noto-cjk/"}) {
    std::error_code ignored;
    if (std::filesystem::exists(std::string(folder) + file, ignored)) {
      return std::string(folder) + file;
    }
  }
  return {};
}

LoadedFonts LoadFonts() {
  ImGui::GetStyle().FontSizeBase = ui::kTextSize;
  LoadedFonts loaded;
  loaded.fonts.text = AddEmbedded(EmbeddedTextFont(), kText);
  MergeSymbols();
  loaded.has_cjk = MergeCjk(false, kRobotoLine);
  loaded.fonts.bold = AddEmbedded(EmbeddedBoldFont(), kBold);
  MergeSymbols();
  MergeCjk(true, kRobotoLine);
  loaded.fonts.mono = AddEmbedded(EmbeddedMonoFont(), kMono);
  MergeCjk(false, kJetBrainsMonoLine);
  return loaded;
}

const FontFace& FaceOf(const ImFont& font) {
  const std::string_view name = font.Sources.empty() ? "" : font.Sources[0]->Name;
  if (name.starts_with(kMono.family)) return kMono;
  return name.ends_with(" Bold") ? kBold : kText;
}

Gui::Gui() : context_(ImGui::CreateContext()) {
  ImGuiIO& io = ImGui::GetIO();
  io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
  io.ConfigDockingWithShift = false;
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  io.IniFilename = nullptr;  // ui/shell/shell.cc names the file, if any
  io.LogFilename = nullptr;
  fonts_ = LoadFonts();
}

Gui::~Gui() { ImGui::DestroyContext(context_); }

void NewFrame() {
  ImVector<ImGuiInputEvent>& queue = ImGui::GetCurrentContext()->InputEventsQueue;
  const ImGuiInputEvent* end = EndOfFrameInput(queue);
  const std::vector<ImGuiInputEvent> later(end, static_cast<const ImGuiInputEvent*>(queue.end()));
  queue.resize(static_cast<int>(end - queue.begin()));
  ImGui::NewFrame();
  for (const ImGuiInputEvent& event : later) queue.push_back(event);
}

bool HasInput() {
  const ImVector<ImGuiInputEvent>& queue = ImGui::GetCurrentContext()->InputEventsQueue;
  return !std::all_of(queue.begin(), queue.end(), IsModifier);
}

uint64_t HashOf(const ImDrawData& data) {
  Hash hash;
  hash.AddValue(data.DisplaySize);
  for (const ImDrawList* list : data.CmdLists) {
    hash.Add(list->VtxBuffer.Data, static_cast<size_t>(list->VtxBuffer.size_in_bytes()));
    hash.Add(list->IdxBuffer.Data, static_cast<size_t>(list->IdxBuffer.size_in_bytes()));
    for (const ImDrawCmd& command : list->CmdBuffer) {
      hash.AddValue(command.ClipRect);
      hash.AddValue(command.ElemCount);
    }
  }
  return hash.value();
}

void ApplyStyle(const ui::Theme& theme, float scale) {
  ImGuiStyle& style = ImGui::GetStyle();
  style = ImGuiStyle();
  style.FontSizeBase = ui::kTextSize;
  ApplySizes(&style);
  style.ScaleAllSizes(scale);
  style.FontScaleMain = scale;
  ImVec4* colors = style.Colors;
  const ImVec4 clear(0, 0, 0, 0);
  colors[ImGuiCol_Text] = ToVec4(theme.ink.text);
  colors[ImGuiCol_TextDisabled] = ToVec4(theme.ink.dim);  // hints in fields
  colors[ImGuiCol_WindowBg] = ToVec4(theme.surface.panel);
  colors[ImGuiCol_ChildBg] = clear;
  colors[ImGuiCol_PopupBg] = ToVec4(theme.surface.raised);
  // Dear ImGui paints the gaps between docked panels with the border's colour; what has a border
  // pushes its own.
  colors[ImGuiCol_Border] = ToVec4(theme.surface.window);
  colors[ImGuiCol_FrameBg] = ToVec4(theme.surface.button);
  colors[ImGuiCol_FrameBgHovered] = ToVec4(theme.surface.hovered);
  colors[ImGuiCol_FrameBgActive] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_ScrollbarBg] = clear;
  colors[ImGuiCol_ScrollbarGrab] = ToVec4(theme.surface.line);
  colors[ImGuiCol_ScrollbarGrabHovered] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_ScrollbarGrabActive] = ToVec4(theme.ink.faint);
  colors[ImGuiCol_CheckMark] = ToVec4(theme.ink.text);
  colors[ImGuiCol_Button] = ToVec4(theme.surface.button);
  colors[ImGuiCol_ButtonHovered] = ToVec4(theme.surface.hovered);
  colors[ImGuiCol_ButtonActive] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_Header] = ToVec4(theme.surface.button);
  colors[ImGuiCol_HeaderHovered] = ToVec4(theme.surface.hovered);
  colors[ImGuiCol_HeaderActive] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_Separator] = ToVec4(theme.surface.window);
  colors[ImGuiCol_SeparatorHovered] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_SeparatorActive] = ToVec4(theme.state.accent);
  colors[ImGuiCol_ResizeGrip] = clear;
  colors[ImGuiCol_ResizeGripHovered] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_ResizeGripActive] = ToVec4(theme.state.accent);
  colors[ImGuiCol_DockingPreview] = ToVec4(ui::WithAlpha(theme.state.accent, 0.4f));
  colors[ImGuiCol_DockingEmptyBg] = ToVec4(theme.surface.window);
  colors[ImGuiCol_TextSelectedBg] = ToVec4(ui::WithAlpha(theme.state.accent, 0.35f));
  colors[ImGuiCol_TableHeaderBg] = colors[ImGuiCol_TableRowBgAlt] = ToVec4(theme.surface.raised);
  colors[ImGuiCol_TableBorderStrong] = colors[ImGuiCol_TableBorderLight] =
      ToVec4(theme.surface.line);
  colors[ImGuiCol_TableRowBg] = ToVec4(theme.surface.panel);
  colors[ImGuiCol_NavCursor] = ToVec4(theme.state.accent);
  colors[ImGuiCol_InputTextCursor] = ToVec4(theme.ink.text);
  colors[ImGuiCol_ModalWindowDimBg] = ToVec4(ui::WithAlpha(theme.surface.window, 0.6f));
  ApplyTabColors(theme, colors);
}

}  // namespace shardscope::shell
