#include "ui/shell/shell.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "trace/base/assets.h"
#include "trace/base/time.h"
#include "ui/open_error.h"
#include "ui/panel_ids.h"
#include "ui/panels/banner/banner_panel.h"
#include "ui/panels/notice/notice_panel.h"
#include "ui/panels/overlap/overlap_bars.h"
#include "ui/panels/top_bar/top_bar_panel.h"
#include "ui/shell/backend/gui.h"
#include "ui/shell/key_input.h"
#include "ui/shell/run/places.h"
#include "ui/text.h"
#include "ui/timeline/facts.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/run_index.h"
#include "ui/timeline/shown_steps.h"
#include "ui/timeline/steps.h"

namespace shardscope::shell {
namespace {

constexpr double kPlacesSeconds = 2;
constexpr double kStartingSeconds = 0.1;  // how often a started training is looked for
constexpr double kLiveSeconds = 0.25;     // control status and log of a live run
constexpr double kIdleSeconds = 3600;     // nothing to wait for but input and new rows
constexpr size_t kUnfoldedRanks = 3;
constexpr int kPictureBars = 24;
constexpr size_t kMaxMessages = 500;
constexpr double kNoticeSeconds = 5;
constexpr double kErrorSeconds = 15;  // so long it takes to read one
constexpr const char* kHost = "##host";
constexpr const char* kDockSpace = "dock";

Extent ExtentOf(const ui::Context& context) {
  if (!context.snapshot) return {};
  const query::Snapshot& snapshot = *context.snapshot;
  const int64_t newest_ns = context.index->NewestNs();
  return {snapshot.start_ns, snapshot.end_ns, newest_ns == INT64_MIN ? snapshot.end_ns : newest_ns};
}

}  // namespace

Shell::Shell(ShellOptions options, const ui::Fonts& fonts)
    : options_(std::move(options)), draw_log_(options_.log_drawing), saver_(options_.wake) {
  context_.fonts = fonts;
  context_.language = options_.settings.language;
  context_.theme_name = options_.settings.theme;
  context_.scale = options_.settings.scale == 0 ? options_.default_scale : options_.settings.scale;
  context_.headless = options_.headless;
  context_.sql.history = options_.settings.statements;
  if (options_.log_widgets) context_.widgets_log = &draw_log_;
  context_.lanes.legend = options_.settings.legend;
  context_.lessons.done = {options_.settings.lessons_done.begin(),
                           options_.settings.lessons_done.end()};
  if (!options_.settings_folder.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(options_.settings_folder, ignored);
    ini_path_ = fmt::format("{}/layout-{}.ini", options_.settings_folder, kLayoutVersion);
    ImGui::GetIO().IniFilename = ini_path_.c_str();
  }
}

Shell::~Shell() {
  RememberLook();
  ImGui::GetIO().IniFilename = nullptr;
}

std::string Shell::ProgramsFolder() const {
  return options_.program_folder.empty() ? ProgramFolder() : options_.program_folder;
}

double Shell::Now() const { return options_.headless ? 0 : ImGui::GetTime(); }

void Shell::Say(const std::string& message) {
  context_.log.push_back(message);
  if (context_.log.size() > kMaxMessages) context_.log.erase(context_.log.begin());
}

void Shell::Notify(const std::string& text, bool is_error) {
  context_.notice = {text, is_error, Now() + (is_error ? kErrorSeconds : kNoticeSeconds)};
}

bool Shell::IsOpen(const std::string& path) const {
  std::error_code ignored;
  return session_ != nullptr &&
         std::filesystem::weakly_canonical(path, ignored).string() == context_.path;
}

Status Shell::Open(const std::string& path, std::optional<int32_t> around_step) {
  auto session = RunSession::Open(path, options_.wake, {options_.memory_bytes, around_step});
  if (!session.ok()) {
    context_.error =
        ui::OpenErrorText(context_.language, path, ui::IsMissing(path), session.message());
    Say(session.message());
    return session.status();
  }
  context_.compare.Forget();  // it was of the run before
  Use(std::move(session).value());
  Remember(path);
  if (context_.importing) context_.importing->previews = false;  // no longer what is open
  EndImport();
  return Status::Ok();
}

void Shell::RememberLook() {
  const auto& recent = options_.settings.recent;
  if (context_.report == nullptr || context_.snapshot->ranks.empty() ||
      std::find(recent.begin(), recent.end(), context_.path) == recent.end()) {
    return;
  }
  const int32_t rank = context_.snapshot->ranks.front().rank;
  std::vector<ui::PictureBar> picture;
  for (const panels::OverlapBar& bar :
       panels::MakeBars(context_.report->steps, rank, kPictureBars, /*change_step=*/-1)) {
    picture.push_back({bar.compute_ns, bar.exposed_ns, bar.idle_ns, bar.exposed_copy_ns});
  }
  if (picture.empty()) return;
  options_.settings.pictures[context_.path] = std::move(picture);
  SaveSettings(options_.settings, options_.settings_folder);
  next_places_seconds_ = 0;
}

void Shell::Use(std::unique_ptr<RunSession> session) {
  CloseSession();
  session_ = std::move(session);
  session_->Update(Now(), &context_);
  focus_ = ui::panel_ids::kTimeline;
}

void Shell::Remember(const std::string& path) {
  std::error_code ignored;
  context_.path = std::filesystem::weakly_canonical(path, ignored).string();
  session_->FollowBookmarks(context_.path);
  AddRecent(context_.path, &options_.settings);
  SaveSettings(options_.settings, options_.settings_folder);
  next_places_seconds_ = 0;
}

void Shell::Import(const std::string& path) {
  EndImport();
  context_.compare.Forget();
  importer_ = std::make_unique<RunImporter>(
      path, options_.wake, query::ReadLimits{.memory_bytes = options_.memory_bytes});
  context_.importing = ui::Importing{std::filesystem::path(path).filename().string(), 0, 0, false};
}

// The import is left to end by itself: no frame waits for it.
void Shell::EndImport() {
  if (context_.importing && context_.importing->previews) CloseSession();
  context_.importing.reset();
  if (importer_ == nullptr) return;
  if (link_ && link_->of_import) link_.reset();
  importer_->Cancel();
  cancelled_.push_back(std::move(importer_));
}

void Shell::UpdateImport() {
  std::erase_if(cancelled_, [](const auto& importer) { return importer->ended(); });
  if (importer_ == nullptr) return;
  context_.importing->share = importer_->share();
  context_.importing->left_ns = importer_->left_ns();
  if (std::unique_ptr<RunSession> preview = importer_->TakePreview()) {
    Use(std::move(preview));
    context_.importing->previews = true;
    std::error_code ignored;
    context_.path = std::filesystem::weakly_canonical(importer_->path(), ignored).string();
  }
  std::optional<Result<std::unique_ptr<RunSession>>> run = importer_->TakeRun();
  if (!run) return;
  if (!run->ok()) {
    const std::string path = importer_->path();
    EndImport();
    context_.error =
        ui::OpenErrorText(context_.language, path, ui::IsMissing(path), run->message());
    Say(run->message());
    focus_ = ui::panel_ids::kRuns;
    return;
  }
  // Who looks closely at the preview goes on doing so.
  const bool keeps_view = context_.importing->previews && view_.has_history();
  const ui::View view = view_.goal();
  Use(std::move(*run).value());
  Remember(importer_->path());
  if (keeps_view) {
    view_.Reset(view);
    view_.set_is_settled(true);
  }
  context_.importing.reset();
  importer_.reset();
}

void Shell::OpenSnapshot(query::SnapshotPtr snapshot) {
  CloseSession();
  context_.path = snapshot->run_folder;
  session_ = RunSession::OfSnapshot(std::move(snapshot));
  session_->Update(Now(), &context_);
  focus_ = ui::panel_ids::kTimeline;
}

void Shell::ShowStep(int32_t step) {
  if (!context_.snapshot) return;
  ShowFirst(*context_.snapshot, step);
  view_.set_is_settled(true);
}

// What a run shows when it is opened: a view that teaches, with the op that teaches most selected,
// and as many ranks unfolded as the default window holds.
void Shell::ShowFirst(const query::Snapshot& snapshot, int32_t step) {
  view_.Reset(InitialView(snapshot, step));
  if (!context_.lanes.are_arranged) {
    for (size_t i = kUnfoldedRanks; i < snapshot.ranks.size(); ++i) {
      context_.lanes.folded_ranks.insert(snapshot.ranks[i].rank);
    }
  }
  if (snapshot.state == query::TraceState::kLive && !options_.headless) return;
  timeline::Range range{view_.view().start_ns, view_.view().end_ns};
  if (const auto asked = step < 0 ? std::nullopt : timeline::FindStep(snapshot, step)) {
    range = timeline::Range{asked->start_ns, asked->end_ns};
  }
  if (const auto op_run = timeline::MostInstructiveOp(snapshot, range)) {
    context_.selection = {*op_run, snapshot.ranks.front().rank, {}};
  } else if (const auto work = timeline::LongestWork(snapshot, range)) {
    context_.selection = {query::OpRunId::None(), work->rank, {}, work->id};
  }
}

void Shell::UpdateStarting() {
  if (!starting_) return;
  const TrainerProcess::State state = starting_->Poll();
  if (state == TrainerProcess::State::kStarting) return;
  const std::string folder = starting_->folder();
  const std::string error = starting_->error();
  if (state == TrainerProcess::State::kFailed) {
    starting_.reset();
    context_.starting.clear();
    context_.start_error = error;
    Say(error);
    focus_ = ui::panel_ids::kRuns;
    return;
  }
  // The file appears a moment before its tables: an error now is no error yet, while the child
  // lives.
  if (Open(folder).ok()) {
    first_step_ = std::move(starting_);
    starting_.reset();
    context_.starting.clear();
    context_.error.clear();
  } else if (!context_.log.empty()) {
    context_.log.pop_back();
    context_.error.clear();
  }
}

// A training that dies before its first step leaves an empty trace: the reason is in its output.
void Shell::UpdateFirstStep() {
  if (!first_step_) return;
  const bool other_run = !context_.snapshot || !IsOpen(first_step_->folder());
  const bool has_step = context_.report && !context_.report->steps.empty();
  if (!other_run && !has_step) {
    if (!first_step_->Ended()) return;
    context_.start_error = first_step_->error();
    Say(context_.start_error);
    focus_ = ui::panel_ids::kRuns;
  }
  first_step_.reset();
}

void Shell::UpdatePlaces() {
  if (options_.headless) {
    // Which runs were opened, and which are in this folder, is no part of a picture.
    if (context_.places.new_folder.empty()) context_.places = FindProgramPlaces(ProgramsFolder());
    return;
  }
  if (Now() < next_places_seconds_) return;
  next_places_seconds_ = Now() + kPlacesSeconds;
  context_.places = FindPlaces(options_.settings.recent, ProgramsFolder());
  for (ui::RunEntry& run : context_.places.runs) {
    const auto found = options_.settings.pictures.find(run.path);
    if (found != options_.settings.pictures.end()) run.picture = found->second;
  }
}

// What was answered rightly stays done.
void Shell::UpdateLessons() {
  if (lesson_worker_ == nullptr) return;
  ui::LessonsState& lessons = context_.lessons;
  lesson_worker_->Show(&lessons);
  const auto note = [&](const ui::JudgedAnswer& answer, const std::string& name) {
    const bool is_right = answer.verdict && answer.verdict->outcome == lesson::Outcome::kRight;
    if (!is_right || !lessons.done.insert(name).second) return;
    options_.settings.lessons_done.assign(lessons.done.begin(), lessons.done.end());
    SaveSettings(options_.settings, options_.settings_folder);
  };
  note(lessons.task, lessons.current);
  note(lessons.quiz, lessons.current + ui::kQuizDone);
}

void Shell::UpdateContext() {
  UpdateImport();
  UpdateStarting();
  UpdatePlaces();
  UpdateLessons();
  context_.time_seconds = Now();
  if (context_.notice.until_seconds < Now()) context_.notice = {};
  if (session_) {
    session_->Update(Now(), &context_);
    const query::Snapshot& snapshot = *context_.snapshot;
    const bool has_steps = !snapshot.ranks.empty() && !snapshot.ranks.front().steps.empty();
    if (view_.has_history()) view_.set_is_settled(true);  // by the user
    if (!view_.is_settled() && (has_steps || snapshot.end_ns > snapshot.start_ns)) {
      ShowFirst(snapshot, -1);
      // Until the first step is done the view grows with the run. A recorded program that has ended
      // has none.
      view_.set_is_settled(has_steps || !(query::MayGrow(snapshot.state) || snapshot.loading));
      if (session_->live() && !options_.headless) {
        ui::View followed = view_.view();
        followed.follow = true;
        view_.Reset(followed);
      }
    }
    UpdateLink();
    wants_.frame = !session_->TakeRows(options_.headless);
    session_->UpdateSearchAreaAndLens(options_.headless, &context_);
  }
  SayWhatWasSaved();
  UpdateFirstStep();
  lens_player_.Advance(Now());
  view_.Advance(ExtentOf(context_), Now());
  KeepHoverUnderMouse(view_.view());
  context_.view = view_.view();
  if (session_ && !wants_.frame) {
    const float width = ImGui::GetMainViewport()->Size.x;
    wants_.frame = !session_->FindStalls(context_.view, width, options_.headless);
  }
  if (session_) {
    UpdateBookmarks();
    context_.focus.step = timeline::FocusedStep(context_);
    const PanelIds in_front = panel_frames_.InFront();
    session_->UpdatePanels(options_.headless, in_front, &context_);
    session_->AskForFigures(timeline::WantedScope(context_), in_front, &context_);
  }
  context_.theme = &ui::GetTheme(context_.theme_name);
}

ui::TableMaker Shell::TableOf(std::string_view panel) const {
  if (panel == ui::panel_ids::kSearch) return panels::SearchPanel::AsTable(context_);
  return panel_frames_.TableOf(panel, context_);
}

void Shell::KeepPicture(ui::PictureKind kind, std::function<Result<std::string>()> make) {
  SaveFile({.name = "shardscope",
            .extension = kind == ui::PictureKind::kSvg ? ".svg" : ".png",
            .make = std::move(make)});
}

void Shell::SaveFile(SavedFile file) {
  file.folder = ExportsFolder(context_.path, session_ == nullptr ? "" : session_->folder());
  if (file.folder.empty()) return Notify(Tr(context_.language, ui::Text::kSaveNoRun), true);
  if (session_ != nullptr) file.run = session_->watch();
  saver_.Save(std::move(file));
}

void Shell::SayWhatWasSaved() {
  for (const Result<std::string>& path : saver_.TakeEnded()) {
    const std::string text =
        path.ok() ? TrFormat(context_.language, ui::Text::kSaved, *path)
                  : TrFormat(context_.language, ui::Text::kSaveFailed, path.message());
    Notify(text, !path.ok());
    Say(text);
  }
}

void Shell::UpdateBookmarks() {
  // Those of a fixed snapshot are in memory only; pictures have none.
  if (session_->bookmarks() == nullptr && session_->folder().empty() && !options_.headless) {
    session_->FollowBookmarks("");
  }
  const BookmarkListPtr before = context_.bookmarks.list;
  if (!session_->UpdateBookmarks(&context_.bookmarks)) wants_.frame = true;
  const BookmarkListPtr& list = context_.bookmarks.list;
  const bool is_news = list != nullptr && !list->problem.empty() &&
                       (before == nullptr || before->problem != list->problem);
  if (!is_news) return;
  const ui::Text text =
      list->unsaved > 0 ? ui::Text::kBookmarksNotKept : ui::Text::kBookmarksUnread;
  Notify(TrFormat(context_.language, text, list->problem), true);
}

// The view moves under a mouse that rests: it follows a live run, or is animated.
void Shell::KeepHoverUnderMouse(const ui::View& next) {
  const ui::View& before = context_.view;
  const int64_t length_ns = before.end_ns - before.start_ns;
  if (context_.hover_ns < 0 || length_ns <= 0) return;
  const double share =
      static_cast<double>(context_.hover_ns - before.start_ns) / static_cast<double>(length_ns);
  context_.hover_ns =
      next.start_ns + std::llround(share * static_cast<double>(next.end_ns - next.start_ns));
}

void Shell::ApplyLook() {
  if (!look_changed_) return;
  look_changed_ = false;
  context_.theme = &ui::GetTheme(context_.theme_name);
  ApplyStyle(*context_.theme, context_.scale);
}

void Shell::DrawDockSpace() {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float scale = context_.scale;
  const float margin = ui::kGrid * scale;
  const float banner = panels::BannerHeight(context_);
  const float top = ui::kTopBarHeight * scale + (banner > 0 ? banner + margin : 0);
  const ImVec2 position(viewport->Pos.x + margin, viewport->Pos.y + top + margin);
  const ImVec2 size(viewport->Size.x - 2 * margin, viewport->Size.y - top - 2 * margin);
  ImGui::SetNextWindowPos(position);
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::Begin(kHost, nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                   ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoNavFocus | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings);
  ImGui::PopStyleVar();
  const ImGuiID dock = ImGui::GetID(kDockSpace);
  const ColumnsFor now{size.x, scale};
  if (ImGui::DockBuilderGetNode(dock) == nullptr || layout_.is_to_reset) {
    layout_.is_to_reset = false;
    BuildDefaultLayout(dock, size, scale);
    if (focus_.empty()) focus_ = ui::panel_ids::kTimeline;
    layout_.columns = now;
    layout_.wanted = {};
  } else if (layout_.columns != now && FitColumns(layout_.columns, now, &layout_.wanted)) {
    layout_.columns = now;
  }
  ImGui::PushFont(context_.fonts.bold, ui::kTitleSize);  // of the tabs
  ImGui::DockSpace(dock, {0, 0},
                   ImGuiDockNodeFlags_NoWindowMenuButton | ImGuiDockNodeFlags_NoCloseButton);
  ImGui::PopFont();
  ImGui::End();
}

void Shell::DrawBanner(ui::Commands* commands) {
  const float height = panels::BannerHeight(context_);
  if (height <= 0) return;
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float margin = ui::kGrid * context_.scale;
  const ImVec2 at(viewport->Pos.x + margin,
                  viewport->Pos.y + ui::kTopBarHeight * context_.scale + margin);
  const ImVec2 size(viewport->Size.x - 2 * margin, height);
  ImGui::SetNextWindowPos(at);
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, context_.theme->surface.window);
  ImGui::Begin("##banner", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                   ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNavFocus |
                   ImGuiWindowFlags_NoFocusOnAppearing);  // else what is typed became shortcuts
  draw_log_.SetPanel(ui::panel_ids::kBanner);
  panels::DrawBanner(context_, {at.x, at.y, at.x + size.x, at.y + size.y}, &draw_log_, commands);
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

void Shell::DrawWindow(ui::Commands* commands) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport->Pos);
  ImGui::SetNextWindowSize({viewport->Size.x, ui::kTopBarHeight * context_.scale});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0.0f);
  ImGui::Begin("##top_bar", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                   ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNavFocus);
  draw_log_.SetPanel(ui::panel_ids::kTopBar);
  panels::DrawTopBar(context_, &draw_log_, commands);
  ImGui::End();
  ImGui::PopStyleVar();
  DrawBanner(commands);
  DrawDockSpace();
  if (panel_frames_.Draw(context_, focus_, &draw_log_, commands)) focus_.clear();
  search_panel_.Draw(context_, &draw_log_, commands);
  overlays_.Draw(context_, &draw_log_, commands);
  panels::DrawNotice(context_, &draw_log_, commands);
}

void Shell::Frame() {
  last_frame_ = std::chrono::steady_clock::now();
  draw_log_.Clear();
  wants_.frame = false;
  ui::Commands commands = std::exchange(posted_, {});
  ApplyLook();
  UpdateContext();
  if (!options_.headless)
    ReadKeys(context_, panel_frames_.with_keyboard(), view_.goal(), &commands);
  DrawWindow(&commands);
  ForgetLostFocus();
  // Of panels only those that are drawn say what is under the mouse.
  const bool hovers = std::ranges::any_of(
      commands, [](const auto& command) { return std::holds_alternative<ui::SetHover>(command); });
  for (const ui::Command& command : commands) Dispatch(command);
  if (!hovers) Dispatch(ui::SetHover{});
}

double Shell::SecondsUntilPoll() const {
  if (view_.animating() || context_.lens.plays || !posted_.empty() || look_changed_ ||
      !focus_.empty() || layout_.is_to_reset || wants_.frame ||
      wants_.picture != ui::PictureKind::kNone) {
    return 0;
  }
  if (starting_ || first_step_) return kStartingSeconds;
  const double seconds = session_ && session_->live() ? kLiveSeconds : kIdleSeconds;
  if (context_.notice.text.empty()) return seconds;
  return std::clamp(context_.notice.until_seconds - Now(), kStartingSeconds, seconds);
}

bool Shell::Poll() {
  // Only a frame looks whether a started training has come, and moves what is animated.
  if (starting_ || first_step_ || SecondsUntilPoll() == 0) return true;
  // Dear ImGui's clock stands still between frames.
  const std::chrono::duration<double> idle = std::chrono::steady_clock::now() - last_frame_;
  const bool is_over =
      !context_.notice.text.empty() && context_.notice.until_seconds < Now() + idle.count();
  return is_over || (session_ != nullptr && session_->Poll(Now() + idle.count(), &context_));
}

}  // namespace shardscope::shell
