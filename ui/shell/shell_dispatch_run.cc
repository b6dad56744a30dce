#include <filesystem>
#include <string>
#include <utility>

#include "engine/config/config.h"
#include "ui/panel_ids.h"
#include "ui/shell/shell_dispatch.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::shell {

void Dispatcher::operator()(const ui::OpenRun& command) const {
  // The error is shown there, wherever the path came from (a drop, for one).
  if (!shell.OpenLinked(command.path).ok()) shell.focus_ = ui::panel_ids::kRuns;
}

void Dispatcher::operator()(const ui::LoadAllSteps&) const {
  const query::SnapshotPtr& snapshot = shell.context_.snapshot;
  if (snapshot == nullptr) return;
  const auto& importing = shell.context_.importing;
  const bool goes_on =
      snapshot->loading || query::MayGrow(snapshot->state) || (importing && importing->previews);
  if (snapshot->part && goes_on) {
    shell.Notify(
        TrFormat(shell.context_.language, ui::Text::kStepNotKept, snapshot->part->first_step),
        true);
  } else if (snapshot->part) {
    shell.OpenAll();
  } else if (!goes_on) {
    shell.Notify(Tr(shell.context_.language, ui::Text::kAllStepsLoaded), false);
  }
}

void Dispatcher::operator()(const ui::CloseRun&) const {
  shell.EndImport();
  shell.CloseSession();
  shell.link_.reset();
  shell.context_.compare.Forget();
  shell.focus_ = ui::panel_ids::kRuns;
}

void Dispatcher::operator()(const ui::CancelImport&) const { shell.EndImport(); }

void Dispatcher::operator()(const ui::StartRun& command) const {
  shell.context_.start_error.clear();
  ui::StartRun absolute = command;
  std::error_code ignored;
  absolute.folder = std::filesystem::absolute(command.folder, ignored).string();
  auto started = TrainerProcess::Launch(shell.context_.places.trainer, absolute);
  if (!started.ok()) {
    shell.context_.start_error = started.message();
    shell.Say(started.message());
    return;
  }
  shell.starting_ = std::move(started).value();
  shell.context_.starting = absolute.folder;
}

void Dispatcher::operator()(const ui::RunSchedule& command) const {
  constexpr const char* kKey = "schedule.file";
  if (command.text == nullptr) return (*this)(ui::SetKnob{kKey, ""});
  // The trainer may have been started in another folder.
  const auto set = [this_shell = &shell, folder = shell.session_ ? shell.session_->folder()
                                                                 : ""](const std::string& path) {
    const auto& session = this_shell->session_;
    if (session == nullptr || session->folder() != folder || !session->control()) return;
    session->control()->SetKnob(kKey, std::filesystem::absolute(path).string());
  };
  shell.SaveFile({.name = "schedule",
                  .extension = ".txt",
                  .make = [text = command.text]() -> Result<std::string> { return *text; },
                  .then = set});
}

void Dispatcher::operator()(const ui::ShowKey& command) const {
  const config::KeyInfo* key = config::FindKey(command.key);
  if (key == nullptr && !command.key.empty()) return;
  const bool in_form = command.in_form || key == nullptr || !key->live || !CanSteer(shell.context_);
  shell.context_.shown_key = {shell.context_.shown_key.times + 1, command.key, in_form};
  shell.focus_ = in_form ? ui::panel_ids::kRuns : ui::panel_ids::kRunControl;
}

void Dispatcher::operator()(const ui::SetKnob& command) const {
  shell.context_.shown_key.key.clear();
  if (shell.session_ && shell.session_->control()) {
    shell.session_->control()->SetKnob(command.key, command.value);
  }
}

void Dispatcher::operator()(const ui::UndoKnob&) const {
  if (!shell.session_ || !shell.session_->control()) return;
  const ui::Language language = shell.context_.language;
  const auto turned = shell.session_->control()->UndoKnob();
  if (!turned) return shell.Notify(Tr(language, ui::Text::kNoKnobToUndo), true);
  shell.context_.shown_key.key.clear();
  shell.Notify(UndoText(language, turned->key, turned->to, turned->from), false);
}

void Dispatcher::operator()(const ui::RevertPending&) const {
  if (shell.session_ && shell.session_->control()) shell.session_->control()->RevertPending();
}

void Dispatcher::operator()(const ui::DoAction& command) const {
  if (shell.session_ && shell.session_->control()) shell.session_->control()->Do(command.action);
}

}  // namespace shardscope::shell
