#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trace/analysis/find/area.h"
#include "trace/analysis/find/neighbours.h"
#include "trace/analysis/moment/moment.h"
#include "ui/panel_ids.h"
#include "ui/shell/shell_dispatch.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/neighbour.h"
#include "ui/timeline/run_index.h"

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

}  // namespace

void Dispatcher::operator()(const ui::GoToLink& command) const {
  shell.link_ = {command.link, false};
  shell.wants_.frame = true;
}

void Dispatcher::operator()(const ui::SetView& command) const {
  ui::SetView change = command;
  if (shell.options_.headless) change.animate = false;
  shell.view_.Set(change, shell.Now());
}

void Dispatcher::operator()(const ui::UndoView&) const { shell.view_.Undo(shell.Now()); }

void Dispatcher::operator()(const ui::RedoView&) const { shell.view_.Redo(shell.Now()); }

void Dispatcher::operator()(const ui::ShowStep& command) const {
  if (!shell.context_.snapshot) return;
  const ui::View view = InitialView(*shell.context_.snapshot, command.step);
  (*this)(ui::SetView{view.start_ns, view.end_ns});
}

void Dispatcher::operator()(const ui::ShowRank& command) const {
  (*this)(ui::ShowStep{command.step});
  shell.context_.lanes.folded_ranks.erase(command.rank);
  BringToSight(command.rank);
  shell.context_.lanes.shown_step = command.step;
  shell.focus_ = ui::panel_ids::kTimeline;
}

void Dispatcher::BringToSight(int32_t rank) const {
  ui::Lanes& lanes = shell.context_.lanes;
  lanes.hidden_ranks.erase(rank);
  lanes.shown_rank = rank;
  ++lanes.shown;
}

void Dispatcher::operator()(const ui::PlaceRanks& command) const {
  ui::Lanes& lanes = shell.context_.lanes;
  for (const int32_t rank : command.ranks) {
    lanes.pinned_ranks.erase(rank);
    lanes.hidden_ranks.erase(rank);
    if (command.place == ui::RankPlace::kPinned) lanes.pinned_ranks.insert(rank);
    if (command.place == ui::RankPlace::kHidden) lanes.hidden_ranks.insert(rank);
  }
}

void Dispatcher::operator()(const ui::OrderRanks& command) const {
  std::vector<int32_t>& order = shell.context_.lanes.rank_order;
  order = command.ranks;
  // Moved back to where it was: nothing is left to be put back.
  if (std::ranges::is_sorted(order)) order.clear();
}

void Dispatcher::operator()(const ui::SetFollow& command) const {
  shell.view_.SetFollow(command.follow, shell.Now());
}

void Dispatcher::operator()(const ui::HoldView&) const { shell.view_.Hold(); }

void Dispatcher::Select(ui::Selection selection) const {
  shell.context_.selection = std::move(selection);
  if (!shell.context_.area.query) return;
  shell.context_.area = {};
  shell.wants_.frame = true;  // that forgets what was measured
}

void Dispatcher::operator()(const ui::SelectArea& command) const {
  shell.context_.selection = {};
  shell.context_.area.query = command.area;
  if (command.area) {
    shell.view_.SetFollow(false, shell.Now());  // what is measured stays in view
    shell.panel_frames_.Raise(ui::panel_ids::kDetails);
  }
  shell.wants_.frame = true;  // that has it measured
}

void Dispatcher::operator()(const ui::MarkArea&) const {
  const ui::Context& context = shell.context_;
  if (!context.snapshot) return;
  const query::Snapshot& snapshot = *context.snapshot;
  const ui::View& view = shell.view_.goal();
  Interval time{view.start_ns, view.end_ns};
  if (const auto selected = timeline::SelectedHit(context)) {
    time = {selected->start_ns, selected->end_ns};
  } else if (context.focus.step >= 0) {
    const Result<analysis::AreaQuery> step =
        analysis::ResolveArea(snapshot, {context.focus.step, {}}, {});
    if (step.ok()) time = step->time;
  }
  time = {std::max(time.start_ns, snapshot.start_ns), std::min(time.end_ns, snapshot.end_ns)};
  if (time.end_ns <= time.start_ns) return;
  (*this)(ui::SelectArea{analysis::AreaQuery{time, {}}});
}

void Dispatcher::operator()(const ui::SelectOp& command) const {
  ui::Selection& selection = shell.context_.selection;
  if (!command.op_run.is_none()) shell.panel_frames_.RaiseBesideUse(ui::panel_ids::kDetails);
  if (command.add && !selection.op_run.is_none() && !command.op_run.is_none()) {
    // Again: no longer.
    const ui::SelectedOp op{command.op_run, command.rank};
    if (std::erase(selection.also, op) == 0 && !selection.Contains(op)) {
      selection.also.push_back(op);
    }
    return;
  }
  if (command.reveal) {
    if (const auto hit = HitOfOp(command.op_run, command.rank)) return Show(*hit);
  }
  Select({command.op_run, command.rank, {}});
}

std::optional<analysis::SearchHit> Dispatcher::HitOfOp(query::OpRunId op_run, int32_t rank) const {
  const query::SnapshotPtr& snapshot = shell.context_.snapshot;
  const query::RankRows* rows = snapshot == nullptr ? nullptr : snapshot->FindRank(rank);
  const uint32_t row = rows == nullptr ? timeline::kNoRow : timeline::FindRow(*rows, op_run);
  if (row == timeline::kNoRow) return std::nullopt;
  return HitOf(*rows, analysis::HitKind::kOp, row);
}

void Dispatcher::operator()(const ui::ShowOp& command) const {
  const auto hit = HitOfOp(command.op_run, command.rank);
  if (!hit) return;
  SelectAndReveal(*hit);
  Fit(hit->start_ns, hit->end_ns);
  ShowTimeline();
}

void Dispatcher::operator()(const ui::SelectSpan& command) const {
  shell.panel_frames_.RaiseBesideUse(ui::panel_ids::kDetails);
  Select({query::OpRunId::None(), command.rank, {}, command.span});
}

void Dispatcher::Fit(int64_t start_ns, int64_t end_ns) const {
  const int64_t room =
      std::llround(static_cast<double>(std::max<int64_t>(end_ns - start_ns, 1)) * kFitMargin);
  (*this)(ui::SetView{start_ns - room, end_ns + room});
}

void Dispatcher::operator()(const ui::FitSelection&) const {
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

void Dispatcher::operator()(const ui::JumpToOp&) const {
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

void Dispatcher::operator()(const ui::SetHover& command) const {
  const ui::SetHover hover = shell.options_.headless ? ui::SetHover{} : command;
  shell.context_.hover_ns = hover.time_ns;
  shell.context_.hover_rank = hover.rank;
}

void Dispatcher::operator()(const ui::ToggleRank& command) const {
  auto& folded = shell.context_.lanes.folded_ranks;
  if (folded.erase(command.rank) == 0) folded.insert(command.rank);
}

void Dispatcher::operator()(const ui::FoldRanks& command) const {
  shell.context_.lanes.folded_ranks.clear();
  if (!command.fold || !shell.context_.snapshot) return;
  for (const query::RankRows& rows : shell.context_.snapshot->ranks) {
    shell.context_.lanes.folded_ranks.insert(rows.rank);
  }
}

void Dispatcher::operator()(const ui::ShowSearch& command) const {
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

void Dispatcher::operator()(const ui::SearchFor& command) const {
  shell.context_.search.text = command.text;
  shell.context_.search.current.reset();
  shell.context_.search.steps = 0;
  shell.wants_.frame = true;
}

void Dispatcher::operator()(const ui::SelectHit& command) const {
  ui::SearchState& search = shell.context_.search;
  if (search.found == nullptr || command.hit >= search.found->result.hits.size()) return;
  const analysis::SearchHit& hit = search.found->result.hits[command.hit];
  search.current = hit;
  search.steps = 0;
  Show(hit);
}

void Dispatcher::operator()(const ui::SelectNeighbour& command) const {
  const auto neighbour = timeline::FindNeighbour(shell.context_, command.which);
  if (!neighbour) return;
  ui::Selection& selection = shell.context_.selection;
  std::vector<ui::SelectedOp> also = std::move(selection.also);
  const ui::SelectedOp from{selection.op_run, selection.rank};
  Show(*neighbour);
  if (!command.add || from.op_run.is_none() || selection.op_run.is_none()) return;
  also.push_back(from);
  std::erase(also, ui::SelectedOp{selection.op_run, selection.rank});
  selection.also = std::move(also);
}

void Dispatcher::SelectAndReveal(const analysis::SearchHit& hit) const {
  Select({hit.op_run, hit.rank, {}, hit.span});  // nothing of a marker
  shell.context_.lanes.folded_ranks.erase(hit.rank);
  shell.context_.lanes.hidden_ranks.erase(hit.rank);
  shell.context_.revealed = {hit, shell.context_.revealed.count + 1};
  shell.panel_frames_.Raise(ui::panel_ids::kDetails);
}

void Dispatcher::ShowTimeline() const {
  if (!shell.panel_frames_.IsInFront(ui::panel_ids::kTimeline))
    shell.focus_ = ui::panel_ids::kTimeline;
}

void Dispatcher::Show(const analysis::SearchHit& hit) const {
  SelectAndReveal(hit);
  Reveal(hit.start_ns, hit.end_ns);
  ShowTimeline();
}

void Dispatcher::Show(const ui::Link& link, const timeline::LinkPlace& place) const {
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
  shell.focus_ = ui::panel_ids::kTimeline;
}

void Dispatcher::Reveal(int64_t start_ns, int64_t end_ns) const {
  const ui::View& view = shell.view_.goal();
  const int64_t length_ns = view.end_ns - view.start_ns;
  const int64_t duration_ns = end_ns - start_ns;
  const bool is_seen =
      start_ns >= view.start_ns && end_ns <= view.end_ns && duration_ns >= length_ns / kMostOfHit;
  if (is_seen && !view.follow) return;
  const int64_t wanted_ns = duration_ns == 0 ? length_ns
                                             : std::clamp(length_ns, duration_ns + duration_ns / 4,
                                                          duration_ns * kMostOfHit);
  const int64_t middle_ns = start_ns + duration_ns / 2;
  (*this)(is_seen ? ui::SetView{view.start_ns, view.end_ns}
                  : ui::SetView{middle_ns - wanted_ns / 2, middle_ns + wanted_ns / 2});
}

std::optional<std::pair<int32_t, Interval>> Dispatcher::StepToPlay(int32_t step) const {
  const query::Snapshot& snapshot = *shell.context_.snapshot;
  if (snapshot.ranks.empty() || snapshot.ranks.front().steps.empty()) return std::nullopt;
  for (const int32_t candidate : {step, snapshot.ranks.front().steps.back().step}) {
    const Result<Interval> times = analysis::TimesOfStep(snapshot, candidate);
    if (times.ok()) return std::pair(candidate, *times);
  }
  return std::nullopt;
}

void Dispatcher::operator()(const ui::OpenLens& command) const {
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

void Dispatcher::operator()(const ui::CloseLens&) const { shell.lens_player_.Close(); }

void Dispatcher::operator()(const ui::PlayLens& command) const {
  shell.lens_player_.Play(command.play, shell.Now());
}

void Dispatcher::operator()(const ui::SetLensSlowness& command) const {
  shell.lens_player_.SetSlowness(command.slowness, shell.Now());
}

void Dispatcher::operator()(const ui::SeekLens& command) const {
  shell.lens_player_.Seek(command.time_ns, shell.Now());
}

void Dispatcher::operator()(const ui::StepLens& command) const {
  shell.lens_player_.Step(command.direction, shell.Now());
}

void Dispatcher::operator()(const ui::ShowPlan& command) const {
  shell.context_.plan = {.is_on = command.show};
  shell.wants_.frame = true;  // that has it made
  if (!command.show) return;
  shell.context_.compare.under_lanes = false;  // which would take the same room
  ShowTimeline();
}

void Dispatcher::operator()(const ui::ShowCriticalPath& command) const {
  shell.context_.critical_path = {.is_on = command.show};
  if (command.show) (*this)(ui::FocusPanel{ui::panel_ids::kTimeline});
  shell.wants_.frame = true;  // that has it made
}

void Dispatcher::operator()(const ui::ShowLegend& command) const {
  shell.context_.lanes.legend = shell.options_.settings.legend = command.show;
  SaveSettings(shell.options_.settings, shell.options_.settings_folder);
}

void Dispatcher::operator()(const ui::ShowBeside& command) const {
  ui::CompareState& compare = shell.context_.compare;
  compare.under_lanes = command.show;
  compare.beside = nullptr;
  shell.wants_.frame = true;  // that has it made
  if (!command.show) return;
  shell.context_.plan = {};  // which would take the same room
  shell.focus_ =
      ui::panel_ids::kTimeline;  // from Compare, also where that has not come to the front yet
}

}  // namespace shardscope::shell
