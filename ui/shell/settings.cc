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
    if (const toml::array* recent = table["recent"].as_array()) {
      for (const toml::node& node : *recent) {
        if (const auto path = node.value<std::string>()) settings.recent.push_back(*path);
      }
    }
  } catch (const toml::parse_error&) {
    return Settings();
  }
  return settings;
}

void SaveSettings(const Settings& settings, const std::string& folder) {
  if (folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  toml::array recent;
  for (const std::string& path : settings.recent) recent.push_back(path);
  toml::table table{{"language", settings.language == ui::Language::kChinese ? "zh" : "en"},
                    {"theme", settings.theme == ui::ThemeName::kLight ? "light" : "dark"},
                    {"legend", settings.legend},
                    {"recent", recent}};
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
