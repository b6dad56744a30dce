#include "ui/shell/run/run_session.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "trace/base/input_file.h"
#include "trace/base/text.h"
#include "ui/blocks.h"
#include "ui/panel_ids.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/run_index.h"

namespace shardscope::shell {
namespace {

// What one frame may take into the index: rows and steps for some 4 ms each. What is more
// arrives over some frames.
constexpr size_t kRowsPerFrame = 30'000;
constexpr size_t kStallStepsPerFrame = 8;
constexpr double kLogSeconds = 0.5;
constexpr size_t kMaxLogLines = 2000;
constexpr size_t kMaxLogRead = 256 * 1024;  // bytes a look; of a longer log only the end is read

bool IsAmong(const PanelIds& panels, std::string_view id) {
  return std::ranges::find(panels, id) != panels.end();
}

}  // namespace

Result<std::unique_ptr<RunSession>> RunSession::Open(const std::string& path,
                                                     std::function<void()> wake,
                                                     const query::ReadLimits& limits) {
  auto watch = std::make_shared<FolderWatch>(path);  // before anything is read
  SHARDSCOPE_ASSIGN_OR_RETURN(auto trace, query::LiveTrace::Open(path, wake, limits));
  std::unique_ptr<RunSession> session(new RunSession(wake, std::move(watch), limits.memory_bytes));
  session->trace_ = std::move(trace);
  session->worker_ = std::make_unique<ReportWorker>(wake);
  session->control_ = std::make_unique<ControlLink>(session->trace_->Latest()->run_folder);
  return session;
}

std::unique_ptr<RunSession> RunSession::OfSnapshot(query::SnapshotPtr snapshot) {
  std::unique_ptr<RunSession> session(new RunSession(nullptr, nullptr, 0));
  session->requested_ = session->shown_ = std::move(snapshot);
  return session;
}

RunSession::RunSession(std::function<void()> wake, std::shared_ptr<FolderWatch> watch,
                       int64_t memory_bytes)
    : wake_(std::move(wake)),
      watch_(std::move(watch)),
      index_(std::make_shared<timeline::RunIndex>()),
      plan_workers_(wake_),
      memory_workers_(wake_, watch_),
      critical_paths_(wake_),
      compare_workers_(wake_, memory_bytes) {}

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
  plan_workers_.ForgetRows();
  compare_workers_.ForgetRows();
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

void RunSession::AskForFigures(const analysis::Scope& scope, const PanelIds& in_front,
                               ui::Context* context) {
  FindingsRequest wanted{.snapshot = requested_,
                         .scope = scope,
                         .ranks = IsAmong(in_front, ui::panel_ids::kRanks),
                         .collectives = IsAmong(in_front, ui::panel_ids::kCollectives),
                         .step_table = IsAmong(in_front, ui::panel_ids::kSteps)};
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

void RunSession::UpdateSearchAreaAndLens(bool at_once, ui::Context* context) {
  UpdateSearch(at_once, &context->search);
  UpdateArea(at_once, &context->area);
  UpdateLens(at_once, &context->lens);
}

void RunSession::UpdatePanels(bool at_once, const PanelIds& in_front, ui::Context* context) {
  const int32_t step = context->focus.step;
  plan_workers_.UpdatePlan(at_once, shown_, step, &context->plan);
  plan_workers_.UpdateSchedule(at_once, &context->schedule);
  critical_paths_.Update(at_once, shown_, step, &context->critical_path);
  compare_workers_.UpdateCompare(at_once, shown_, IsAmong(in_front, ui::panel_ids::kCompare),
                                 &context->compare);
  compare_workers_.UpdateBeside(at_once, shown_, step, context->selection, &context->compare);
  if (!IsAmong(in_front, ui::panel_ids::kBlocks)) return;
  memory_workers_.UpdateBlocks(at_once, shown_, ui::WantedBlocks(*context), context->lens.plays,
                               &context->blocks);
  memory_workers_.UpdateChoices(at_once, shown_, &context->blocks);
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

}  // namespace shardscope::shell
