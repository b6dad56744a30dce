#include "ui/panels/schedule/schedule_panel.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/plan/text.h"
#include "engine/plan/written_schedule.h"
#include "trace/base/text.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"
#include "ui/context.h"
#include "ui/panels/panel_frame.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {

struct ScheduleFrame : PanelFrame {
  const ui::ScheduleSheet& sheet() const { return *context.schedule.sheet; }
};

namespace {

using plan::Op;
using plan::OpIndex;
using ui::Text;

constexpr size_t kMostEdited = size_t{1} << 18;  // bytes: more would slow every frame
constexpr float kSelectedHeight = 92;            // of what is said of an op
constexpr float kNumberColumn = 44;
constexpr float kWaitsColumn = 110;
constexpr float kLeastStreamColumn = 80;  // where less is left, the grid scrolls to the side
constexpr size_t kListedOps = 12;
constexpr const char* kTextField = "##text";
constexpr std::string_view kEdited = " edited";  // behind the name of what it was made of

std::string NumbersText(const std::vector<OpIndex>& ops) {
  std::vector<std::string> parts;
  for (const OpIndex op : ops) {
    if (parts.size() == kListedOps) {
      parts.push_back(fmt::format("+{}", ops.size() - kListedOps));
      break;
    }
    parts.push_back(std::to_string(op));
  }
  return Join(parts, ", ");
}

// "block1 unsharded 787 kB, ...".
std::string BuffersText(const plan::Schedule& schedule, const plan::Program& program,
                        const std::vector<plan::BufferId>& buffers) {
  std::vector<std::string> parts;
  for (const plan::BufferId id : buffers) {
    const plan::Buffer& buffer = program.buffers[static_cast<size_t>(id)];
    parts.push_back(BufferName(schedule, buffer) + " " + FormatBytes(buffer.bytes));
  }
  return Join(parts, ", ");
}

ui::Color ColorOf(const ui::Theme& theme, const Op& op) {
  return ui::OpColor(theme, words::TraitsOf(op.kind).op_class);
}

// In a column: without the micro-batch where there is one only.
std::string CellName(const plan::Schedule& schedule, const Op& op) {
  std::string name = OpName(schedule, op);
  const size_t micro_batch = name.find(" m0 ");
  if (schedule.num_micro_batches == 1 && micro_batch != std::string::npos) {
    name.erase(micro_batch, 3);
  }
  return name;
}

// Of what stands under the grid while no op is selected; no more than of one.
float HeightOfHow(const ScheduleFrame& frame) {
  const widgets::TextStyle style = widgets::FaintOf(frame.look);
  const std::string_view how = frame.Tr(Text::kScheduleHow);
  const float needed =
      style.font
          ->CalcTextSizeA(frame.look.Px(style.size), FLT_MAX, widgets::ContentWidth(), how.data(),
                          how.data() + how.size())
          .y +
      2 * ImGui::GetStyle().ItemSpacing.y;
  const float most = std::max(frame.look.Px(kSelectedHeight), kSelectedHeight);
  return std::clamp(needed, kSelectedHeight, most);
}

// In the column of its stream what it is.
void DrawOpCell(const ScheduleFrame& frame, const plan::Schedule& schedule, const Op& op) {
  ImGui::TableSetColumnIndex(1 + op.stream);
  const ui::Box cell = widgets::CellLine();
  ImGui::GetWindowDrawList()->AddRectFilled({cell.x0, cell.y0}, {cell.x1, cell.y1},
                                            ColorOf(frame.look.theme, op),
                                            frame.look.Px(ui::kSmallRounding));
  widgets::DrawTextClipped(frame.look,
                           {frame.look.fonts.text, ui::kSmallTextSize,
                            ui::InkOn(frame.look.theme, ColorOf(frame.look.theme, op))},
                           {cell.x0 + frame.look.Px(4), cell.y0 + frame.look.Px(1)},
                           cell.x1 - cell.x0 - frame.look.Px(6), CellName(schedule, op));
}

}  // namespace

std::optional<query::ScheduleId> SchedulePanel::Wanted(const ui::Context& context) {
  if (chosen_) return chosen_;
  LookedIn looked{context.snapshot->run_folder, context.snapshot->generation, context.focus.step};
  if (looked_in_ != looked) in_focus_ = ui::ScheduleInFocus(context);
  looked_in_ = std::move(looked);
  return in_focus_;
}

void SchedulePanel::PutAway() {
  if (is_changed_) left_.insert_or_assign(typed_for_, typed_);
  is_changed_ = false;
  // Else Dear ImGui would write what it has of the field over the next text.
  const ImGuiID field = ImGui::GetID(kTextField);
  if (ImGui::GetActiveID() == field) ImGui::ClearActiveID();
  ImGuiInputTextDeactivatedState& last = ImGui::GetCurrentContext()->InputTextDeactivatedState;
  if (last.ID == field) last.ID = 0;
}

void SchedulePanel::Leave() {
  PutAway();
  chosen_.reset();
  looked_in_ = {};
  choices_of_.reset();
  shown_ = query::ScheduleId::None();
  run_.clear();
  asked_ = sent_ = nullptr;
}

bool SchedulePanel::ChooseSchedule(const ui::Context& context) {
  // The shell forgets what was asked when a run is closed, or opened in another part.
  if (asked_ != nullptr && context.schedule.asked == nullptr) Leave();
  const auto runs = [&](const auto& entry) { return entry.second.text == run_; };
  if (!run_.empty() && std::ranges::any_of(context.snapshot->schedules, runs)) {
    run_.clear();
    // What was changed since then stays.
    if (asked_ == sent_ && asked_ != nullptr && typed_ == *asked_) {
      chosen_.reset();
      shown_ = query::ScheduleId::None();
      is_changed_ = false;
    }
  }
  if (is_changed_) return true;  // what is typed stays
  const auto wanted = Wanted(context);
  if (!wanted) return false;
  if (*wanted == shown_) return true;
  const auto found = context.snapshot->schedules.find(*wanted);
  if (found == context.snapshot->schedules.end()) return false;
  shown_ = *wanted;
  program_ = 0;
  typed_ = found->second.text;
  const auto run_id = context.snapshot->meta.find(std::string(trace_keys::kRunId));
  std::error_code ignored;
  typed_for_ = {std::filesystem::weakly_canonical(context.snapshot->run_folder, ignored).string(),
                run_id == context.snapshot->meta.end() ? "" : run_id->second, typed_};
  asked_ = nullptr;
  if (auto left = left_.extract(typed_for_)) {
    typed_ = std::move(left.mapped());
    is_changed_ = true;
  }
  return true;
}

void SchedulePanel::Check(ui::Commands* commands) {
  asked_ = std::make_shared<const std::string>(typed_);
  selected_ = moved_to_ = plan::kNone;  // it was an op of another one
  commands->push_back(ui::CheckSchedule{asked_});
}

void SchedulePanel::DrawChoices(const ScheduleFrame& frame) {
  const query::Snapshot& snapshot = *frame.context.snapshot;
  if (choices_of_ != snapshot.generation) choices_ = ui::ScheduleChoices(snapshot);
  choices_of_ = snapshot.generation;
  std::vector<std::string> options;
  int at = 0;
  for (const ui::ScheduleChoice& choice : choices_) {
    if (std::ranges::find(choice.ids, shown_) != choice.ids.end()) {
      at = static_cast<int>(options.size());
    }
    options.push_back(fmt::format("{}: {}", options.size() + 1, Printable(choice.name, "")));
  }
  const float width = std::min(widgets::ContentWidth() * 0.45F, frame.look.Px(320));
  if (widgets::Choice(frame.look, "##schedule", options, &at, width)) {
    PutAway();
    chosen_ = choices_[static_cast<size_t>(at)].ids.front();
  }
  const size_t num_programs =
      frame.context.schedule.sheet == nullptr ? 0 : frame.sheet().schedule.programs.size();
  if (static_cast<size_t>(program_) >= num_programs) {
    program_ = 0;
    selected_ = plan::kNone;
  }
  if (num_programs > 1) {
    ImGui::SameLine(0, frame.look.Px(8));
    std::vector<std::string> programs;
    for (size_t program = 0; program < num_programs; ++program) {
      programs.push_back(
          ui::TrFormat(frame.context.language, Text::kScheduleRanks,
                       ui::RanksOfProgram(frame.sheet().schedule, static_cast<int32_t>(program))));
    }
    if (widgets::Choice(frame.look, "##program", programs, &program_, frame.look.Px(140))) {
      selected_ = plan::kNone;
    }
  }
  ImGui::SameLine(0, frame.look.Px(8));
  const int clicked =
      widgets::Segmented(frame.look, "form",
                         {.options = {frame.Tr(Text::kScheduleGrid), frame.Tr(Text::kScheduleText)},
                          .chosen = as_text_ ? 1 : 0,
                          .width = frame.look.Px(160)});
  if (clicked >= 0) as_text_ = clicked == 1;
}

void SchedulePanel::DrawVerdict(const ScheduleFrame& frame) const {
  widgets::TextStyle style = widgets::TextOf(frame.look);
  const ui::Language language = frame.context.language;
  if (frame.context.schedule.sheet == nullptr || frame.sheet().text != asked_) {
    style = widgets::DimOf(frame.look);
    return frame.Say("checking", style, frame.Tr(Text::kScheduleChecking));
  }
  const ui::ScheduleSheet& sheet = frame.sheet();
  if (!sheet.error.empty() || sheet.refusal) {
    style.color = frame.look.theme.state.bad;
    const std::string& why = sheet.error.empty() ? sheet.refusal->message : sheet.error;
    return frame.Say("refused", style,
                     ui::TrFormat(language, Text::kScheduleRefused, FirstLine(why)));
  }
  if (is_changed_ && typed_ != *asked_) {
    style = widgets::DimOf(frame.look);
    return frame.Say("changed", style, frame.Tr(Text::kScheduleChanged));
  }
  size_t ops = 0;
  for (const plan::Program& program : sheet.schedule.programs) ops += program.ops.size();
  style.color = frame.look.theme.state.good;
  frame.Say("valid", style,
            ui::TrFormat(language, Text::kScheduleValid, ops, sheet.schedule.num_ranks()));
}

void SchedulePanel::DrawRun(const ScheduleFrame& frame) {
  const ui::Context& context = frame.context;
  if (!ui::CanSteer(context)) return;
  constexpr const char* kKey = "schedule.file";
  const ui::ScheduleSheet* sheet = context.schedule.sheet.get();
  const bool is_ready = asked_ != sent_ && is_changed_ && sheet != nullptr &&
                        sheet->text == asked_ && sheet->error.empty() && !sheet->refusal &&
                        typed_ == *asked_;
  if (is_ready) {
    const bool runs = widgets::Button(frame.look, "run", frame.Tr(Text::kScheduleRun),
                                      widgets::Emphasis::kPrimary);
    frame.NoteItem("run", frame.Tr(Text::kScheduleRun));
    frame.Tip(frame.Tr(Text::kScheduleRun), frame.Tr(Text::kScheduleRunTip));
    if (runs) {
      plan::Schedule edited = sheet->schedule;
      if (!edited.name.ends_with(kEdited)) edited.name += kEdited;
      run_ = PrintSchedule(edited);
      sent_ = asked_;
      frame.commands->push_back(ui::RunSchedule{std::make_shared<const std::string>(run_)});
    }
  }
  const std::string in_force = ui::ValueInForce(context, kKey);
  const std::optional<std::string> pending = ui::PendingValue(context, kKey);
  if (pending) {
    const std::string what = pending->empty() ? frame.Tr(Text::kScheduleBuilt) : *pending;
    const std::string text = ui::TrFormat(context.language, Text::kSchedulePending, what);
    frame.Say("pending", widgets::DimOf(frame.look), text);
  } else if (!in_force.empty()) {
    const std::string text = ui::TrFormat(context.language, Text::kScheduleInForce, in_force);
    frame.Say("in_force", widgets::TextOf(frame.look), text);
    const bool goes_back = widgets::LinkText(frame.look, "back", frame.Tr(Text::kScheduleBack));
    frame.NoteItem("back", frame.Tr(Text::kScheduleBack));
    if (goes_back) frame.commands->push_back(ui::RunSchedule{nullptr});
  }
}

// Around and at the left of its row: what makes the Schedule wrong, what is before and behind the
// selected one.
void SchedulePanel::DrawOpMarks(const ScheduleFrame& frame, OpIndex index,
                                const ui::Box& row) const {
  const ui::ScheduleSheet& sheet = frame.sheet();
  const auto program = static_cast<size_t>(program_);
  const Op& op = sheet.schedule.programs[program].ops[static_cast<size_t>(index)];
  const std::string name = OpName(sheet.schedule, op);
  frame.log->Text(fmt::format("op:{}", index), name, row);
  const bool is_at_fault =
      sheet.refusal && sheet.refusal->program == program_ && sheet.refusal->op == index;
  if (is_at_fault) {
    ImGui::GetWindowDrawList()->AddRect({row.x0, row.y0}, {row.x1, row.y1},
                                        frame.look.theme.state.bad, 0, frame.look.Px(2));
    frame.log->Text("at_fault", name, row);
  }
  if (selected_ == plan::kNone || selected_ == index) return;
  const ui::ScheduleSheet::Links& links = sheet.links[program];
  const auto& before = links.before[static_cast<size_t>(selected_)];
  const auto& after = links.after[static_cast<size_t>(selected_)];
  const bool is_before = std::ranges::find(before, index) != before.end();
  const bool is_after = std::ranges::find(after, index) != after.end();
  if (!is_before && !is_after) return;
  ImGui::GetWindowDrawList()->AddRectFilled(
      {row.x0, row.y0}, {row.x0 + frame.look.Px(3), row.y1},
      is_before ? frame.look.theme.state.accent : frame.look.theme.state.good);
}

// A row an op: in the column of its stream what it is, behind them what it waits for.
void SchedulePanel::DrawOp(const ScheduleFrame& frame, OpIndex index) {
  const ui::ScheduleSheet& sheet = frame.sheet();
  const plan::Program& program = sheet.schedule.programs[static_cast<size_t>(program_)];
  const auto at = static_cast<size_t>(index);
  const Op& op = program.ops[at];
  const ui::ScheduleSheet::Links& links = sheet.links[static_cast<size_t>(program_)];
  ImGui::TableNextRow();
  ImGui::PushID(index);
  ImGui::TableSetColumnIndex(0);
  const ImVec2 start = ImGui::GetCursorPos();
  if (ImGui::Selectable("##op", index == selected_, ImGuiSelectableFlags_SpanAllColumns)) {
    selected_ = index;
    moves_.clear();
    found_ = {};
    if (!is_changed_) {
      found_ = FindPlannedOp(frame.context, shown_, sheet.schedule, program_, index);
    }
    if (!found_.op_run.is_none()) {
      frame.commands->push_back(ui::SelectOp{found_.op_run, found_.rank, false});
    }
  }
  if (index == selected_ && std::exchange(scrolls_to_selected_, false)) {
    ImGui::ScrollToItem(ImGuiScrollFlags_KeepVisibleEdgeY);
  }
  const ui::Box row = widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  DrawOpMarks(frame, index, row);
  ImGui::SetCursorPos(start);
  widgets::NumberCell(std::to_string(index));
  DrawOpCell(frame, sheet.schedule, op);
  ImGui::TableSetColumnIndex(1 + static_cast<int>(sheet.schedule.streams.size()));
  const std::string waits = NumbersText(links.before[at]);
  ImGui::TextUnformatted(waits.c_str(), waits.c_str() + waits.size());
  ImGui::PopID();
}

bool SchedulePanel::MoveSelected(const ScheduleFrame& frame, bool earlier) {
  plan::Schedule moved = frame.sheet().schedule;
  plan::Program& program = moved.programs[static_cast<size_t>(program_)];
  const OpIndex at = earlier ? IssueEarlier(selected_, &program) : IssueLater(selected_, &program);
  if (at == selected_) return false;
  typed_ = PrintSchedule(moved);
  is_changed_ = true;
  Check(frame.commands);
  moved_to_ = at;
  return true;
}

// Also while the move before is being checked, so that none is lost.
void SchedulePanel::ReadMoveKeys() {
  if (selected_ == plan::kNone && moved_to_ == plan::kNone) return moves_.clear();
  if (typed_.size() > kMostEdited || typed_ != *asked_) return;
  if (!ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows)) return;
  for (const auto& [key, earlier] :
       {std::pair(ImGuiKey_UpArrow, true), std::pair(ImGuiKey_DownArrow, false)}) {
    if (!ImGui::IsKeyChordPressed(ImGuiMod_Alt | key)) continue;
    moves_.push_back(earlier);
    // Else the arrow would move the keyboard's focus, and Alt, released, put it on the tabs.
    const ImGuiID owner = ImGui::GetID("moves");
    ImGui::SetKeyOwner(key, owner);
    ImGui::SetKeyOwner(ImGuiMod_Alt, owner);
    ImGui::NavMoveRequestCancel();
  }
}

void SchedulePanel::DrawMoves(const ScheduleFrame& frame) {
  // What is typed is checked before anything in it is moved.
  if (typed_.size() > kMostEdited || frame.sheet().text != asked_ || typed_ != *asked_) return;
  const auto link = [&](const char* id, Text text) {
    const bool clicked = widgets::LinkText(frame.look, id, frame.Tr(text));
    frame.NoteItem(id, frame.Tr(text));
    frame.Tip(frame.Tr(text), frame.Tr(Text::kScheduleMoveTip));
    return clicked;
  };
  if (link("earlier", Text::kScheduleEarlier)) moves_.push_back(true);
  ImGui::SameLine(0, frame.look.Px(14));
  if (link("later", Text::kScheduleLater)) moves_.push_back(false);
  while (!moves_.empty()) {
    const bool earlier = moves_.front();
    moves_.pop_front();
    if (MoveSelected(frame, earlier)) break;
  }
}

void SchedulePanel::DrawSelected(const ScheduleFrame& frame) {
  const ui::ScheduleSheet& sheet = frame.sheet();
  const plan::Program& program = sheet.schedule.programs[static_cast<size_t>(program_)];
  if (selected_ == plan::kNone || sheet.links.empty()) {
    widgets::Paragraph(frame.look, widgets::FaintOf(frame.look), frame.Tr(Text::kScheduleHow));
    return;
  }
  const auto at = static_cast<size_t>(selected_);
  const Op& op = program.ops[at];
  const ui::ScheduleSheet::Links& links = sheet.links[static_cast<size_t>(program_)];
  const std::string title = fmt::format("{}  {}", selected_, OpName(sheet.schedule, op));
  frame.Say("selected", widgets::BoldOf(frame.look), title);
  DrawMoves(frame);
  if (!found_.op_run.is_none()) {
    if (widgets::LinkText(frame.look, "show", frame.Tr(Text::kScheduleShow))) {
      frame.commands->push_back(ui::ShowOp{found_.op_run, found_.rank});
    }
    frame.NoteItem("show", frame.Tr(Text::kScheduleShow));
  }
  const auto line = [&](const char* id, Text words, const std::string& what) {
    if (what.empty()) return;
    const std::string text = ui::TrFormat(frame.context.language, words, what);
    frame.Say(id, widgets::DimOf(frame.look), text);
  };
  line("before", Text::kScheduleBefore, NumbersText(links.before[at]));
  line("after", Text::kScheduleAfter, NumbersText(links.after[at]));
  line("allocates", Text::kScheduleAllocates, BuffersText(sheet.schedule, program, op.allocates));
  line("reads", Text::kScheduleReads, BuffersText(sheet.schedule, program, op.reads));
  line("writes", Text::kScheduleWrites, BuffersText(sheet.schedule, program, op.writes));
  line("frees", Text::kScheduleFrees, BuffersText(sheet.schedule, program, op.frees));
}

void SchedulePanel::DrawGrid(const ScheduleFrame& frame) {
  const ui::ScheduleSheet& sheet = frame.sheet();
  if (sheet.links.empty()) {  // refused
    const std::string why =
        sheet.error.empty() && sheet.refusal ? sheet.refusal->message : sheet.error;
    if (ImGui::BeginChild("why", {0, 0}, 0, ImGuiWindowFlags_HorizontalScrollbar)) {
      ImGui::PushFont(frame.look.fonts.mono, ui::kMonoSize);
      ImGui::TextUnformatted(why.c_str(), why.c_str() + why.size());
      ImGui::PopFont();
    }
    ImGui::EndChild();
    return;
  }
  const plan::Program& program = sheet.schedule.programs[static_cast<size_t>(program_)];
  const float selected =
      selected_ == plan::kNone ? HeightOfHow(frame) : frame.look.Px(kSelectedHeight);
  const float height = std::max(ImGui::GetContentRegionAvail().y - selected, frame.look.Px(80));
  const int num_columns = 2 + static_cast<int>(sheet.schedule.streams.size());
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_ScrollY | ImGuiTableFlags_NoSavedSettings | ImGuiTableFlags_BordersInnerV;
  const float least = frame.look.Px(kLeastStreamColumn);
  const auto num_streams = static_cast<float>(sheet.schedule.streams.size());
  const bool is_broad =
      widgets::ContentWidth() >= frame.look.Px(kNumberColumn + kWaitsColumn) + least * num_streams;
  const ImGuiTableFlags flags = is_broad ? kFlags : kFlags | ImGuiTableFlags_ScrollX;
  if (ImGui::BeginTable("ops", num_columns, flags, {0, height})) {
    ImGui::TableSetupScrollFreeze(is_broad ? 0 : 1, 1);
    std::vector<std::string> titles = {frame.Tr(Text::kScheduleOp)};
    ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, frame.look.Px(kNumberColumn));
    for (const plan::Stream& stream : sheet.schedule.streams) {
      titles.push_back(Printable(stream.name, ""));
      if (is_broad) {
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
      } else {
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, least);
      }
    }
    titles.emplace_back(frame.Tr(Text::kScheduleWaits));
    ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, frame.look.Px(kWaitsColumn));
    ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
    for (int column = 0; column < num_columns; ++column) {
      if (!ImGui::TableSetColumnIndex(column)) continue;
      widgets::HeaderCell(titles[static_cast<size_t>(column)]);
    }
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(program.ops.size()));
    if (scrolls_to_selected_) clipper.IncludeItemByIndex(selected_);
    while (clipper.Step()) {
      for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) DrawOp(frame, at);
    }
    ImGui::EndTable();
  }
  if (ImGui::BeginChild("selected", {}, ImGuiChildFlags_NavFlattened)) DrawSelected(frame);
  ImGui::EndChild();
}

void SchedulePanel::DrawRevert(const ScheduleFrame& frame) {
  const bool clicked = widgets::LinkText(frame.look, "revert", frame.Tr(Text::kScheduleRevert));
  frame.NoteItem("revert", frame.Tr(Text::kScheduleRevert));
  if (!clicked) return;
  is_changed_ = false;
  shown_ = query::ScheduleId::None();  // is read again
}

void SchedulePanel::DrawText(const ScheduleFrame& frame) {
  if (typed_.size() > kMostEdited) {
    const std::string text = ui::TrFormat(frame.context.language, Text::kScheduleLarge,
                                          FormatBytes(static_cast<int64_t>(typed_.size())));
    frame.Say("large", widgets::DimOf(frame.look), text);
    return;
  }
  const bool entered_click = widgets::Button(frame.look, "check", frame.Tr(Text::kScheduleCheck),
                                             widgets::Emphasis::kPrimary);
  if (is_changed_) {
    const float button = ImGui::GetItemRectSize().y;
    ImGui::SameLine(0, frame.look.Px(10));
    const char* revert = frame.Tr(Text::kScheduleRevert);
    const float text = widgets::TextSize(frame.look, widgets::DimOf(frame.look), revert).y;
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + std::round((button - text) / 2));
    DrawRevert(frame);
  }
  // What it says at length, under the text that it is about.
  const ui::ScheduleSheet* sheet = frame.context.schedule.sheet.get();
  const bool is_refused = sheet != nullptr && sheet->text == asked_ && sheet->refusal.has_value();
  const float room = ImGui::GetContentRegionAvail().y;
  const float height = is_refused ? room * 0.6F : room;
  const bool entered = widgets::TextArea(frame.look, kTextField, &typed_, {-FLT_MIN, height});
  if (ImGui::IsItemEdited()) is_changed_ = true;
  if (entered || entered_click) Check(frame.commands);
  if (!is_refused) return;
  if (ImGui::BeginChild("why", {0, 0}, 0, ImGuiWindowFlags_HorizontalScrollbar)) {
    ImGui::PushFont(frame.look.fonts.mono, ui::kMonoSize);
    const std::string& why = sheet->refusal->message;
    ImGui::TextUnformatted(why.c_str(), why.c_str() + why.size());
    ImGui::PopFont();
  }
  ImGui::EndChild();
}

void SchedulePanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const ScheduleFrame frame{{context, widgets::LookOf(context), log, commands}};
  if (context.snapshot == nullptr) return frame.Empty(Text::kScheduleEmpty);
  if (!ChooseSchedule(context)) {
    const bool may_come = context.snapshot->loading || query::MayGrow(context.snapshot->state);
    return frame.Empty(may_come ? Text::kScheduleReading : Text::kScheduleNone);
  }
  if (asked_ == nullptr) Check(commands);
  widgets::Gap(frame.look, 4);
  DrawChoices(frame);
  widgets::Gap(frame.look, 2);
  DrawVerdict(frame);
  DrawRun(frame);
  widgets::Gap(frame.look, 2);
  if (as_text_) return DrawText(frame);
  if (is_changed_) DrawRevert(frame);
  if (context.schedule.sheet == nullptr) return;
  // Ops are numbered anew in each. One in which an op was moved takes the place of that before.
  const bool is_asked = frame.sheet().text == asked_;
  if (is_asked && moved_to_ != plan::kNone) {
    selected_ = std::exchange(moved_to_, plan::kNone);
    scrolls_to_selected_ = true;
  }
  ReadMoveKeys();
  if (is_asked || moved_to_ != plan::kNone) DrawGrid(frame);
}

ui::TableMaker SchedulePanel::AsTable(const ui::Context& context) const {
  const auto& shown = context.schedule.sheet;
  if (shown == nullptr || shown->links.size() <= static_cast<size_t>(program_)) return nullptr;
  return [sheet = shown, program = static_cast<size_t>(program_)] {
    ui::Table table{{"op", "name", "kind", "stream", "after", "payload_bytes", "allocates", "reads",
                     "writes", "frees"},
                    {}};
    const plan::Program& ops = sheet->schedule.programs[program];
    for (size_t at = 0; at < ops.ops.size(); ++at) {
      const Op& op = ops.ops[at];
      const auto buffers = [&](const std::vector<plan::BufferId>& ids) {
        return BuffersText(sheet->schedule, ops, ids);
      };
      std::vector<std::string> before;
      for (const OpIndex index : sheet->links[program].before[at]) {
        before.push_back(std::to_string(index));
      }
      table.rows.push_back(
          {std::to_string(at), OpName(sheet->schedule, op), std::string(words::Name(op.kind)),
           sheet->schedule.streams[static_cast<size_t>(op.stream)].name, Join(before, " "),
           std::to_string(op.payload_bytes), buffers(op.allocates), buffers(op.reads),
           buffers(op.writes), buffers(op.frees)});
    }
    return table;
  };
}

}  // namespace shardscope::panels
