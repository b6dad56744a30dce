#include "ui/panels/lessons/lessons_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <filesystem>
#include <string_view>

#include "trace/base/text.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panel_ids.h"
#include "ui/panels/panel_frame.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/keys.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {

struct LessonsFrame : PanelFrame {
  const std::string& In(const lesson::Words& words) const {
    return words.In(context.language == ui::Language::kChinese ? "zh" : "en");
  }
};

namespace {

using lesson::Exercise;
using lesson::Lesson;
using lesson::Question;
using lesson::QuestionKind;
using ui::Text;

constexpr float kCheckWidth = 84;
constexpr float kGapOfParts = 12;

bool IsDone(const LessonsFrame& frame, const std::string& name) {
  return frame.context.lessons.done.contains(name);
}

bool IsAllDone(const LessonsFrame& frame, const Lesson& one) {
  return IsDone(frame, one.id) && IsDone(frame, one.id + ui::kQuizDone);
}

// Nothing relies on colour: it is a word.
std::string StateOf(const LessonsFrame& frame, const Lesson& one) {
  if (!IsDone(frame, one.id)) return "";
  return frame.Tr(IsAllDone(frame, one) ? Text::kLessonDone : Text::kLessonQuizOpen);
}

void DrawList(const LessonsFrame& frame) {
  const std::vector<Lesson>& all = *frame.context.lessons.all;
  frame.Say("intro", widgets::DimOf(frame.look), frame.Tr(Text::kLessonsIntro));
  int64_t done = 0;
  for (const Lesson& one : all) done += IsAllDone(frame, one) ? 1 : 0;
  const std::string counted =
      ui::TrFormat(frame.context.language, Text::kLessonsCounted, done, all.size());
  widgets::Gap(frame.look, 4);
  frame.log->Int("done", counted, done, "",
                 widgets::Paragraph(frame.look, widgets::FaintOf(frame.look), counted));
  widgets::Gap(frame.look, 4);
  for (const Lesson& one : all) {
    ImGui::PushID(one.id.c_str());
    const std::string title = fmt::format("{}  {}", one.order, frame.In(one.title));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float height = ImGui::GetTextLineHeight() + frame.look.Px(12);
    const float width = widgets::ContentWidth();
    if (ImGui::Selectable("##lesson", false, 0, {width, height})) {
      frame.commands->push_back(ui::ShowLesson{one.id});
    }
    frame.NoteItem("lesson:" + one.id, title);
    const std::string state = StateOf(frame, one);
    const float y = at.y + frame.look.Px(6);
    const float room =
        widgets::TextSize(frame.look, widgets::FaintOf(frame.look), state).x + frame.look.Px(8);
    const widgets::TextStyle style = widgets::TextOf(frame.look);
    const float title_width = width - room;
    widgets::DrawTextClipped(frame.look, style, {at.x + frame.look.Px(4), y}, title_width, title);
    if (widgets::TextSize(frame.look, style, title).x > title_width) {
      widgets::ItemTooltip(frame.look, title, {});
    }
    if (!state.empty()) {
      const ui::Box box = widgets::DrawTextRight(frame.look, widgets::FaintOf(frame.look),
                                                 {at.x + width, y}, state);
      frame.log->Text("state:" + one.id, state, box);
    }
    ImGui::PopID();
  }
}

// The run that answers are checked in is the one that is open.
bool IsRunOpen(const LessonsFrame& frame) {
  const ui::Context& context = frame.context;
  if (context.snapshot == nullptr || context.lessons.run.empty()) return false;
  std::error_code ignored;
  return std::filesystem::path(context.snapshot->run_folder).filename() ==
         std::filesystem::path(context.lessons.run).filename();
}

// Starting a lesson's run stops no other.
void SayWhatTrainsBeside(const LessonsFrame& frame) {
  const ui::Context& context = frame.context;
  const std::vector<std::string> others =
      ui::OtherLiveRuns(context.places.runs, context.lessons.run);
  if (others.empty()) return;
  const char* comma = context.language == ui::Language::kChinese ? "、" : ", ";
  frame.Say("beside", widgets::DimOf(frame.look),
            ui::TrFormat(context.language, Text::kLessonBeside, Join(others, comma)));
}

void DrawRun(const LessonsFrame& frame) {
  const ui::Context& context = frame.context;
  const bool starts = !context.starting.empty();
  if (context.places.trainer.empty()) {
    frame.Say("no_trainer", widgets::DimOf(frame.look), frame.Tr(Text::kLessonNoTrainer));
    return;
  }
  const bool has_run = !context.lessons.run.empty();
  const Text label = starts    ? Text::kLessonStarting
                     : has_run ? Text::kLessonStartAgain
                               : Text::kLessonStart;
  if (widgets::Button(frame.look, "start", frame.Tr(label),
                      has_run ? widgets::Emphasis::kQuiet : widgets::Emphasis::kPrimary, 0,
                      !starts)) {
    frame.commands->push_back(ui::StartLesson{});
  }
  frame.NoteItem("start", frame.Tr(label));
  if (!context.start_error.empty()) {
    widgets::TextStyle bad = widgets::TextOf(frame.look);
    bad.color = frame.look.theme.state.bad;
    frame.Say("start_error", bad, ui::ErrorText(context.language, context.start_error));
  }
  SayWhatTrainsBeside(frame);
  if (starts || !has_run || IsRunOpen(frame)) return;
  frame.Say("other_run", widgets::DimOf(frame.look), frame.Tr(Text::kLessonOtherRun));
  if (widgets::LinkText(frame.look, "open", frame.Tr(Text::kLessonOpenRun))) {
    frame.commands->push_back(ui::OpenRun{context.lessons.run});
  }
  frame.NoteItem("open", frame.Tr(Text::kLessonOpenRun));
}

void ShowPlace(const LessonsFrame& frame, const lesson::Place& place) {
  frame.commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
  if (place.op_run < 0) {
    frame.commands->push_back(ui::ShowStep{place.step});
    return;
  }
  frame.commands->push_back(ui::ShowRank{place.rank, place.step});
  frame.commands->push_back(ui::SelectOp{query::OpRunId(place.op_run), place.rank});
}

void DrawVerdict(const LessonsFrame& frame, const ui::JudgedAnswer& judged, std::string_view part) {
  const auto id = [&](std::string_view name) { return fmt::format("{}.{}", part, name); };
  widgets::TextStyle bad = widgets::BoldOf(frame.look);
  bad.color = frame.look.theme.state.bad;
  if (judged.is_asked) {
    frame.Say(id("checking"), widgets::DimOf(frame.look), frame.Tr(Text::kLessonChecking));
    return;
  }
  const auto say_error = [&](const std::string& error) {
    bad.font = widgets::TextOf(frame.look).font;
    frame.Say(id("error"), bad, error);
  };
  if (!judged.error.empty()) return say_error(judged.error);
  if (!judged.verdict) return;
  const lesson::Verdict& verdict = *judged.verdict;
  if (verdict.outcome == lesson::Outcome::kNoAnswer) return say_error(frame.In(verdict.reason));
  const bool is_right = verdict.outcome == lesson::Outcome::kRight;
  if (verdict.outcome != lesson::Outcome::kNotYet) {
    widgets::TextStyle style = bad;
    if (is_right) style.color = frame.look.theme.state.good;
    frame.Say(id("verdict"), style, frame.Tr(is_right ? Text::kLessonRight : Text::kLessonWrong));
  }
  frame.Say(id("reason"), widgets::TextOf(frame.look), frame.In(verdict.reason));
  if (!verdict.place || !IsRunOpen(frame)) return;
  if (widgets::LinkText(frame.look, id("show").c_str(), frame.Tr(Text::kLessonShow))) {
    ShowPlace(frame, *verdict.place);
  }
  frame.NoteItem(id("show"), frame.Tr(Text::kLessonShow));
}

// The op that is selected, as an answer: its id, and what it is called.
std::optional<std::string> SelectedName(const ui::Context& context) {
  const ui::Selection& selection = context.selection;
  if (context.snapshot == nullptr || selection.op_run.is_none()) return std::nullopt;
  const query::RankRows* rows = context.snapshot->FindRank(selection.rank);
  if (rows == nullptr) return std::nullopt;
  for (const query::OpRun& run : rows->op_runs) {
    if (run.id != selection.op_run) continue;
    const query::PlanOp* op = context.snapshot->FindPlanOp(run.plan_op);
    return fmt::format("{}, rank {}", op == nullptr ? "op" : op->name, selection.rank);
  }
  return std::nullopt;
}

// True when it was clicked, its words too. They are the last item.
bool DrawChoice(const widgets::Look& look, const std::string& id, const std::string& words,
                bool chosen) {
  ImGui::PushID(id.c_str());
  const bool clicked = ImGui::RadioButton("##choice", chosen);
  ImGui::SameLine();
  widgets::Paragraph(look, widgets::TextOf(look), words);
  if (chosen) widgets::LogControl(look, "chosen", id, words);
  ImGui::PopID();
  return clicked || ImGui::IsItemClicked();
}

}  // namespace

void LessonsPanel::DrawAnswer(const LessonsFrame& frame, const Question& question, bool quiz) {
  const char* part = quiz ? "quiz" : "task";
  const ui::Context& context = frame.context;
  std::string& answer = answers_[quiz];
  bool can_check = quiz || !context.lessons.run.empty();
  bool entered = false;
  ImGui::PushID(part);
  if (question.kind == QuestionKind::kNumber) {
    const std::string hint =
        question.unit.empty()
            ? frame.Tr(Text::kLessonAnswerNumber)
            : ui::TrFormat(context.language, Text::kLessonAnswerIn, question.unit);
    widgets::TextField(frame.look, "##answer", &answer, {.hint = hint});
    if (widgets::IsLeftByEnter()) {
      entered = true;
      ImGui::SetKeyboardFocusHere(-1);  // Enter left the field
    }
    frame.NoteItem(fmt::format("{}.field", part), answer);
  } else if (question.kind == QuestionKind::kChoice) {
    for (const lesson::Choice& choice : question.choices) {
      const std::string& words = frame.In(choice.words);
      const bool chosen = answer == choice.name;
      if (DrawChoice(frame.look, choice.name, words, chosen)) answer = choice.name;
      frame.NoteItem(fmt::format("{}.choice:{}", part, choice.name), words);
    }
  } else if (question.kind == QuestionKind::kOp) {
    const std::optional<std::string> name = SelectedName(context);
    answer = name ? std::to_string(context.selection.op_run.value()) : "";
    frame.Say("selected", widgets::DimOf(frame.look),
              name ? ui::TrFormat(context.language, Text::kLessonSelected, *name)
                   : frame.Tr(Text::kLessonNothingSelected));
  } else {
    if (widgets::LinkText(frame.look, "run_control", frame.Tr(Text::kLessonRunControl))) {
      frame.commands->push_back(ui::FocusPanel{ui::panel_ids::kRunControl});
    }
    frame.NoteItem("run_control", frame.Tr(Text::kLessonRunControl));
  }
  can_check = can_check && (question.kind == QuestionKind::kKnob || !answer.empty());
  widgets::Gap(frame.look, 4);
  const bool clicked =
      widgets::Button(frame.look, "check", frame.Tr(Text::kLessonCheck),
                      widgets::Emphasis::kPrimary, frame.look.Px(kCheckWidth), can_check);
  if (clicked || (entered && can_check)) {
    frame.commands->push_back(ui::AnswerLesson{quiz, answer});
  }
  ImGui::PopID();
  frame.NoteItem(fmt::format("{}.check", part), frame.Tr(Text::kLessonCheck));
}

void LessonsPanel::DrawQuestion(const LessonsFrame& frame, const Lesson& one, Exercise part) {
  const bool quiz = part == Exercise::kQuiz;
  const Question& question = QuestionOf(one, part);
  widgets::Gap(frame.look, kGapOfParts);
  widgets::Heading(frame.look, frame.Tr(quiz ? Text::kLessonQuiz : Text::kLessonToDo));
  frame.Say(quiz ? "quiz.ask" : "task.ask", widgets::TextOf(frame.look), frame.In(question.ask));
  if (!quiz) {
    widgets::Gap(frame.look, 4);
    DrawRun(frame);
  }
  widgets::Gap(frame.look, 4);
  DrawAnswer(frame, question, quiz);
  const ui::LessonsState& lessons = frame.context.lessons;
  const ui::JudgedAnswer& judged = quiz ? lessons.quiz : lessons.task;
  const float top = ImGui::GetCursorPosY();
  DrawVerdict(frame, judged, quiz ? "quiz" : "task");
  // What is below stays where it is while an answer is judged again.
  float& height = heights_[quiz];
  if (!judged.is_asked) {
    height = ImGui::GetCursorPosY() - top;
  } else if (ImGui::GetCursorPosY() < top + height) {
    ImGui::SetCursorPosY(top + height);
  }
}

void LessonsPanel::DrawLesson(const LessonsFrame& frame, const Lesson& one) {
  const std::vector<Lesson>& all = *frame.context.lessons.all;
  if (widgets::LinkText(frame.look, "all", frame.Tr(Text::kLessonsAll))) {
    frame.commands->push_back(ui::ShowLesson{});
  }
  frame.NoteItem("all", frame.Tr(Text::kLessonsAll));
  widgets::Gap(frame.look, 6);
  const std::string title = fmt::format("{}  {}", one.order, frame.In(one.title));
  frame.log->Text("title", title, widgets::Heading(frame.look, title));
  frame.Say("text", widgets::TextOf(frame.look), frame.In(one.text));
  DrawQuestion(frame, one, Exercise::kTask);
  widgets::Gap(frame.look, kGapOfParts);
  widgets::Heading(frame.look, frame.Tr(Text::kLessonEight));
  frame.Say("eight", widgets::TextOf(frame.look), frame.In(one.eight));
  DrawQuestion(frame, one, Exercise::kQuiz);
  widgets::Gap(frame.look, kGapOfParts);
  const auto at = static_cast<size_t>(&one - all.data());
  if (at + 1 == all.size()) return;
  if (widgets::LinkText(frame.look, "next", frame.Tr(Text::kLessonsNext))) {
    frame.commands->push_back(ui::ShowLesson{all[at + 1].id});
  }
  frame.NoteItem("next", frame.Tr(Text::kLessonsNext));
}

void LessonsPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const LessonsFrame frame{{context, widgets::LookOf(context), log, commands}};
  const ui::LessonsState& lessons = context.lessons;
  if (!lessons.is_open) commands->push_back(ui::OpenLessons{});
  if (!lessons.error.empty()) {
    widgets::TextStyle bad = widgets::TextOf(frame.look);
    bad.color = frame.look.theme.state.bad;
    frame.Say("error", bad, lessons.error);
    return;
  }
  if (lessons.all == nullptr) {
    frame.Say("reading", widgets::DimOf(frame.look), frame.Tr(Text::kLessonsReading));
    return;
  }
  if (shown_ != lessons.current) {
    shown_ = lessons.current;
    answers_.clear();
    heights_.clear();
    ImGui::SetScrollY(0);
  }
  const Lesson* one = ui::CurrentLesson(lessons);
  if (one == nullptr) return DrawList(frame);
  DrawLesson(frame, *one);
}

}  // namespace shardscope::panels
