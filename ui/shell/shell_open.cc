// The shell's runs: opened by path or link, in part or whole, and left.
#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trace/analysis/explain/critical_path.h"
#include "trace/base/free_memory.h"
#include "trace/base/units.h"
#include "trace/import/cache.h"
#include "ui/link.h"
#include "ui/panel_ids.h"
#include "ui/shell/shell.h"
#include "ui/shell/shell_dispatch.h"
#include "ui/text.h"
#include "ui/timeline/link_place.h"
#include "ui/timeline/steps.h"
#include "ui/values.h"

namespace shardscope::shell {
namespace {

bool NamesSpan(const ui::Link& link) { return link.HasOp() || !link.work.empty(); }

// To the step and rank of what it names.
ui::Link WithoutSpan(ui::Link link) {
  link.op.clear();
  link.op_index.reset();
  link.nth = 1;
  link.work.clear();
  link.at.reset();
  return link;
}

// Of a run that is still being read: what the link needs has been.
bool IsThere(const query::Snapshot& snapshot, const ui::Link& link) {
  // When the run began is not known yet.
  const bool is_of_step = link.step || !link.HasTimes();
  if (!is_of_step || NamesSpan(link)) return false;
  const int32_t last = link.last_step ? *link.last_step : link.step.value_or(-1);
  // The last step that was read of a run that is read from its beginning may lack rows.
  if (!snapshot.loading) return last < analysis::NewestStepOfAll(snapshot);
  if (!link.step) return true;
  const std::vector<timeline::StepSpan> whole = timeline::FinishedSteps(snapshot);
  const auto has = [&whole](int32_t step) {
    return std::ranges::find(whole, step, &timeline::StepSpan::step) != whole.end();
  };
  return has(*link.step) && has(last);
}

}  // namespace

void Shell::Drop(const std::string& path) {
  const bool compares = context_.snapshot != nullptr &&
                        panel_frames_.IsUnder(ui::panel_ids::kCompare, ImGui::GetIO().MousePos);
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
  ui::Lanes lanes = context_.lanes;
  lanes.are_arranged = true;
  lanes.shown_rank = lanes.shown_step = -1;  // where the link leads says it anew
  Use(std::move(session).value());
  context_.lanes = std::move(lanes);
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
  if (snapshot.loading || snapshot.is_behind) {
    if (IsThere(snapshot, link_->link) && ShowLink(link_->link).ok()) link_.reset();
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
  if (status.ok()) return;
  if (link.step && NamesSpan(link)) (void)ShowLink(WithoutSpan(link));
  Notify(status.message(), true);
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
  context_.search.steps = 0;
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
