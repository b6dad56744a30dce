#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lesson/run_folders.h"
#include "trace/base/assets.h"
#include "ui/blocks.h"
#include "ui/link.h"
#include "ui/panel_ids.h"
#include "ui/shell/settings.h"
#include "ui/shell/shell_dispatch.h"
#include "ui/text.h"
#include "ui/timeline/link_place.h"
#include "ui/timeline/neighbour.h"

namespace shardscope::shell {
namespace {

constexpr size_t kMostStatements = 50;  // that are remembered

}  // namespace

void Dispatcher::operator()(const ui::CopyLink&) const {
  if (shell.context_.snapshot == nullptr) {
    shell.Notify(Tr(shell.context_.language, ui::Text::kLinkNothingToCopy), true);
    return;
  }
  CopyText(PrintLink(timeline::LinkOfView(shell.context_)));
}

void Dispatcher::operator()(const ui::AddBookmark&) const {
  if (shell.context_.snapshot == nullptr) {
    shell.Notify(Tr(shell.context_.language, ui::Text::kBookmarkNoRun), true);
    return;
  }
  if (shell.session_->bookmarks() == nullptr) {  // of a preview, which goes
    shell.Notify(Tr(shell.context_.language, ui::Text::kBookmarkPreview), true);
    return;
  }
  shell.context_.bookmarks.form = bookmarks::Bookmark{
      .id = {}, .link = PrintLink(timeline::LinkOfMark(shell.context_)), .note = {}, .made = {}};
  shell.context_.overlay = ui::Overlay::kBookmark;
}

const bookmarks::Bookmark* Dispatcher::FindBookmark(const std::string& id) const {
  const auto& list = shell.context_.bookmarks.list;
  if (list == nullptr) return nullptr;
  const auto found = std::ranges::find(list->all, id, &bookmarks::Bookmark::id);
  return found == list->all.end() ? nullptr : &*found;
}

void Dispatcher::Change(bookmarks::Change change) const {
  BookmarksWorker* worker = shell.session_ ? shell.session_->bookmarks() : nullptr;
  if (worker != nullptr) worker->Apply(std::move(change));
}

void Dispatcher::operator()(const ui::EditBookmark& command) const {
  const bookmarks::Bookmark* bookmark = FindBookmark(command.id);
  if (bookmark == nullptr) return;
  shell.context_.bookmarks.form = *bookmark;
  shell.context_.overlay = ui::Overlay::kBookmark;
}

void Dispatcher::operator()(const ui::KeepBookmark& command) const {
  const auto form = std::exchange(shell.context_.bookmarks.form, std::nullopt);
  shell.context_.overlay = ui::Overlay::kNone;
  if (!form) return;
  bookmarks::Bookmark kept = form->id.empty() ? bookmarks::NewBookmark(form->link, {}) : *form;
  kept.note = command.note;
  Change({std::move(kept)});
}

void Dispatcher::operator()(const ui::RemoveBookmark& command) const {
  if (const bookmarks::Bookmark* bookmark = FindBookmark(command.id)) Change({*bookmark, true});
}

void Dispatcher::operator()(const ui::CopyBookmark& command) const {
  if (const bookmarks::Bookmark* bookmark = FindBookmark(command.id)) CopyText(bookmark->link);
}

void Dispatcher::CopyText(const std::string& place) const {
  const std::string link = shell.context_.path + "#" + place;
  ImGui::SetClipboardText(link.c_str());
  shell.Notify(TrFormat(shell.context_.language, ui::Text::kLinkCopied, link), false);
}

void Dispatcher::operator()(const ui::AskBlocks& command) const {
  ui::BlocksState& blocks = shell.context_.blocks;
  const std::optional<query::BlocksQuery> shown = ui::WantedBlocks(shell.context_);
  // What it was compared with was chosen in the rank that was shown.
  const bool is_other_rank = command.rank && shown && shown->rank != *command.rank;
  const bool is_earlier = blocks.since_ns && command.at_ns && *blocks.since_ns > *command.at_ns;
  if (is_earlier || (command.at_ns && is_other_rank)) blocks.since_ns.reset();
  if (command.rank) blocks.rank = command.rank;
  blocks.at_ns = command.at_ns;
  blocks.shows_choices = false;
  (*this)(ui::FocusPanel{ui::panel_ids::kBlocks});
  shell.wants_.frame = true;  // that has them read
}

void Dispatcher::operator()(const ui::CompareBlocks& command) const {
  ui::Context& context = shell.context_;
  auto between = ui::BlocksBetween(context, command.since_ns, command.rank);
  if (!between) {
    const int32_t shown = ui::WantedBlocks(context)->rank;
    return shell.Notify(
        TrFormat(context.language, ui::Text::kBlocksOtherRank, shown, *command.rank), true);
  }
  context.blocks = *std::move(between);
  (*this)(ui::FocusPanel{ui::panel_ids::kBlocks});
  shell.wants_.frame = true;
}

void Dispatcher::operator()(const ui::BlocksHere& command) const {
  const ui::Context& context = shell.context_;
  if (!context.snapshot) return;
  ui::AskBlocks here;
  if (context.hover_ns >= 0) {
    here.at_ns = context.hover_ns;
    if (context.hover_rank >= 0) here.rank = context.hover_rank;
  } else if (context.lens.is_on) {
    here.at_ns = context.lens.now_ns;
  } else if (const auto selected = timeline::SelectedHit(context)) {
    here = {selected->rank, selected->start_ns};
  }
  if (command.since) {
    (*this)(ui::CompareBlocks{here.at_ns, here.rank});
  } else {
    (*this)(here);
  }
}

void Dispatcher::operator()(const ui::ShowMemoryChoices& command) const {
  shell.context_.blocks.shows_choices = command.show;
  (*this)(ui::FocusPanel{ui::panel_ids::kBlocks});
  shell.wants_.frame = true;  // that has them found
}

void Dispatcher::operator()(const ui::CheckSchedule& command) const {
  shell.context_.schedule.asked = command.text;
  shell.wants_.frame = true;  // that has it read
}

void Dispatcher::operator()(const ui::SetScope& command) const {
  shell.context_.focus.scope = command.scope;
}

void Dispatcher::operator()(const ui::OpenSql&) const {
  shell.context_.sql.is_open = true;
  if (shell.session_ == nullptr) return;
  if (shell.options_.headless) {
    shell.session_->ListTables(&shell.context_.sql);
  } else {
    shell.session_->sql();
  }
}

void Dispatcher::operator()(const ui::RunSql& command) const {
  SqlWorker* worker = shell.session_ ? shell.session_->sql() : nullptr;
  if (worker == nullptr) return;
  std::vector<std::string>& history = shell.context_.sql.history;
  std::erase(history, command.query);
  history.push_back(command.query);
  if (history.size() > kMostStatements) history.erase(history.begin());
  KeepStatements(history, &shell.options_.settings);
  SaveSettings(shell.options_.settings, shell.options_.settings_folder);
  worker->Start(command.query);
}

void Dispatcher::operator()(const ui::CancelSql&) const {
  if (SqlWorker* worker = shell.session_ ? shell.session_->sql() : nullptr) worker->Cancel();
}

void Dispatcher::operator()(const ui::CompareWith& command) const {
  ui::CompareState& compare = shell.context_.compare;
  compare.asked =
      ui::ComparedWith{command.path, command.steps_a, command.steps_b, ++compare.questions};
  compare.share = 0;
  shell.focus_ = ui::panel_ids::kCompare;
  shell.wants_.frame = true;  // that has them compared
}

void Dispatcher::operator()(const ui::CloseCompare&) const {
  shell.context_.compare.Forget();
  shell.wants_.frame = true;  // that stops it
}

void Dispatcher::operator()(const ui::OpenLessons&) const {
  ui::LessonsState& lessons = shell.context_.lessons;
  lessons.is_open = true;
  if (shell.lesson_worker_ != nullptr) return;
  const std::vector<std::string> paths = FindAssets(shell.ProgramsFolder(), "lessons");
  if (!shell.options_.headless) {
    shell.lesson_worker_ = std::make_unique<LessonWorker>(paths, shell.options_.wake);
    return;
  }
  Result<std::vector<lesson::Lesson>> all = ReadFilledLessons(paths);
  if (!all.ok()) {
    lessons.error = all.message();
    return;
  }
  lessons.all = std::make_shared<const std::vector<lesson::Lesson>>(std::move(all).value());
}

void Dispatcher::operator()(const ui::ShowLesson& command) const {
  ui::LessonsState& lessons = shell.context_.lessons;
  lessons.current = command.id;
  lessons.run = lesson::NewestRun(command.id).value_or("");
  lessons.task = lessons.quiz = {};
  if (shell.lesson_worker_ != nullptr) shell.lesson_worker_->Forget();
}

void Dispatcher::operator()(const ui::StartLesson&) const {
  ui::LessonsState& lessons = shell.context_.lessons;
  const lesson::Lesson* lesson = ui::CurrentLesson(lessons);
  if (lesson == nullptr) return;
  lessons.run = lesson::NewRunFolder(lesson->id);
  lessons.task = {};
  if (shell.lesson_worker_ != nullptr) shell.lesson_worker_->Forget();
  (*this)(ui::StartRun{lessons.run, lesson->run, ""});
}

void Dispatcher::operator()(const ui::AnswerLesson& command) const {
  ui::LessonsState& lessons = shell.context_.lessons;
  if (shell.lesson_worker_ == nullptr || ui::CurrentLesson(lessons) == nullptr) return;
  const lesson::Exercise part = command.quiz ? lesson::Exercise::kQuiz : lesson::Exercise::kTask;
  shell.lesson_worker_->Judge(lessons.current, {part, lessons.run, command.answer});
  shell.wants_.frame = true;  // that says so
}

}  // namespace shardscope::shell
