#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "trace/import/cache.h"
#include "ui/shell/shell.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/neighbour.h"

namespace shardscope::shell {
namespace {

// Room on each side of a fitted span, as a share of it.
constexpr double kFitMargin = 0.4;
// A hit of the search is shown in a view of at most so many times its length.
constexpr int64_t kMostOfHit = 100;

constexpr size_t kMostStatements = 50;  // that are remembered

}  // namespace

// One overload a command; a friend of the shell.
struct Dispatcher {
  Shell& shell;

  void operator()(const ui::OpenRun& command) const {
    shell.context_.error.clear();
    // The error is shown there, wherever the path came from (a drop, for one).
    if (imports::NeedsImport(command.path)) {
      shell.Import(command.path);
    } else if (!shell.Open(command.path).ok()) {
      shell.focus_ = "runs";
    }
  }
  void operator()(const ui::CloseRun&) const {
    shell.EndImport();
    shell.CloseSession();
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
    ui::Lanes& lanes = shell.context_.lanes;
    lanes.hidden_ranks.erase(command.rank);
    lanes.folded_ranks.erase(command.rank);
    lanes.shown_rank = command.rank;
    ++lanes.shown;
    shell.focus_ = "timeline";
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
    shell.wants_frame_ = true;  // that forgets what was measured
  }
  void operator()(const ui::SelectArea& command) const {
    shell.context_.selection = {};
    shell.context_.area.query = command.area;
    shell.wants_frame_ = true;  // that has it measured
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
    shell.context_.hover_ns = shell.options_.headless ? -1 : command.time_ns;
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
  void operator()(const ui::SetKnob& command) const {
    if (shell.session_ && shell.session_->control()) {
      shell.session_->control()->SetKnob(command.key, command.value);
    }
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
  void operator()(const ui::ResetLayout&) const { shell.reset_layout_ = true; }
  void operator()(const ui::ShowOverlay& command) const {
    shell.context_.overlay = command.overlay;
  }
  void operator()(const ui::ShowSearch& command) const {
    ui::SearchState& search = shell.context_.search;
    search.open = command.show;
    search.current.reset();
    if (command.show) {
      ++search.opened;
      shell.context_.overlay = ui::Overlay::kNone;
    }
    shell.wants_frame_ = true;  // that looks for it, or forgets what was found
  }
  void operator()(const ui::SearchFor& command) const {
    shell.context_.search.text = command.text;
    shell.context_.search.current.reset();
    shell.wants_frame_ = true;
  }
  void operator()(const ui::SelectHit& command) const {
    ui::SearchState& search = shell.context_.search;
    if (search.found == nullptr || command.hit >= search.found->result.hits.size()) return;
    const analysis::SearchHit& hit = search.found->result.hits[command.hit];
    search.current = hit;
    Show(hit);
  }
  void operator()(const ui::SelectNeighbour& command) const {
    const auto neighbour = timeline::FindNeighbour(shell.context_, command.which);
    if (neighbour) Show(*neighbour);
  }
  // Selects it and brings it into view.
  void Show(const analysis::SearchHit& hit) const {
    Select({hit.op_run, hit.rank, {}, hit.span});  // nothing of a marker
    shell.context_.lanes.folded_ranks.erase(hit.rank);
    shell.context_.lanes.hidden_ranks.erase(hit.rank);
    shell.context_.revealed = {hit, shell.context_.revealed.count + 1};
    Reveal(hit.start_ns, hit.end_ns);
    // Where it is in front it does not take the keyboard from the search.
    if (!shell.panel_frames_.IsInFront("timeline")) shell.focus_ = "timeline";
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
  void operator()(const ui::ShowLegend& command) const {
    shell.context_.lanes.legend = shell.options_.settings.legend = command.show;
    SaveSettings(shell.options_.settings, shell.options_.settings_folder);
  }
  void operator()(const ui::FocusPanel& command) const { shell.focus_ = command.panel; }
  void operator()(const ui::OpenSql&) const {
    shell.context_.sql.is_open = true;
    if (shell.session_) shell.session_->sql();
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
  void operator()(const ui::DismissProblems&) const {
    shell.context_.dismissed_problems = ui::NumProblems(shell.context_);
  }
  void operator()(const ui::Quit&) const { shell.wants_quit_ = true; }

  void Remember() const {
    shell.look_changed_ = true;
    SaveSettings(shell.options_.settings, shell.options_.settings_folder);
  }
};

void Shell::Dispatch(const ui::Command& command) { std::visit(Dispatcher{*this}, command); }

void Shell::CloseSession() {
  context_.snapshot = nullptr;
  context_.index = nullptr;
  context_.report = nullptr;
  context_.figures = nullptr;
  context_.ranks = nullptr;
  context_.collectives = nullptr;
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
  context_.sql = {.history = std::move(context_.sql.history)};
  view_.Reset({});
  view_is_set_ = false;
  closer_.Close(std::move(session_));
}

}  // namespace shardscope::shell
