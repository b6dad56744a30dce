#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trace/base/text.h"
#include "ui/shell/shell_dispatch.h"
#include "ui/table.h"
#include "ui/text.h"

namespace shardscope::shell {

void Shell::Dispatch(const ui::Command& command) { std::visit(Dispatcher{*this}, command); }

void Dispatcher::operator()(const ui::SetLanguage& command) const {
  shell.context_.language = shell.options_.settings.language = command.language;
  Remember();
}

void Dispatcher::operator()(const ui::SetTheme& command) const {
  shell.context_.theme_name = shell.options_.settings.theme = command.theme;
  Remember();
}

void Dispatcher::operator()(const ui::SetScale& command) const {
  const float scale =
      command.scale == 0 ? 0 : std::clamp(command.scale, kMinimumScale, kMaximumScale);
  shell.options_.settings.scale = scale;
  shell.context_.scale = scale == 0 ? shell.options_.default_scale : scale;
  Remember();
}

void Dispatcher::operator()(const ui::ResetLayout&) const { shell.layout_.is_to_reset = true; }

void Dispatcher::operator()(const ui::ShowOverlay& command) const {
  shell.context_.overlay = command.overlay;
  shell.context_.bookmarks.form.reset();
}

void Dispatcher::operator()(const ui::FocusPanel& command) const {
  shell.focus_ = command.panel;
  ui::TypedInto& typed_into = shell.context_.typed_into;
  if (command.types) typed_into = {command.panel, typed_into.times + 1};
}

void Dispatcher::operator()(const ui::DismissNotice&) const { shell.context_.notice = {}; }

void Dispatcher::operator()(const ui::SaveTable& command) const {
  const std::string panel(command.panel.empty() ? shell.panel_frames_.focused() : command.panel);
  const ui::TableMaker make = shell.TableOf(panel);
  if (make == nullptr) {
    shell.Notify(TrFormat(shell.context_.language, ui::Text::kSaveNoTable, TitlesOfTables()), true);
    return;
  }
  shell.SaveFile({.name = panel, .extension = ".csv", .make = [make]() -> Result<std::string> {
                    return ui::PrintCsv(make());
                  }});
}

std::string Dispatcher::TitlesOfTables() const {
  const ui::Language language = shell.context_.language;
  std::vector<std::string> titles;
  for (const PanelWindow& panel : PanelWindows()) {
    if (panel.has_table) titles.emplace_back(Tr(language, panel.title));
  }
  return Join(titles, language == ui::Language::kChinese ? "、" : ", ");
}

void Dispatcher::operator()(const ui::SavePicture& command) const {
  shell.wants_.picture = command.kind;
}

void Dispatcher::operator()(const ui::DismissProblems&) const {
  shell.context_.dismissed_problems = ui::NumProblems(shell.context_);
}

void Dispatcher::operator()(const ui::Quit&) const { shell.wants_.quit = true; }

void Dispatcher::Remember() const {
  shell.look_changed_ = true;
  SaveSettings(shell.options_.settings, shell.options_.settings_folder);
}

}  // namespace shardscope::shell
