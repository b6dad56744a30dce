#include "ui/shell/settings.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "trace/base/input_file.h"
#include "trace/base/output_file.h"

namespace shardscope::shell {
namespace {

constexpr size_t kMaxRecent = 20;
constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMostKeptStatements = 20;
constexpr size_t kLongestStatement = 8'192;  // all of them have room in the file
constexpr size_t kMostPictureBars = 64;
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

// Numbers that are none are 0: they are drawn.
std::vector<ui::PictureBar> PictureOf(const toml::node& node) {
  std::vector<ui::PictureBar> picture;
  const toml::array* bars = node.as_array();
  for (size_t at = 0; bars != nullptr && at < bars->size() && at < kMostPictureBars; ++at) {
    const toml::array* parts = bars->get(at)->as_array();
    if (parts == nullptr) continue;
    const auto part = [&](size_t index) {
      const toml::node* value = parts->get(index);
      return value == nullptr
                 ? 0
                 : static_cast<double>(std::max<int64_t>(value->value_or<int64_t>(0), 0));
    };
    picture.push_back({part(0), part(1), part(2), part(3)});
  }
  return picture;
}

toml::table TableOf(const Settings& settings) {
  toml::table table;
  for (const std::string& path : settings.recent) {
    const auto found = settings.pictures.find(path);
    if (found == settings.pictures.end()) continue;
    toml::array bars;
    for (const ui::PictureBar& bar : found->second) {
      bars.push_back(toml::array{std::llround(bar.compute_ns), std::llround(bar.exposed_ns),
                                 std::llround(bar.idle_ns), std::llround(bar.exposed_copy_ns)});
    }
    table.insert_or_assign(path, std::move(bars));
  }
  return table;
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
    if (const toml::table* pictures = table["pictures"].as_table()) {
      for (const auto& [path, bars] : *pictures) {
        settings.pictures[std::string(path.str())] = PictureOf(bars);
      }
    }
    settings.lessons_done = TextsOf(table, "lessons_done");
    settings.statements = TextsOf(table, "statements");
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
                    {"pictures", TableOf(settings)},
                    {"lessons_done", ArrayOf(settings.lessons_done)},
                    {"statements", ArrayOf(settings.statements)}};
  if (settings.scale != 0) table.insert("scale", settings.scale);
  std::ostringstream text;
  text << table << "\n";
  // Where they cannot be kept, the app is as good without.
  static_cast<void>(WriteFile(folder + "/" + kFile, text.str()));
}

void KeepStatements(const std::vector<std::string>& history, Settings* settings) {
  settings->statements = history;
  std::erase_if(settings->statements,
                [](const std::string& one) { return one.size() > kLongestStatement; });
  const size_t num = settings->statements.size();
  if (num <= kMostKeptStatements) return;
  settings->statements.erase(
      settings->statements.begin(),
      settings->statements.begin() + static_cast<std::ptrdiff_t>(num - kMostKeptStatements));
}

void AddRecent(const std::string& path, Settings* settings) {
  auto& recent = settings->recent;
  recent.erase(std::remove(recent.begin(), recent.end(), path), recent.end());
  recent.insert(recent.begin(), path);
  if (recent.size() > kMaxRecent) recent.resize(kMaxRecent);
}

}  // namespace shardscope::shell
