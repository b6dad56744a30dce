#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <variant>

#include "engine/config/config.h"
#include "lesson/run_folders.h"
#include "trace/analysis/moment.h"
#include "trace/analysis/neighbours.h"
#include "trace/base/assets.h"
#include "trace/base/free_memory.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/import/cache.h"
#include "ui/blocks.h"
#include "ui/link.h"
#include "ui/shell/shell.h"
#include "ui/text.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/link_place.h"
#include "ui/timeline/neighbour.h"
#include "ui/timeline/run_index.h"
#include "ui/values.h"

namespace shardscope::shell {
namespace {

// Room on each side of a fitted span, as a share of it.
constexpr double kFitMargin = 0.4;
// A hit of the search is shown in a view of at most so many times its length.
constexpr int64_t kMostOfHit = 100;

// Room on each side of what the lens plays; a view that has it whole stays, unless it is a small
// part of it.
constexpr double kLensMargin = 0.03;
constexpr int64_t kMostOfLens = 3;

constexpr size_t kMostStatements = 50;  // that are remembered

}  // namespace

// One overload a command; a friend of the shell.
struct Dispatcher {
  Shell& shell;

  void operator()(const ui::OpenRun& command) const {
    // The error is shown there, wherever the path came from (a drop, for one).
    if (!shell.OpenLinked(command.path).ok()) shell.focus_ = "runs";
  }
  void operator()(const ui::GoToLink& command) const {
    shell.link_ = {command.link, false};
    shell.wants_.frame = true;
  }
  void operator()(const ui::LoadAllSteps&) const {
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
  void operator()(const ui::CopyLink&) const {
    if (shell.context_.snapshot == nullptr) {
      shell.Notify(Tr(shell.context_.language, ui::Text::kLinkNothingToCopy), true);
      return;
    }
    CopyText(PrintLink(timeline::LinkOfView(shell.context_)));
  }
  void operator()(const ui::AddBookmark&) const {
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
  const bookmarks::Bookmark* FindBookmark(const std::string& id) const {
    const auto& list = shell.context_.bookmarks.list;
    if (list == nullptr) return nullptr;
    const auto found = std::ranges::find(list->all, id, &bookmarks::Bookmark::id);
    return found == list->all.end() ? nullptr : &*found;
  }
  void Change(bookmarks::Change change) const {
    BookmarksWorker* worker = shell.session_ ? shell.session_->bookmarks() : nullptr;
    if (worker != nullptr) worker->Apply(std::move(change));
  }
  void operator()(const ui::EditBookmark& command) const {
    const bookmarks::Bookmark* bookmark = FindBookmark(command.id);
    if (bookmark == nullptr) return;
    shell.context_.bookmarks.form = *bookmark;
    shell.context_.overlay = ui::Overlay::kBookmark;
  }
  void operator()(const ui::KeepBookmark& command) const {
    const auto form = std::exchange(shell.context_.bookmarks.form, std::nullopt);
    shell.context_.overlay = ui::Overlay::kNone;
    if (!form) return;
    bookmarks::Bookmark kept = form->id.empty() ? bookmarks::NewBookmark(form->link, {}) : *form;
    kept.note = command.note;
    Change({std::move(kept)});
  }
  void operator()(const ui::RemoveBookmark& command) const {
    if (const bookmarks::Bookmark* bookmark = FindBookmark(command.id)) Change({*bookmark, true});
  }
  void operator()(const ui::CopyBookmark& command) const {
    if (const bookmarks::Bookmark* bookmark = FindBookmark(command.id)) CopyText(bookmark->link);
  }
  // The link to a place of the open run.
  void CopyText(const std::string& place) const {
    const std::string link = shell.context_.path + "#" + place;
    ImGui::SetClipboardText(link.c_str());
    shell.Notify(TrFormat(shell.context_.language, ui::Text::kLinkCopied, link), false);
  }
  void operator()(const ui::CloseRun&) const {
    shell.EndImport();
    shell.CloseSession();
    shell.link_.reset();
    shell.context_.compare.Forget();
    shell.focus_ = "runs";
  }
  void operator()(const ui::CancelImport&) const { shell.EndImport(); }
  void operator()(const ui::StartRun& command) const {
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
  void operator()(const ui::SetView& command) const {
    ui::SetView change = command;
    if (shell.options_.headless) change.animate = false;
    shell.view_.Set(change, shell.Now());
  }
  void operator()(const ui::UndoView&) const { shell.view_.Undo(shell.Now()); }
  void operator()(const ui::RedoView&) const { shell.view_.Redo(shell.Now()); }
  void operator()(const ui::ShowStep& command) const {
    if (!shell.context_.snapshot) return;
    const ui::View view = InitialView(*shell.context_.snapshot, command.step);
    (*this)(ui::SetView{view.start_ns, view.end_ns});
  }
  void operator()(const ui::ShowRank& command) const {
    (*this)(ui::ShowStep{command.step});
    shell.context_.lanes.folded_ranks.erase(command.rank);
    BringToSight(command.rank);
    shell.context_.lanes.shown_step = command.step;
    shell.focus_ = "timeline";
  }
  void BringToSight(int32_t rank) const {
    ui::Lanes& lanes = shell.context_.lanes;
    lanes.hidden_ranks.erase(rank);
    lanes.shown_rank = rank;
    ++lanes.shown;
  }
  void operator()(const ui::PlaceRanks& command) const {
    ui::Lanes& lanes = shell.context_.lanes;
    for (const int32_t rank : command.ranks) {
      lanes.pinned_ranks.erase(rank);
      lanes.hidden_ranks.erase(rank);
      if (command.place == ui::RankPlace::kPinned) lanes.pinned_ranks.insert(rank);
      if (command.place == ui::RankPlace::kHidden) lanes.hidden_ranks.insert(rank);
    }
  }
  void operator()(const ui::SetFollow& command) const {
    shell.view_.SetFollow(command.follow, shell.Now());
  }
  void operator()(const ui::HoldView&) const { shell.view_.Hold(); }
  // Nothing else is selected then.
  void Select(ui::Selection selection) const {
    shell.context_.selection = std::move(selection);
    if (!shell.context_.area.query) return;
    shell.context_.area = {};
    shell.wants_.frame = true;  // that forgets what was measured
  }
  void operator()(const ui::SelectArea& command) const {
    shell.context_.selection = {};
    shell.context_.area.query = command.area;
    if (command.area) {
      shell.view_.SetFollow(false, shell.Now());  // what is measured stays in view
      shell.panel_frames_.Raise("details");
    }
    shell.wants_.frame = true;  // that has it measured
  }
  void operator()(const ui::AskBlocks& command) const {
    ui::BlocksState& blocks = shell.context_.blocks;
    if (command.rank) blocks.rank = command.rank;
    blocks.at_ns = command.at_ns;
    blocks.shows_choices = false;
    if (blocks.since_ns && command.at_ns && *blocks.since_ns > *command.at_ns) {
      blocks.since_ns.reset();
    }
    (*this)(ui::FocusPanel{"blocks"});
    shell.wants_.frame = true;  // that has them read
  }
  void operator()(const ui::CompareBlocks& command) const {
    shell.context_.blocks = ui::ComparedWith(shell.context_, command.since_ns);
    (*this)(ui::FocusPanel{"blocks"});
    shell.wants_.frame = true;
  }
  void operator()(const ui::ShowMemoryChoices& command) const {
    shell.context_.blocks.shows_choices = command.show;
    (*this)(ui::FocusPanel{"blocks"});
    shell.wants_.frame = true;  // that has them found
  }
  void operator()(const ui::CheckSchedule& command) const {
    shell.context_.schedule.asked = command.text;
    shell.wants_.frame = true;  // that has it read
  }
  void operator()(const ui::RunSchedule& command) const {
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
  void operator()(const ui::SelectOp& command) const {
    ui::Selection& selection = shell.context_.selection;
    if (command.add && !selection.op_run.is_none() && !command.op_run.is_none()) {
      // Again: no longer.
      const ui::SelectedOp op{command.op_run, command.rank};
      if (std::erase(selection.also, op) == 0 && !selection.Contains(op)) {
        selection.also.push_back(op);
      }
      return;
    }
    Select({command.op_run, command.rank, {}});
  }
  void operator()(const ui::ShowOp& command) const {
    const query::SnapshotPtr& snapshot = shell.context_.snapshot;
    const query::RankRows* rows = snapshot == nullptr ? nullptr : snapshot->FindRank(command.rank);
    const uint32_t row =
        rows == nullptr ? timeline::kNoRow : timeline::FindRow(*rows, command.op_run);
    if (row == timeline::kNoRow) return;
    const analysis::SearchHit hit = HitOf(*rows, analysis::HitKind::kOp, row);
    SelectAndReveal(hit);
    Fit(hit.start_ns, hit.end_ns);
    ShowTimeline();
  }
  void operator()(const ui::SelectSpan& command) const {
    Select({query::OpRunId::None(), command.rank, {}, command.span});
  }
  void Fit(int64_t start_ns, int64_t end_ns) const {
    const int64_t room =
        std::llround(static_cast<double>(std::max<int64_t>(end_ns - start_ns, 1)) * kFitMargin);
    (*this)(ui::SetView{start_ns - room, end_ns + room});
  }
  void operator()(const ui::FitSelection&) const {
    const ui::Selection& selection = shell.context_.selection;
    if (!shell.context_.snapshot) return;
    if (const auto& area = shell.context_.area.query) {
      const timeline::Range fit = timeline::FitWithMargin({area->time.start_ns, area->time.end_ns});
      (*this)(ui::SetView{fit.start_ns, fit.end_ns});
      return;
    }
    if (!selection.span.is_none()) {
      const timeline::WorkFacts facts = timeline::WorkFactsOf(
          *shell.context_.snapshot, *shell.context_.index, selection.rank, selection.span);
      if (facts.kind != timeline::WorkFacts::Kind::kNothing) Fit(facts.start_ns(), facts.end_ns());
      return;
    }
    if (selection.op_run.is_none()) return;
    const query::RankRows* rows = shell.context_.snapshot->FindRank(selection.rank);
    if (rows == nullptr) return;
    for (const query::OpRun& run : rows->op_runs) {
      if (run.id != selection.op_run) continue;
      Fit(run.started_ns, run.ended_ns);
      return;
    }
  }
  void operator()(const ui::JumpToOp&) const {
    ui::Selection& selection = shell.context_.selection;
    if (!shell.context_.snapshot || !shell.context_.index) return;
    const query::Snapshot& snapshot = *shell.context_.snapshot;
    const timeline::RunIndex& index = *shell.context_.index;
    if (!selection.span.is_none()) {
      const query::OpRunId op_run =
          timeline::WorkFactsOf(snapshot, index, selection.rank, selection.span).op_run;
      if (!op_run.is_none()) selection = {op_run, selection.rank, {}};
    } else if (!selection.op_run.is_none()) {
      const query::SpanId span =
          timeline::FirstWorkOf(snapshot, index, selection.rank, selection.op_run);
      if (!span.is_none()) selection = {query::OpRunId::None(), selection.rank, {}, span};
    }
  }
  void operator()(const ui::SetHover& command) const {
    const ui::SetHover hover = shell.options_.headless ? ui::SetHover{} : command;
    shell.context_.hover_ns = hover.time_ns;
    shell.context_.hover_rank = hover.rank;
  }
  void operator()(const ui::ToggleRank& command) const {
    auto& folded = shell.context_.lanes.folded_ranks;
    if (folded.erase(command.rank) == 0) folded.insert(command.rank);
  }
  void operator()(const ui::FoldRanks& command) const {
    shell.context_.lanes.folded_ranks.clear();
    if (!command.fold || !shell.context_.snapshot) return;
    for (const query::RankRows& rows : shell.context_.snapshot->ranks) {
      shell.context_.lanes.folded_ranks.insert(rows.rank);
    }
  }
  void operator()(const ui::ShowKey& command) const {
    const config::KeyInfo* key = config::FindKey(command.key);
    if (key == nullptr) return;
    const bool in_form = command.in_form || !key->live || !CanSteer(shell.context_);
    shell.context_.shown_key = {shell.context_.shown_key.times + 1, command.key, in_form};
    shell.focus_ = in_form ? "runs" : "run_control";
  }
  void operator()(const ui::SetKnob& command) const {
    shell.context_.shown_key.key.clear();
    if (shell.session_ && shell.session_->control()) {
      shell.session_->control()->SetKnob(command.key, command.value);
    }
  }
  void operator()(const ui::UndoKnob&) const {
    if (!shell.session_ || !shell.session_->control()) return;
    const ui::Language language = shell.context_.language;
    const auto turned = shell.session_->control()->UndoKnob();
    if (!turned) return shell.Notify(Tr(language, ui::Text::kNoKnobToUndo), true);
    shell.context_.shown_key.key.clear();
    shell.Notify(UndoText(language, turned->key, turned->to, turned->from), false);
  }
  void operator()(const ui::SetScope& command) const { shell.context_.focus.scope = command.scope; }
  void operator()(const ui::RevertPending&) const {
    if (shell.session_ && shell.session_->control()) shell.session_->control()->RevertPending();
  }
  void operator()(const ui::DoAction& command) const {
    if (shell.session_ && shell.session_->control()) shell.session_->control()->Do(command.action);
  }
  void operator()(const ui::SetLanguage& command) const {
    shell.context_.language = shell.options_.settings.language = command.language;
    Remember();
  }
  void operator()(const ui::SetTheme& command) const {
    shell.context_.theme_name = shell.options_.settings.theme = command.theme;
    Remember();
  }
  void operator()(const ui::SetScale& command) const {
    const float scale =
        command.scale == 0 ? 0 : std::clamp(command.scale, kMinimumScale, kMaximumScale);
    shell.options_.settings.scale = scale;
    shell.context_.scale = scale == 0 ? shell.options_.default_scale : scale;
    Remember();
  }
  void operator()(const ui::ResetLayout&) const { shell.layout_.is_to_reset = true; }
  void operator()(const ui::ShowOverlay& command) const {
    shell.context_.overlay = command.overlay;
    shell.context_.bookmarks.form.reset();
  }
  void operator()(const ui::ShowSearch& command) const {
    ui::SearchState& search = shell.context_.search;
    search.open = command.show;
    search.current.reset();
    search.steps = command.steps;
    if (command.show) {
      if (command.steps == 0) ++search.opened;
      shell.context_.overlay = ui::Overlay::kNone;
    }
    shell.wants_.frame = true;  // that looks for it, or forgets what was found
  }
  void operator()(const ui::SearchFor& command) const {
    shell.context_.search.text = command.text;
    shell.context_.search.current.reset();
    shell.context_.search.steps = 0;
    shell.wants_.frame = true;
  }
  void operator()(const ui::SelectHit& command) const {
    ui::SearchState& search = shell.context_.search;
    if (search.found == nullptr || command.hit >= search.found->result.hits.size()) return;
    const analysis::SearchHit& hit = search.found->result.hits[command.hit];
    search.current = hit;
    search.steps = 0;
    Show(hit);
  }
  void operator()(const ui::SelectNeighbour& command) const {
    const auto neighbour = timeline::FindNeighbour(shell.context_, command.which);
    if (neighbour) Show(*neighbour);
  }
  // Its lane is scrolled to, and Details tells of it.
  void SelectAndReveal(const analysis::SearchHit& hit) const {
    Select({hit.op_run, hit.rank, {}, hit.span});  // nothing of a marker
    shell.context_.lanes.folded_ranks.erase(hit.rank);
    shell.context_.lanes.hidden_ranks.erase(hit.rank);
    shell.context_.revealed = {hit, shell.context_.revealed.count + 1};
    shell.panel_frames_.Raise("details");
  }
  // Where it is in front it does not take the keyboard from the search.
  void ShowTimeline() const {
    if (!shell.panel_frames_.IsInFront("timeline")) shell.focus_ = "timeline";
  }
  // Selects it and brings it into view.
  void Show(const analysis::SearchHit& hit) const {
    SelectAndReveal(hit);
    Reveal(hit.start_ns, hit.end_ns);
    ShowTimeline();
  }
  void Show(const ui::Link& link, const timeline::LinkPlace& place) const {
    if (place.hit) {
      SelectAndReveal(*place.hit);
    } else {
      (*this)(ui::SelectArea{place.area});  // or nothing
    }
    ui::Lanes& lanes = shell.context_.lanes;
    lanes.shown_rank = -1;
    lanes.shown_step = link.last_step ? -1 : link.step.value_or(-1);
    if (link.rank) lanes.folded_ranks.erase(*link.rank);
    if (link.rank || !link.ranks.empty()) {
      BringToSight(link.rank ? *link.rank : link.ranks.front());
    }
    if (place.shown) {
      (*this)(ui::SetView{place.shown->start_ns, place.shown->end_ns});
    } else if (place.area) {
      (*this)(ui::FitSelection{});
    } else if (place.hit) {
      Fit(place.hit->start_ns, place.hit->end_ns);
    } else if (link.step) {
      (*this)(ui::ShowStep{*link.step});
    }
    if (link.scope) (*this)(ui::SetScope{link.scope});
    if (!link.search.empty()) {
      (*this)(ui::ShowSearch{true});
      (*this)(ui::SearchFor{link.search});
    }
    shell.focus_ = "timeline";
  }
  // All of that time in view, wide enough to be seen; a view that has it so stays.
  void Reveal(int64_t start_ns, int64_t end_ns) const {
    const ui::View& view = shell.view_.goal();
    const int64_t length_ns = view.end_ns - view.start_ns;
    const int64_t duration_ns = end_ns - start_ns;
    const bool is_seen =
        start_ns >= view.start_ns && end_ns <= view.end_ns && duration_ns >= length_ns / kMostOfHit;
    if (is_seen && !view.follow) return;
    const int64_t wanted_ns =
        duration_ns == 0
            ? length_ns
            : std::clamp(length_ns, duration_ns + duration_ns / 4, duration_ns * kMostOfHit);
    const int64_t middle_ns = start_ns + duration_ns / 2;
    (*this)(is_seen ? ui::SetView{view.start_ns, view.end_ns}
                    : ui::SetView{middle_ns - wanted_ns / 2, middle_ns + wanted_ns / 2});
  }
  // The finished step that is asked for, else the newest; nullopt: there is none.
  std::optional<std::pair<int32_t, Interval>> StepToPlay(int32_t step) const {
    const query::Snapshot& snapshot = *shell.context_.snapshot;
    if (snapshot.ranks.empty() || snapshot.ranks.front().steps.empty()) return std::nullopt;
    for (const int32_t candidate : {step, snapshot.ranks.front().steps.back().step}) {
      const Result<Interval> times = analysis::TimesOfStep(snapshot, candidate);
      if (times.ok()) return std::pair(candidate, *times);
    }
    return std::nullopt;
  }
  void operator()(const ui::OpenLens& command) const {
    if (!shell.context_.snapshot) return;
    const query::Snapshot& snapshot = *shell.context_.snapshot;
    const ui::View& view = shell.view_.goal();
    Interval range{std::max(view.start_ns, snapshot.start_ns),
                   std::min(view.end_ns, snapshot.end_ns)};
    const auto step = command.step < 0 ? std::nullopt : StepToPlay(command.step);
    if (step) range = step->second;
    const int64_t length_ns = range.end_ns - range.start_ns;
    if (length_ns <= 0) return;
    shell.lens_player_.Open(range, step ? step->first : -1);
    if (!shell.options_.headless) shell.lens_player_.Play(true, shell.Now());
    const bool is_seen = view.start_ns <= range.start_ns && view.end_ns >= range.end_ns &&
                         (view.end_ns - view.start_ns) / kMostOfLens <= length_ns;
    const int64_t room = std::llround(static_cast<double>(length_ns) * kLensMargin);
    (*this)(is_seen ? ui::SetView{view.start_ns, view.end_ns}
                    : ui::SetView{range.start_ns - room, range.end_ns + room});
    ShowTimeline();
  }
  void operator()(const ui::CloseLens&) const { shell.lens_player_.Close(); }
  void operator()(const ui::PlayLens& command) const {
    shell.lens_player_.Play(command.play, shell.Now());
  }
  void operator()(const ui::SetLensSlowness& command) const {
    shell.lens_player_.SetSlowness(command.slowness, shell.Now());
  }
  void operator()(const ui::SeekLens& command) const {
    shell.lens_player_.Seek(command.time_ns, shell.Now());
  }
  void operator()(const ui::StepLens& command) const {
    shell.lens_player_.Step(command.direction, shell.Now());
  }
  void operator()(const ui::ShowPlan& command) const {
    shell.context_.plan = {.is_on = command.show};
    shell.wants_.frame = true;  // that has it made
    if (!command.show) return;
    shell.context_.compare.under_lanes = false;  // which would take the same room
    ShowTimeline();
  }
  void operator()(const ui::ShowCriticalPath& command) const {
    shell.context_.critical_path = {.is_on = command.show};
    if (command.show) (*this)(ui::FocusPanel{"timeline"});
    shell.wants_.frame = true;  // that has it made
  }
  void operator()(const ui::ShowLegend& command) const {
    shell.context_.lanes.legend = shell.options_.settings.legend = command.show;
    SaveSettings(shell.options_.settings, shell.options_.settings_folder);
  }
  void operator()(const ui::FocusPanel& command) const {
    shell.focus_ = command.panel;
    ui::TypedInto& typed_into = shell.context_.typed_into;
    if (command.types) typed_into = {command.panel, typed_into.times + 1};
  }
  void operator()(const ui::OpenSql&) const {
    shell.context_.sql.is_open = true;
    if (shell.session_ == nullptr) return;
    if (shell.options_.headless) {
      shell.session_->ListTables(&shell.context_.sql);
    } else {
      shell.session_->sql();
    }
  }
  void operator()(const ui::RunSql& command) const {
    SqlWorker* worker = shell.session_ ? shell.session_->sql() : nullptr;
    if (worker == nullptr) return;
    std::vector<std::string>& history = shell.context_.sql.history;
    std::erase(history, command.query);
    history.push_back(command.query);
    if (history.size() > kMostStatements) history.erase(history.begin());
    worker->Start(command.query);
  }
  void operator()(const ui::CancelSql&) const {
    if (SqlWorker* worker = shell.session_ ? shell.session_->sql() : nullptr) worker->Cancel();
  }
  void operator()(const ui::CompareWith& command) const {
    ui::CompareState& compare = shell.context_.compare;
    compare.asked =
        ui::ComparedWith{command.path, command.steps_a, command.steps_b, ++compare.questions};
    compare.share = 0;
    shell.focus_ = "compare";
    shell.wants_.frame = true;  // that has them compared
  }
  void operator()(const ui::ShowBeside& command) const {
    ui::CompareState& compare = shell.context_.compare;
    compare.under_lanes = command.show;
    compare.beside = nullptr;
    shell.wants_.frame = true;  // that has it made
    if (!command.show) return;
    shell.context_.plan = {};   // which would take the same room
    shell.focus_ = "timeline";  // from Compare, also where that has not come to the front yet
  }
  void operator()(const ui::CloseCompare&) const {
    shell.context_.compare.Forget();
    shell.wants_.frame = true;  // that stops it
  }
  void operator()(const ui::DismissNotice&) const { shell.context_.notice = {}; }
  void operator()(const ui::OpenLessons&) const {
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
  void operator()(const ui::ShowLesson& command) const {
    ui::LessonsState& lessons = shell.context_.lessons;
    lessons.current = command.id;
    lessons.run = lesson::NewestRun(command.id).value_or("");
    lessons.task = lessons.quiz = {};
    if (shell.lesson_worker_ != nullptr) shell.lesson_worker_->Forget();
  }
  void operator()(const ui::StartLesson&) const {
    ui::LessonsState& lessons = shell.context_.lessons;
    const lesson::Lesson* lesson = ui::CurrentLesson(lessons);
    if (lesson == nullptr) return;
    lessons.run = lesson::NewRunFolder(lesson->id);
    lessons.task = {};
    if (shell.lesson_worker_ != nullptr) shell.lesson_worker_->Forget();
    (*this)(ui::StartRun{lessons.run, lesson->run, ""});
  }
  void operator()(const ui::AnswerLesson& command) const {
    ui::LessonsState& lessons = shell.context_.lessons;
    if (shell.lesson_worker_ == nullptr || ui::CurrentLesson(lessons) == nullptr) return;
    const lesson::Exercise part = command.quiz ? lesson::Exercise::kQuiz : lesson::Exercise::kTask;
    shell.lesson_worker_->Judge(lessons.current, {part, lessons.run, command.answer});
    shell.wants_.frame = true;  // that says so
  }
  void operator()(const ui::SaveTable& command) const {
    const std::string panel(command.panel.empty() ? shell.panel_frames_.focused() : command.panel);
    const ui::TableMaker make = shell.TableOf(panel);
    if (make == nullptr) {
      shell.Notify(TrFormat(shell.context_.language, ui::Text::kSaveNoTable, TitlesOfTables()),
                   true);
      return;
    }
    shell.SaveFile({.name = panel, .extension = ".csv", .make = [make]() -> Result<std::string> {
                      return ui::PrintCsv(make());
                    }});
  }
  // Titles of the panels that have a table.
  std::string TitlesOfTables() const {
    const ui::Language language = shell.context_.language;
    std::vector<std::string> titles;
    for (const PanelWindow& panel : PanelWindows()) {
      if (panel.has_table) titles.emplace_back(Tr(language, panel.title));
    }
    return Join(titles, language == ui::Language::kChinese ? "、" : ", ");
  }
  void operator()(const ui::SavePicture& command) const { shell.wants_.picture = command.kind; }
  void operator()(const ui::DismissProblems&) const {
    shell.context_.dismissed_problems = ui::NumProblems(shell.context_);
  }
  void operator()(const ui::Quit&) const { shell.wants_.quit = true; }

  void Remember() const {
    shell.look_changed_ = true;
    SaveSettings(shell.options_.settings, shell.options_.settings_folder);
  }
};

void Shell::Dispatch(const ui::Command& command) { std::visit(Dispatcher{*this}, command); }

void Shell::Drop(const std::string& path) {
  const bool compares =
      context_.snapshot != nullptr && panel_frames_.IsUnder("compare", ImGui::GetIO().MousePos);
  Post(compares ? ui::Command(ui::CompareWith{path, {}, {}}) : ui::Command(ui::OpenRun{path}));
}

Status Shell::OpenLinked(const std::string& text) {
  context_.error.clear();
  link_.reset();
  const auto parsed = ui::ParseLinkedRun(text);
  if (const auto* error = std::get_if<ui::LinkError>(&parsed)) {
    context_.error = LinkErrorText(context_.language, *error);
    return Status::Error(context_.error);
  }
  const auto& run = std::get<ui::LinkedRun>(parsed);
  bool imports_it = false;
  if (run.path.empty() && context_.snapshot == nullptr) {
    context_.error = Tr(context_.language, ui::Text::kLinkNoRun);
    return Status::Error(context_.error);
  }
  if (!run.path.empty() && !(run.link && IsOpen(run.path))) {
    context_.compare.Forget();
    imports_it = imports::NeedsImport(run.path);
    if (imports_it) Import(run.path);
    const auto step = run.link ? run.link->step : std::nullopt;
    if (!imports_it) SHARDSCOPE_RETURN_IF_ERROR(Open(run.path, step));
  }
  if (run.link) link_ = {*run.link, imports_it};
  return Status::Ok();
}

Status Shell::ShowLink(const ui::Link& link) {
  const auto found = timeline::PlaceOf(*context_.snapshot, link);
  if (const auto* error = std::get_if<ui::LinkError>(&found)) {
    return Status::Error(LinkErrorText(context_.language, *error));
  }
  Dispatcher{*this}.Show(link, std::get<timeline::LinkPlace>(found));
  view_.set_is_settled(true);
  return Status::Ok();
}

// The view stays.
void Shell::OpenAll() {
  const query::RunPart part = *context_.snapshot->part;
  if (MemoryToTake(/*own_goes=*/true) < part.needed_bytes) {
    return Notify(TrFormat(context_.language, ui::Text::kAllStepsDoNotFit,
                           FormatBytes(part.needed_bytes), FormatBytes(FreeMemoryBytes())),
                  true);
  }
  link_ = {timeline::LinkOfView(context_), false};
  const int64_t step = std::clamp<int64_t>(context_.focus.step, part.first_step, part.last_step);
  OpenAround(static_cast<int32_t>(step), part.needed_bytes);
}

// The link stays, for when its step is there; so does what is not of single steps.
void Shell::OpenAround(int32_t step, int64_t memory_bytes) {
  if (context_.place != ui::RunPlace::kThere) {
    link_.reset();
    return Notify(ui::RunPlaceText(context_.language, context_.place), true);
  }
  auto session = RunSession::Open(session_->path(), options_.wake, {memory_bytes, step});
  if (!session.ok()) {
    link_.reset();
    Notify(session.message(), true);
    return;
  }
  const std::string path = context_.path;
  const std::optional<analysis::Scope> scope = context_.focus.scope;
  const size_t dismissed = context_.dismissed_problems;
  Use(std::move(session).value());
  context_.path = path;
  context_.focus.scope = scope;
  context_.dismissed_problems = dismissed;
  session_->FollowBookmarks(path);
}

// A run that is still being read, or has just begun, may lack what its link names.
void Shell::UpdateLink() {
  if (!link_) return;
  if (link_->of_import && importer_ != nullptr) return;
  if (context_.snapshot == nullptr) return link_.reset();
  const query::Snapshot& snapshot = *context_.snapshot;
  const bool has_begun = snapshot.end_ns > snapshot.start_ns || !query::MayGrow(snapshot.state);
  if (!has_begun) return;
  if (snapshot.loading) {
    // When the run began is not known yet.
    const bool is_of_step = link_->link.step || !link_->link.HasTimes();
    const bool needs_ops = link_->link.HasOp() || !link_->link.work.empty();
    if (is_of_step && !needs_ops && ShowLink(link_->link).ok()) link_.reset();
    return;
  }
  if (const auto step = timeline::StepInOtherPart(snapshot, link_->link)) {
    if (!query::MayGrow(snapshot.state)) return OpenAround(*step, options_.memory_bytes);
    link_.reset();
    return Notify(TrFormat(context_.language, ui::Text::kStepNotKept, snapshot.part->first_step),
                  true);
  }
  ui::Link link = std::exchange(link_, std::nullopt)->link;
  if (snapshot.part && link.last_step) {  // of a range what is loaded
    link.last_step = std::min(*link.last_step, static_cast<int32_t>(snapshot.part->last_step));
  }
  const Status status = ShowLink(link);
  if (!status.ok()) Notify(status.message(), true);
}

void Shell::CloseSession() {
  RememberLook();
  context_.snapshot = nullptr;
  context_.path.clear();
  context_.place = ui::RunPlace::kThere;
  context_.index = nullptr;
  context_.report = nullptr;
  context_.figures = nullptr;
  context_.ranks = nullptr;
  context_.collectives = nullptr;
  context_.step_table = nullptr;
  context_.focus = {};
  context_.search.found = nullptr;
  context_.search.current.reset();
  context_.area = {};
  context_.revealed.what.reset();
  context_.change = {};
  context_.selection = {};
  context_.control = {};
  context_.lanes = {.shown = context_.lanes.shown, .legend = context_.lanes.legend};
  context_.log.clear();
  context_.error.clear();
  context_.start_error.clear();
  context_.dismissed_problems = 0;
  context_.hover_ns = -1;
  context_.hover_rank = -1;
  context_.lens = {};
  context_.plan.made = nullptr;
  context_.schedule = {};
  context_.critical_path.made = nullptr;
  context_.compare.made = nullptr;
  context_.compare.beside = nullptr;
  context_.blocks = {};
  context_.bookmarks = {};
  if (context_.overlay == ui::Overlay::kBookmark) context_.overlay = ui::Overlay::kNone;
  context_.sql = {.history = std::move(context_.sql.history)};
  view_.Reset({});
  view_.set_is_settled(false);
  closer_.Close(std::move(session_));
}

}  // namespace shardscope::shell
