// Settings: what the app remembers between sessions, in $XDG_CONFIG_HOME/shardscope/settings.toml.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ui/commands.h"
#include "ui/context.h"

namespace shardscope::shell {

struct Settings {
  ui::Language language = ui::Language::kEnglish;
  ui::ThemeName theme = ui::ThemeName::kDark;
  float scale = 0;                  // 0: not chosen, what suits the screen
  bool legend = true;               // of the timeline is shown
  std::vector<std::string> recent;  // newest first
  // What these runs looked like as they were last open, by path.
  std::map<std::string, std::vector<ui::PictureBar>> pictures;
  std::vector<std::string> lessons_done;  // as ui::LessonsState::done
  std::vector<std::string> statements;    // of SQL, as ui::SqlConsole::history
};

inline constexpr float kMinimumScale = 0.7f;
inline constexpr float kMaximumScale = 3;

// $XDG_CONFIG_HOME/shardscope, or ~/.config/shardscope; empty if neither variable is set.
std::string SettingsFolder();

// A missing or broken file gives the defaults: settings are never worth an error.
Settings LoadSettings(const std::string& folder);
void SaveSettings(const Settings& settings, const std::string& folder);

// Keeps the newest of those that were run, but none that is very long.
void KeepStatements(const std::vector<std::string>& history, Settings* settings);

// Puts `path` first, once, and keeps the list short.
void AddRecent(const std::string& path, Settings* settings);

}  // namespace shardscope::shell
