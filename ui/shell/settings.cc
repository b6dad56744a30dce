#include "ui/shell/settings.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "trace/base/input_file.h"
#include "trace/base/output_file.h"

namespace shardscope::shell {
namespace {

constexpr size_t kMaxRecent = 20;
constexpr size_t kMaxBytes = 1 << 20;
constexpr const char* kFile = "settings.toml";

std::vector<std::string> TextsOf(const toml::table& table, const char* key) {
  std::vector<std::string> texts;
  if (const toml::array* list = table[key].as_array()) {
    for (const toml::node& node : *list) {
      if (const auto text = node.value<std::string>()) texts.push_back(*text);
    }
  }
  return texts;
}

toml::array ArrayOf(const std::vector<std::string>& texts) {
  toml::array list;
  for (const std::string& text : texts) list.push_back(text);
  return list;
}

}  // namespace

std::string SettingsFolder() {
  if (const char* xdg = std::getenv("XDG_CONFIG_HOME"); xdg != nullptr && *xdg != '\0') {
    return std::string(xdg) + "/shardscope";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.config/shardscope";
  }
  return {};
}

Settings LoadSettings(const std::string& folder) {
  Settings settings;
  if (folder.empty()) return settings;
  try {
    const Result<std::string> text = ReadFile(folder + "/" + kFile, kMaxBytes);
    if (!text.ok()) return settings;
    const toml::table table = toml::parse(*text);
    if (table["language"].value_or(std::string()) == "zh") {
      settings.language = ui::Language::kChinese;
    }
    if (table["theme"].value_or(std::string()) == "light") settings.theme = ui::ThemeName::kLight;
    if (const auto scale = table["scale"].value<float>()) {
      settings.scale = std::clamp(*scale, kMinimumScale, kMaximumScale);
    }
    settings.legend = table["legend"].value_or(true);
    settings.recent = TextsOf(table, "recent");
    settings.lessons_done = TextsOf(table, "lessons_done");
  } catch (const toml::parse_error&) {
    return Settings();
  }
  return settings;
}

void SaveSettings(const Settings& settings, const std::string& folder) {
  if (folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  toml::table table{{"language", settings.language == ui::Language::kChinese ? "zh" : "en"},
                    {"theme", settings.theme == ui::ThemeName::kLight ? "light" : "dark"},
                    {"legend", settings.legend},
                    {"recent", ArrayOf(settings.recent)},
                    {"lessons_done", ArrayOf(settings.lessons_done)}};
  if (settings.scale != 0) table.insert("scale", settings.scale);
  std::ostringstream text;
  text << table << "\n";
  // Where they cannot be kept, the app is as good without.
  static_cast<void>(WriteFile(folder + "/" + kFile, text.str()));
}

void AddRecent(const std::string& path, Settings* settings) {
  auto& recent = settings->recent;
  recent.erase(std::remove(recent.begin(), recent.end(), path), recent.end());
  recent.insert(recent.begin(), path);
  if (recent.size() > kMaxRecent) recent.resize(kMaxRecent);
}

}  // namespace shardscope::shell
