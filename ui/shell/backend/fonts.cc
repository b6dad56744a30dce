#include "ui/shell/backend/fonts.h"

#include <imgui.h>

#include <filesystem>

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

ImFont* AddEmbedded(std::span<const unsigned char> data, ImFontConfig config) {
  config.FontDataOwnedByAtlas = false;
  // The atlas only reads data that it does not own; its interface lacks the const.
  return ImGui::GetIO().Fonts->AddFontFromMemoryTTF(const_cast<unsigned char*>(data.data()),
                                                    static_cast<int>(data.size()), 0, &config);
}

// Arrows and the sign for infinity are in the mono face, not in Roboto.
void MergeSymbols() {
  ImFontConfig config;
  config.MergeMode = true;
  config.ExtraSizeScale = kJetBrainsMonoLine / kRobotoLine;
  AddEmbedded(EmbeddedMonoFont(), config);
}

bool MergeCjk(bool bold, float line) {
  const std::string path = FindCjkFont(bold);
  if (path.empty()) return false;
  ImFontConfig config;
  config.MergeMode = true;
  config.ExtraSizeScale = kNotoSansCjkLine / line;
  config.FontNo = kSimplifiedChineseFace;
  return ImGui::GetIO().Fonts->AddFontFromFileTTF(path.c_str(), 0, &config) != nullptr;
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
  ImFontConfig config;
  loaded.fonts.text = AddEmbedded(EmbeddedTextFont(), config);
  MergeSymbols();
  loaded.has_cjk = MergeCjk(false, kRobotoLine);
  loaded.fonts.bold = AddEmbedded(EmbeddedBoldFont(), config);
  MergeSymbols();
  MergeCjk(true, kRobotoLine);
  loaded.fonts.mono = AddEmbedded(EmbeddedMonoFont(), config);
  MergeCjk(false, kJetBrainsMonoLine);
  return loaded;
}

}  // namespace shardscope::shell
