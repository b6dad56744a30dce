#include "ui/shell/run/run_session.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "trace/analysis/config_at.h"
#include "trace/base/input_file.h"
#include "trace/base/mutex.h"
#include "trace/base/text.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/run_index.h"

namespace shardscope::shell {
namespace {

// `step`, which may be -1, if all ranks have finished it, else the newest that they have.
int32_t FinishedStepFor(const query::Snapshot& snapshot, int32_t step) {
  const int32_t newest = analysis::NewestStepOfAll(snapshot);
  return step < 0 ? newest : std::min(step, newest);
}

constexpr double kStatusSeconds = 0.25;
constexpr double kReconnectSeconds = 1;

// What one frame may take into the index: rows for some 4 ms, steps for some 8 ms. What is more
// arrives over some frames.
constexpr size_t kRowsPerFrame = 30'000;
constexpr size_t kStallStepsPerFrame = 16;
constexpr size_t kMostPaths = 64;  // that are kept of a run
constexpr double kLogSeconds = 0.5;
constexpr size_t kMaxLogLines = 2000;
constexpr size_t kMaxLogRead = 256 * 1024;  // bytes a look; of a longer log only the end is read

}  // namespace

ControlLink::ControlLink(std::string run_folder) : run_folder_(std::move(run_folder)) {}

void ControlLink::Connect(double now_seconds) {
  if (connecting_.valid()) {
    if (connecting_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    auto result = connecting_.get();
    if (result.ok()) {
      client_ = std::move(result).value();
      state_.connection = ui::ConnectionState::kConnected;
      state_.error.clear();
      next_status_seconds_ = 0;
    } else {
      next_connect_seconds_ = now_seconds + kReconnectSeconds;
    }
    return;
  }
  if (now_seconds < next_connect_seconds_) return;
  // Connecting reads run.toml and waits for the hello: not on a frame's time.
  connecting_ = std::async(std::launch::async, [folder = run_folder_] {
    return config::ControlClient::Connect(folder);
  });
}

void ControlLink::Take(const config::Response& response) {
  if (response.has_status) {
    // Before the first status nothing is known, and a run without values has nothing to steer.
    state_.status = response.status;
  }
  const auto asked = asked_.find(response.id);
  if (asked != asked_.end()) {
    for (const auto& [key, value] : asked->second) {
      const auto unsent = state_.unsent.find(key);
      if (unsent != state_.unsent.end() && unsent->second == value) state_.unsent.erase(unsent);
      if (response.ok) state_.status.pending[key] = value;
    }
    if (response.ok) {
      state_.status.pending_step = response.applies_at;
      state_.error.clear();
    }
    asked_.erase(asked);
    next_status_seconds_ = 0;
  }
  if (!response.ok) state_.error = response.error;
}

void ControlLink::Update(double now_seconds, bool live) {
  if (client_ == nullptr) {
    if (live) Connect(now_seconds);
    return;
  }
  while (const auto response = client_->Poll()) Take(*response);
  FindUndoable();
  if (!client_->connected()) {
    client_.reset();
    asked_.clear();
    state_.unsent.clear();
    state_.status.pending.clear();
    state_.connection = ui::ConnectionState::kLost;
    next_connect_seconds_ = now_seconds + kReconnectSeconds;
    return;
  }
  if (now_seconds >= next_status_seconds_) {
    client_->Send(config::GetRequest{"status"});
    next_status_seconds_ = now_seconds + kStatusSeconds;
  }
}

void ControlLink::SendSet(const std::map<std::string, std::string>& values) {
  if (client_ == nullptr || values.empty()) return;
  asked_[client_->Send(config::SetRequest{values})] = values;
  for (const auto& [key, value] : values) state_.unsent[key] = value;
}

std::string ControlLink::ValueOf(const std::string& key) const {
  for (const auto* values : {&state_.unsent, &state_.status.pending, &state_.status.values}) {
    const auto value = values->find(key);
    if (value != values->end()) return value->second;
  }
  return "";
}

void ControlLink::SetKnob(const std::string& key, const std::string& value) {
  const std::string from = ValueOf(key);
  const ui::TurnedKnob* last = turned_.empty() ? nullptr : &turned_.back();
  if (last != nullptr && last->key == key && last->from == value && last->to == from) {
    turned_.pop_back();  // taken back by hand
  } else if (from != value) {
    turned_.push_back({key, from, value});
  }
  SendSet({{key, value}});
  FindUndoable();
}

void ControlLink::FindUndoable() {
  // One that was refused, or turned elsewhere since, is not where it was turned to.
  const auto last =
      std::find_if(turned_.rbegin(), turned_.rend(),
                   [this](const ui::TurnedKnob& knob) { return ValueOf(knob.key) == knob.to; });
  state_.undoable = last == turned_.rend() ? std::nullopt : std::optional(*last);
}

std::optional<ui::TurnedKnob> ControlLink::UndoKnob() {
  FindUndoable();
  const std::optional<ui::TurnedKnob> last = state_.undoable;
  if (!last) return std::nullopt;
  while (turned_.back() != *last) turned_.pop_back();
  turned_.pop_back();
  SendSet({{last->key, last->from}});
  FindUndoable();
  return last;
}

void ControlLink::RevertPending() {
  std::map<std::string, std::string> back;
  for (const auto* pending : {&state_.status.pending, &state_.unsent}) {
    for (const auto& [key, value] : *pending) {
      const auto in_force = state_.status.values.find(key);
      if (in_force != state_.status.values.end()) back[key] = in_force->second;
    }
  }
  SendSet(back);
}

void ControlLink::Do(config::Action action) {
  if (client_ == nullptr) return;
  client_->Send(config::DoRequest{action});
  next_status_seconds_ = 0;
}

IndexMaker::IndexMaker(query::SnapshotPtr snapshot, std::function<void()> wake)
    : thread_([this, snapshot = std::move(snapshot), wake = std::move(wake)](
                  const std::stop_token& stop) { Make(stop, *snapshot, wake); }) {}

void IndexMaker::Make(const std::stop_token& stop, const query::Snapshot& snapshot,
                      const std::function<void()>& wake) {
  auto index = std::make_shared<timeline::RunIndex>();
  if (!index->AdvanceAll(snapshot, stop)) return;
  {
    const MutexLock lock(mutex_);
    index_ = std::move(index);
  }
  if (wake) wake();
}

bool IndexMaker::ready() const {
  const MutexLock lock(mutex_);
  return index_ != nullptr;
}

std::shared_ptr<timeline::RunIndex> IndexMaker::Take() {
  const MutexLock lock(mutex_);
  return std::exchange(index_, nullptr);
}

Result<std::unique_ptr<RunSession>> RunSession::Open(const std::string& path,
                                                     std::function<void()> wake,
                                                     const query::ReadLimits& limits) {
  std::unique_ptr<RunSession> session(new RunSession());
  session->watch_ = std::make_shared<FolderWatch>(path);  // before anything is read
  SHARDSCOPE_ASSIGN_OR_RETURN(auto trace, query::LiveTrace::Open(path, wake, limits));
  session->wake_ = wake;
  session->memory_bytes_ = limits.memory_bytes;
  session->trace_ = std::move(trace);
  session->worker_ = std::make_unique<ReportWorker>(wake);
  session->control_ = std::make_unique<ControlLink>(session->trace_->Latest()->run_folder);
  return session;
}

std::unique_ptr<RunSession> RunSession::OfSnapshot(query::SnapshotPtr snapshot) {
  std::unique_ptr<RunSession> session(new RunSession());
  session->requested_ = session->shown_ = std::move(snapshot);
  return session;
}

RunSession::RunSession() : index_(std::make_shared<timeline::RunIndex>()) {}

std::string RunSession::folder() const {
  return trace_ == nullptr ? "" : trace_->Latest()->run_folder;
}

RunSession::~RunSession() { trace_.reset(); }

void RunSession::Show(const Findings& findings, ui::Context* context) {
  context->report = findings.report;
  context->figures = findings.figures;
  context->change = findings.change;
  context->ranks = findings.ranks;
  context->collectives = findings.collectives;
  context->step_table = findings.step_table;
}

bool RunSession::ReadLog(const std::string& folder, ui::Context* context) {
  const Result<FileEnd> end = ReadFileEnd(folder + "/log.txt", log_.offset, kMaxLogRead);
  if (!end.ok() || end->bytes.empty()) return false;
  log_.offset = end->offset;
  std::string_view text = end->bytes;
  // What has no end is not yet a whole line.
  for (size_t length = 0; (length = text.find('\n')) != std::string_view::npos;) {
    context->log.emplace_back(text.substr(0, length));
    text.remove_prefix(length + 1);
    log_.offset += static_cast<int64_t>(length) + 1;
  }
  if (context->log.size() > kMaxLogLines) {
    context->log.erase(context->log.begin(),
                       context->log.end() - static_cast<std::ptrdiff_t>(kMaxLogLines));
  }
  return true;
}

bool RunSession::Poll(double now_seconds, ui::Context* context) {
  if (trace_ == nullptr) return false;
  const bool in_place = IsInPlace();  // else another run's training might answer
  control_->Update(now_seconds, live_ && in_place);
  const bool answered = control_->state() != context->control;
  if (answered) context->control = control_->state();
  if (!in_place || now_seconds < log_.next_seconds) return answered;
  log_.next_seconds = now_seconds + kLogSeconds;
  return ReadLog(trace_->Latest()->run_folder, context) || answered;
}

query::SnapshotPtr RunSession::TakeSnapshot(ui::Context* context) {
  if (replacing_.old_snapshot != nullptr) {
    auto free = [old = std::exchange(replacing_.old_snapshot, nullptr),
                 index = std::exchange(replacing_.old_index, nullptr)]() mutable {
      index.reset();
      old.reset();  // here: what is captured lives on in the future
    };
    replacing_.freeing = std::async(std::launch::async, std::move(free));
  }
  query::SnapshotPtr newest = trace_->Latest();
  if (newest != requested_) {
    const bool replaces = requested_ != nullptr && newest->generation < requested_->generation;
    requested_ = newest;
    if (replaces) {
      replacing_.next_index = std::make_unique<IndexMaker>(newest, wake_);
    } else if (replacing_.next_index == nullptr) {
      shown_ = newest;
    }
  }
  if (replacing_.next_index != nullptr && replacing_.next_index->ready()) {
    // Of the first steps, these would be shown as figures of the whole run; those of a run that
    // goes on may be of steps that it has no more.
    const FindingsPtr findings = worker_->Latest();
    if (!shown_->loading || (findings != nullptr &&
                             query::HaveSameRows(findings->generation, requested_->generation))) {
      replacing_.old_snapshot = std::exchange(shown_, requested_);
      replacing_.old_index = std::exchange(index_, replacing_.next_index->Take());
      replacing_.next_index.reset();
      ForgetOldRows();
    }
  }
  if (!trace_->status().ok()) context->error = trace_->status().message();
  return shown_;
}

// What is answered stays.
void RunSession::ForgetOldRows() {
  if (area_worker_ != nullptr) area_worker_->Forget();
  if (moments_worker_ != nullptr) moments_worker_->Forget();
  if (plan_workers_.plan != nullptr) plan_workers_.plan->Forget();
  if (compare_workers_.beside != nullptr) compare_workers_.beside->Forget();
  compare_workers_.asked = {};
}

void RunSession::Update(double now_seconds, ui::Context* context) {
  if (trace_ == nullptr) {
    context->snapshot = shown_;
    context->index = index_;
    live_ = false;
    if (log_.offset == 0 && !shown_->run_folder.empty()) ReadLog(shown_->run_folder, context);
    return;
  }
  const bool was_away = std::exchange(context->place, watch_->seen()) != ui::RunPlace::kThere;
  // Of a run that was away when it was asked for them: the tables are listed anew.
  if (was_away && IsInPlace() && sql_ != nullptr && context->sql.tables == nullptr) {
    sql_ = std::make_unique<SqlWorker>(watch_, wake_);
  }
  if (sql_ != nullptr) sql_->Show(&context->sql);
  query::SnapshotPtr snapshot = TakeSnapshot(context);
  live_ = snapshot->state == query::TraceState::kLive;
  context->snapshot = std::move(snapshot);
  context->index = index_;
  const FindingsPtr findings = worker_->Latest();
  if (findings != nullptr &&
      query::HaveSameRows(findings->generation, context->snapshot->generation)) {
    Show(*findings, context);
  }
  Poll(now_seconds, context);
}

void RunSession::AskForFigures(FindingsRequest wanted, ui::Context* context) {
  wanted.snapshot = requested_;
  if (wanted == asked_) return;
  asked_ = std::move(wanted);
  if (trace_ == nullptr) {
    Show(*fixed_findings_.Make(asked_), context);
  } else {
    worker_->Ask(asked_);
  }
}

void RunSession::FollowBookmarks(const std::string& opened) {
  bookmarks_.worker = std::make_unique<BookmarksWorker>(opened, folder(), wake_, watch_);
}

void RunSession::ReadBookmarks(const std::string& opened) {
  ui::BookmarkList list{.file = bookmarks::FileOf(opened, shown_->run_folder)};
  Result<std::vector<bookmarks::Bookmark>> read = bookmarks::Read(list.file);
  if (!read.ok()) list.problem = read.message();
  if (read.ok()) list.all = std::move(read).value();
  bookmarks_.read = std::make_shared<const ui::BookmarkList>(std::move(list));
}

bool RunSession::UpdateBookmarks(ui::Bookmarks* shown) {
  const BookmarkListPtr list =
      bookmarks_.worker == nullptr ? bookmarks_.read : bookmarks_.worker->Latest();
  if (list == nullptr || shown_ == nullptr) return true;
  bool are_all = false;
  do {
    are_all = bookmarks_.placer.Update(*shown_, list, shown);
  } while (!are_all && list == bookmarks_.read);  // a picture waits
  return are_all;
}

SqlWorker* RunSession::sql() {
  if (sql_ == nullptr && watch_ != nullptr) sql_ = std::make_unique<SqlWorker>(watch_, wake_);
  return sql_.get();
}

void RunSession::ListTables(ui::SqlConsole* console) const {
  auto tables = query::TablesOf(watch_ == nullptr ? shown_->run_folder : path());
  if (!tables.ok()) return;  // nor can anything be selected
  console->tables =
      std::make_shared<const std::vector<query::TableColumns>>(std::move(tables).value());
}

void RunSession::UpdateSearch(bool at_once, ui::SearchState* search) {
  const bool is_asked = search->open && !Trim(search->text).empty() && shown_ != nullptr;
  if (!is_asked) {
    search->found = nullptr;
    if (search_worker_ != nullptr) search_worker_->Forget();
  } else if (at_once) {
    const bool known = search->found != nullptr && search->found->text == search->text &&
                       search->found->snapshot == shown_;
    if (!known) search->found = FindHits({search->text, shown_});
  } else {
    if (search_worker_ == nullptr) search_worker_ = std::make_unique<SearchWorker>(wake_);
    search_worker_->Ask({search->text, shown_});
    search->found = search_worker_->Latest();
  }
}

void RunSession::UpdateArea(bool at_once, ui::AreaState* area) {
  // Of a preview there are only some rows.
  const bool is_asked = area->query && shown_ != nullptr && !shown_->loading;
  const bool is_known = area->measured != nullptr && area->query == area->measured->query;
  if (!is_asked) {
    area->measured = nullptr;
    if (area_worker_ != nullptr) area_worker_->Forget();
  } else if (at_once) {
    if (!is_known) area->measured = Measure({*area->query, shown_, true});
  } else if (!is_known || !area->measured->complete || !area->measured->has_causes) {
    if (area_worker_ == nullptr) area_worker_ = std::make_unique<AreaWorker>(wake_);
    // The figures first, then what takes long.
    area_worker_->Ask({*area->query, shown_, is_known});
    area->measured = area_worker_->Latest();
  }
}

void RunSession::UpdateLens(bool at_once, ui::LensState* lens) {
  if (!lens->is_on || shown_ == nullptr) {
    if (moments_worker_ != nullptr) moments_worker_->Forget();
    return;
  }
  const MomentsRequest request{shown_, {lens->start_ns, lens->end_ns}};
  if (request.IsAnsweredBy(lens->moments)) return;
  if (at_once) {
    lens->moments = MakeMoments(request, {});
    return;
  }
  if (moments_worker_ == nullptr) {
    moments_worker_ = std::make_unique<MomentsWorker>(MakeMoments, wake_);
  }
  moments_worker_->Ask(request);
  const auto latest = moments_worker_->Latest();
  if (request.IsAnsweredBy(latest)) lens->moments = latest;
}

void RunSession::UpdatePlan(bool at_once, int32_t step, ui::PlanState* plan) {
  if (!plan->is_on || shown_ == nullptr) {
    plan_workers_.asked.reset();
    if (plan_workers_.plan != nullptr) plan_workers_.plan->Forget();
    return;
  }
  // One of a finished step stays as it is while the run goes on.
  const bool is_new = std::exchange(plan_workers_.asked, step) != step;
  const PlanRequest request{shown_, step, plan->made};
  if (at_once) {
    if (is_new) plan->made = MakePlan(request, {});
    return;
  }
  if (plan_workers_.plan == nullptr)
    plan_workers_.plan = std::make_unique<PlanWorker>(MakePlan, wake_);
  if (is_new) plan_workers_.plan->Ask(request);
  if (auto latest = plan_workers_.plan->Latest()) plan->made = std::move(latest);
}

void RunSession::UpdateSchedule(bool at_once, ui::ScheduleState* schedule) {
  if (schedule->asked == nullptr) return;
  const bool is_made = schedule->sheet != nullptr && schedule->sheet->text == schedule->asked;
  if (is_made) return;
  const ScheduleRequest request{schedule->asked, nullptr};
  if (at_once) {
    schedule->sheet = MakeSheet(request, {});
    return;
  }
  std::unique_ptr<ScheduleWorker>& worker = plan_workers_.schedule;
  if (worker == nullptr) worker = std::make_unique<ScheduleWorker>(MakeSheet, wake_);
  worker->Ask(request);
  if (auto latest = worker->Latest()) schedule->sheet = std::move(latest);
}

void RunSession::UpdateBlocks(bool at_once, const std::optional<query::BlocksQuery>& wanted,
                              ui::BlocksState* blocks) {
  if (!wanted || shown_ == nullptr) return;
  const BlocksRequest request =
      RequestBlocks(watch_ == nullptr ? shown_->run_folder : path(), *wanted, shown_, watch_);
  if (at_once) {
    const bool is_answered =
        blocks->answer != nullptr && blocks->answer->ok() && (*blocks->answer)->asked == *wanted;
    if (!is_answered) blocks->answer = ReadBlocks(request, {});
    return;
  }
  std::unique_ptr<BlocksWorker>& worker = memory_workers_.blocks;
  if (!IsInPlace()) {  // nor is an answer kept that came as it went
    blocks->answer = nullptr;
    if (worker != nullptr) worker->Forget();
    return;
  }
  if (worker == nullptr) worker = std::make_unique<BlocksWorker>(ReadBlocks, wake_);
  worker->Ask(request);
  if (auto latest = worker->Latest()) blocks->answer = std::move(latest);
}

void RunSession::UpdateMemoryChoices(bool at_once, ui::BlocksState* blocks) {
  if (!blocks->shows_choices || shown_ == nullptr) return;
  if (at_once) {
    if (blocks->choices == nullptr)
      blocks->choices = MakeMemoryChoices({analysis::ConfigAt(*shown_, INT32_MAX), nullptr}, {});
    return;
  }
  std::unique_ptr<MemoryChoicesWorker>& worker = memory_workers_.choices;
  if (worker == nullptr) worker = std::make_unique<MemoryChoicesWorker>(MakeMemoryChoices, wake_);
  worker->Ask({analysis::ConfigAt(*shown_, INT32_MAX), nullptr});
  if (auto latest = worker->Latest()) blocks->choices = std::move(latest);
}

void RunSession::UpdateCriticalPath(bool at_once, int32_t step, ui::CriticalPathState* path) {
  // Of a preview there are only some rows.
  if (!path->is_on || shown_ == nullptr || shown_->loading) {
    path->made = nullptr;
    if (path_worker_ != nullptr) path_worker_->Forget();
    return;
  }
  const int32_t wanted = FinishedStepFor(*shown_, step);
  auto known = paths_.find(wanted);
  if (known == paths_.end() && wanted >= 0) {
    const PathRequest request{shown_, wanted};
    std::shared_ptr<const analysis::StepPath> made;
    if (at_once) {
      made = MakePath(request, {});
    } else {
      if (path_worker_ == nullptr) path_worker_ = std::make_unique<PathWorker>(MakePath, wake_);
      path_worker_->Ask(request);
      made = path_worker_->Latest();
    }
    if (made != nullptr && made->step == wanted) {
      if (paths_.size() >= kMostPaths) paths_.clear();
      known = paths_.emplace(wanted, std::move(made)).first;
    }
  }
  if (known != paths_.end()) path->made = known->second;
}

void RunSession::UpdateCompare(bool at_once, bool in_front, ui::CompareState* compare) {
  std::unique_ptr<CompareWorker>& worker = compare_workers_.compare;
  if (!compare->asked || shown_ == nullptr) {
    compare->made = nullptr;
    if (worker != nullptr) worker->Forget();
    return;
  }
  if (shown_->loading) return;  // of a preview there are only some rows
  const CompareRequest request{shown_, compare->asked};
  if (at_once) {
    if (compare->is_making()) compare->made = CompareMaker({}, memory_bytes_).Make(request, {});
    return;
  }
  if (worker == nullptr) worker = std::make_unique<CompareWorker>(wake_, memory_bytes_);
  if (in_front || compare->is_making()) worker->Ask(request);
  if (auto latest = worker->Latest()) compare->made = std::move(latest);
  compare->share = worker->share();
}

void RunSession::UpdateBeside(bool at_once, int32_t step, const ui::Selection& selection,
                              ui::CompareState* compare) {
  std::unique_ptr<BesideWorker>& worker = compare_workers_.beside;
  const bool is_wanted = compare->under_lanes && shown_ != nullptr && !shown_->loading &&
                         compare->made != nullptr && compare->made->error.empty();
  if (!is_wanted) {
    compare_workers_.asked = {};
    compare->beside = nullptr;
    if (worker != nullptr) worker->Forget();
    return;
  }
  const int32_t wanted = FinishedStepFor(*shown_, step);
  BesideRequest request{shown_, compare->made, wanted, {}};
  if (!selection.op_run.is_none()) request.selected = {selection.op_run, selection.rank};
  const bool is_new = !request.Asks(compare_workers_.asked);
  compare_workers_.asked = request;
  if (at_once) {
    if (is_new) compare->beside = MakeBeside(request, {});
    return;
  }
  if (worker == nullptr) worker = std::make_unique<BesideWorker>(MakeBeside, wake_);
  if (is_new) worker->Ask(request);
  if (auto latest = worker->Latest()) compare->beside = std::move(latest);
}

bool RunSession::TakeRows(bool whole) {
  return shown_ == nullptr || index_->Advance(*shown_, whole ? SIZE_MAX : kRowsPerFrame);
}

bool RunSession::FindStalls(const ui::View& view, float width, bool whole) {
  if (shown_ == nullptr) return true;
  const timeline::Range range{view.start_ns, view.end_ns};
  const auto least_ns = static_cast<int64_t>(static_cast<double>(range.length_ns()) *
                                             double{timeline::kMinStall} / double{width});
  // Of a hundred ranks one step takes as long as many of a few.
  constexpr size_t kFewRanks = 16;
  const size_t steps = kStallStepsPerFrame * kFewRanks / std::max(kFewRanks, shown_->ranks.size());
  return index_->FindStalls(*shown_, range, least_ns,
                            whole ? SIZE_MAX : std::max<size_t>(1, steps));
}

void SessionCloser::Close(std::unique_ptr<RunSession> session) {
  if (session == nullptr) return;
  {
    const MutexLock lock(mutex_);
    sessions_.push_back(std::move(session));
  }
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }
  left_.notify_one();
}

void SessionCloser::Run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  // Asked to stop it still ends what was left before.
  while (left_.wait(lock, stop, [this]() REQUIRES(mutex_) { return !sessions_.empty(); })) {
    std::vector<std::unique_ptr<RunSession>> ending = std::exchange(sessions_, {});
    lock.unlock();
    ending.clear();
    lock.lock();
  }
}

}  // namespace shardscope::shell
