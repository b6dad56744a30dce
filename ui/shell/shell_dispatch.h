// Dispatcher: what each command does to the shell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "trace/analysis/find/search.h"
#include "trace/base/interval.h"
#include "trace/bookmarks/bookmarks.h"
#include "ui/commands.h"
#include "ui/link.h"
#include "ui/shell/shell.h"
#include "ui/timeline/link_place.h"

namespace shardscope::shell {

// One overload a command; a friend of the shell.
struct Dispatcher {
  Shell& shell;

  // Of the app itself: look, panels in front, files that it saves (shell_dispatch.cc).
  void operator()(const ui::SetLanguage& command) const;
  void operator()(const ui::SetTheme& command) const;
  void operator()(const ui::SetScale& command) const;
  void operator()(const ui::ResetLayout&) const;
  void operator()(const ui::ShowOverlay& command) const;
  void operator()(const ui::FocusPanel& command) const;
  void operator()(const ui::DismissNotice&) const;
  void operator()(const ui::SaveTable& command) const;
  void operator()(const ui::SavePicture& command) const;
  void operator()(const ui::DismissProblems&) const;
  void operator()(const ui::Quit&) const;

  // Of the open run and its training (shell_dispatch_run.cc).
  void operator()(const ui::OpenRun& command) const;
  void operator()(const ui::LoadAllSteps&) const;
  void operator()(const ui::CloseRun&) const;
  void operator()(const ui::CancelImport&) const;
  void operator()(const ui::StartRun& command) const;
  void operator()(const ui::RunSchedule& command) const;
  void operator()(const ui::ShowKey& command) const;
  void operator()(const ui::SetKnob& command) const;
  void operator()(const ui::UndoKnob&) const;
  void operator()(const ui::RevertPending&) const;
  void operator()(const ui::DoAction& command) const;

  // Of what the timeline shows: time, lanes, what is selected, search, time lens
  // (shell_dispatch_view.cc).
  void operator()(const ui::GoToLink& command) const;
  void operator()(const ui::SetView& command) const;
  void operator()(const ui::UndoView&) const;
  void operator()(const ui::RedoView&) const;
  void operator()(const ui::ShowStep& command) const;
  void operator()(const ui::ShowRank& command) const;
  void operator()(const ui::PlaceRanks& command) const;
  void operator()(const ui::OrderRanks& command) const;
  void operator()(const ui::SetFollow& command) const;
  void operator()(const ui::HoldView&) const;
  void operator()(const ui::SelectArea& command) const;
  void operator()(const ui::MarkArea&) const;
  void operator()(const ui::SelectOp& command) const;
  void operator()(const ui::ShowOp& command) const;
  void operator()(const ui::SelectSpan& command) const;
  void operator()(const ui::FitSelection&) const;
  void operator()(const ui::JumpToOp&) const;
  void operator()(const ui::SetHover& command) const;
  void operator()(const ui::ToggleRank& command) const;
  void operator()(const ui::FoldRanks& command) const;
  void operator()(const ui::ShowSearch& command) const;
  void operator()(const ui::SearchFor& command) const;
  void operator()(const ui::SelectHit& command) const;
  void operator()(const ui::SelectNeighbour& command) const;
  void operator()(const ui::OpenLens& command) const;
  void operator()(const ui::CloseLens&) const;
  void operator()(const ui::PlayLens& command) const;
  void operator()(const ui::SetLensSlowness& command) const;
  void operator()(const ui::SeekLens& command) const;
  void operator()(const ui::StepLens& command) const;
  void operator()(const ui::ShowPlan& command) const;
  void operator()(const ui::ShowCriticalPath& command) const;
  void operator()(const ui::ShowLegend& command) const;
  void operator()(const ui::ShowBeside& command) const;

  // Of single panels: links and bookmarks, blocks, SQL, lessons, comparison
  // (shell_dispatch_panels.cc).
  void operator()(const ui::CopyLink&) const;
  void operator()(const ui::AddBookmark&) const;
  void operator()(const ui::EditBookmark& command) const;
  void operator()(const ui::KeepBookmark& command) const;
  void operator()(const ui::RemoveBookmark& command) const;
  void operator()(const ui::CopyBookmark& command) const;
  void operator()(const ui::AskBlocks& command) const;
  void operator()(const ui::CompareBlocks& command) const;
  void operator()(const ui::BlocksHere& command) const;
  void operator()(const ui::ShowMemoryChoices& command) const;
  void operator()(const ui::CheckSchedule& command) const;
  void operator()(const ui::SetScope& command) const;
  void operator()(const ui::OpenSql&) const;
  void operator()(const ui::RunSql& command) const;
  void operator()(const ui::CancelSql&) const;
  void operator()(const ui::CompareWith& command) const;
  void operator()(const ui::CloseCompare&) const;
  void operator()(const ui::OpenLessons&) const;
  void operator()(const ui::ShowLesson& command) const;
  void operator()(const ui::StartLesson&) const;
  void operator()(const ui::AnswerLesson& command) const;

  // What they share.
  // Titles of the panels that have a table.
  std::string TitlesOfTables() const;
  void Remember() const;
  void BringToSight(int32_t rank) const;
  // Nothing else is selected then.
  void Select(ui::Selection selection) const;
  void Fit(int64_t start_ns, int64_t end_ns) const;
  // nullopt: there is none such.
  std::optional<analysis::SearchHit> HitOfOp(query::OpRunId op_run, int32_t rank) const;
  // Its lane is scrolled to, and Details tells of it.
  void SelectAndReveal(const analysis::SearchHit& hit) const;
  // Where it is in front it does not take the keyboard from the search.
  void ShowTimeline() const;
  // Selects it and brings it into view.
  void Show(const analysis::SearchHit& hit) const;
  void Show(const ui::Link& link, const timeline::LinkPlace& place) const;
  // All of that time in view, wide enough to be seen; a view that has it so stays.
  void Reveal(int64_t start_ns, int64_t end_ns) const;
  // The finished step that is asked for, else the newest; nullopt: there is none.
  std::optional<std::pair<int32_t, Interval>> StepToPlay(int32_t step) const;
  const bookmarks::Bookmark* FindBookmark(const std::string& id) const;
  void Change(bookmarks::Change change) const;
  // The link to a place of the open run.
  void CopyText(const std::string& place) const;
};

}  // namespace shardscope::shell
