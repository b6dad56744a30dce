#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/commands.h"
#include "app/lesson/lesson_check.h"
#include "app/lesson/lesson_text.h"
#include "app/lesson/mini_run.h"
#include "app/output_check.h"
#include "app/say.h"
#include "lesson/check.h"
#include "lesson/lesson.h"
#include "lesson/run_folders.h"
#include "trace/base/assets.h"
#include "trace/base/output_file.h"
#include "trace/base/text.h"

namespace shardscope::app {
namespace {

using lesson::Exercise;
using lesson::Lesson;

// Of an answer that is refused or cannot be judged yet, so that scripts can tell it from an error.
constexpr int kNotAccepted = 2;

struct LessonArguments {
  std::vector<std::string> ids;
  std::string folder;  // of lessons; empty: assets/lessons
  std::string language = "en";
  std::string run;
  std::string answer;
  std::string quiz;
  std::string output;
  bool start = false;
  bool check = false;
  bool print = false;
};

bool IsHtml(const std::string& path) { return EndingOf(path) == ".html"; }

// A name that asks for another format would be a lie.
Status CheckPrintFile(const std::string& path) {
  if (path.empty()) return Status::Ok();
  return CheckOutputFile(
      path, {".md", ".html"},
      "lessons are printed as Markdown or HTML; give a name that ends in .md or .html");
}

Result<std::vector<Lesson>> AllLessons(const LessonArguments& arguments) {
  if (arguments.folder.empty()) {
    return lesson::ReadLessons(FindAssets(ProgramFolder(), "lessons"));
  }
  const std::vector<std::string> files = TomlFilesIn(arguments.folder);
  if (!files.empty()) return lesson::ReadLessons(files);
  std::error_code ignored;
  return Status::Error(fmt::format("--folder {}: {}", arguments.folder,
                                   std::filesystem::is_directory(arguments.folder, ignored)
                                       ? "it has no lessons, which are files NUMBER-ID.toml"
                                       : "there is no such folder"));
}

// Those that are named, by id or number; all without a name.
Result<std::vector<Lesson>> Chosen(const LessonArguments& arguments) {
  SHARDSCOPE_ASSIGN_OR_RETURN(std::vector<Lesson> all, AllLessons(arguments));
  if (arguments.ids.empty()) return all;
  std::vector<std::string> ids;
  for (const Lesson& lesson : all) ids.push_back(lesson.id);
  std::vector<Lesson> chosen;
  for (const std::string& wanted : arguments.ids) {
    const auto found = std::ranges::find_if(all, [&](const Lesson& lesson) {
      return lesson.id == wanted || std::to_string(lesson.order) == wanted;
    });
    if (found == all.end()) {
      const std::optional<std::string> near = NearestName(wanted, ids);
      return Status::Error(fmt::format(
          "there is no lesson '{}'; {}", wanted,
          near ? fmt::format("did you mean {}?", *near) : "there are " + Join(ids, ", ")));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

Status CheckAll(const std::vector<Lesson>& lessons) {
  size_t failed = 0;
  for (const Lesson& lesson : lessons) {
    const Status status = CheckLesson(lesson);
    failed += status.ok() ? 0 : 1;
    Print(
        fmt::format("{}  {:>2} {}\n", status.ok() ? "ok    " : "FAILED", lesson.order, lesson.id));
    if (!status.ok()) Print(fmt::format("        {}\n", status.message()));
    FlushOutput();
  }
  if (failed == 0) return Status::Ok();
  return Status::Error(fmt::format("{} of {} fail; what each needs is above", failed,
                                   Counted(static_cast<int64_t>(lessons.size()), "lesson")));
}

Status PrintClass(const LessonArguments& arguments, const std::vector<Lesson>& lessons) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const TextBlocks blocks, BlocksOfClass(lessons, arguments.language));
  const std::string text =
      IsHtml(arguments.output) ? PrintHtml(blocks, arguments.language) : PrintMarkdown(blocks);
  if (!arguments.output.empty()) return WriteFile(arguments.output, text);
  Print(text);
  return Status::Ok();
}

void List(const std::vector<Lesson>& lessons, const std::string& language) {
  for (const Lesson& lesson : lessons) {
    Print(fmt::format("{:>2}  {:<14}  {}\n", lesson.order, lesson.id, lesson.title.In(language)));
  }
}

// `answered`: the question that --answer or --quiz is for.
Status Judge(const LessonArguments& arguments, const Lesson& lesson, Exercise part,
             int* exit_code) {
  lesson::Attempt attempt{.part = part,
                          .answer = part == Exercise::kTask ? arguments.answer : arguments.quiz};
  if (part == Exercise::kTask) {
    attempt.run = arguments.run;
    if (attempt.run.empty()) attempt.run = lesson::NewestRun(lesson.id).value_or("");
    if (attempt.run.empty()) {
      return Status::Error(
          fmt::format("there is no run of lesson {} here; start one: shardscope lesson {} --start",
                      lesson.id, lesson.id));
    }
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const lesson::Verdict verdict, CheckAnswer(lesson, attempt));
  if (verdict.outcome == lesson::Outcome::kNoAnswer) {
    return Status::Error(verdict.reason.In(arguments.language));
  }
  const bool is_right = verdict.outcome == lesson::Outcome::kRight;
  const bool is_zh = arguments.language == "zh";
  const std::string word = is_right ? (is_zh ? "正确。" : "Right. ")
                           : verdict.outcome == lesson::Outcome::kWrong
                               ? (is_zh ? "不对。" : "Not so. ")
                               : "";
  Print(word + verdict.reason.In(arguments.language) + "\n");
  if (!is_right && verdict.place) {
    Print(fmt::format(
        "{}: shardscope open {}  ({}{})\n", is_zh ? "看这里" : "See", attempt.run,
        fmt::format("rank {} step {}", verdict.place->rank, verdict.place->step),
        verdict.place->op_run < 0 ? "" : fmt::format(", op_run {}", verdict.place->op_run)));
  }
  if (!is_right) *exit_code = kNotAccepted;
  return Status::Ok();
}

Status RunOne(const LessonArguments& arguments, const Lesson& lesson, int* exit_code) {
  if (arguments.start) {
    const std::string folder =
        arguments.run.empty() ? lesson::NewRunFolder(lesson.id) : arguments.run;
    const Result<bool> done = TrainMiniRun(lesson, folder, [&folder] {
      Say(fmt::format("{}; watch it with: shardscope open {}", folder, folder));
    });
    if (!done.ok()) return done.status();
    if (!*done) *exit_code = 1;  // and why is on this terminal
    return Status::Ok();
  }
  if (!arguments.answer.empty()) return Judge(arguments, lesson, Exercise::kTask, exit_code);
  if (!arguments.quiz.empty()) return Judge(arguments, lesson, Exercise::kQuiz, exit_code);
  SHARDSCOPE_ASSIGN_OR_RETURN(const TextBlocks blocks, BlocksOf(lesson, arguments.language));
  Print(PrintMarkdown(blocks));
  return Status::Ok();
}

Status RunLesson(const LessonArguments& arguments, int* exit_code) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckPrintFile(arguments.output));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<Lesson> lessons, Chosen(arguments));
  if (arguments.check) return CheckAll(lessons);
  if (arguments.print) return PrintClass(arguments, lessons);
  if (arguments.ids.empty()) {
    if (arguments.start || !arguments.answer.empty() || !arguments.quiz.empty()) {
      return Status::Error("say which lesson: shardscope lesson ID ...");
    }
    List(lessons, arguments.language);
    return Status::Ok();
  }
  if (lessons.size() > 1) {
    return Status::Error("one lesson at a time; only --check and --print take several");
  }
  return RunOne(arguments, lessons.front(), exit_code);
}

}  // namespace

void AddLessonCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("lesson", "Lessons: read them, do them, have answers checked in the run");
  const auto arguments = std::make_shared<LessonArguments>();
  command->add_option("id", arguments->ids, "Which, by id or number; without: list them")
      ->type_name("ID");
  command->add_flag("--start", arguments->start, "Train its mini-run, in runs/lesson-ID-N");
  command
      ->add_option("--answer", arguments->answer,
                   "Check this answer to the thing to do; of a knob any word")
      ->type_name("X");
  command->add_option("--quiz", arguments->quiz, "Check this answer to the quiz")->type_name("X");
  command
      ->add_option("--run", arguments->run,
                   "The run that is looked at, or made by --start; default the lesson's newest")
      ->type_name("RUN");
  command->add_flag("--check", arguments->check,
                    "Do them as a learner would, right and wrong; fails if one does not work");
  CLI::Option* print = command->add_flag("--print", arguments->print,
                                         "Print them for a class, quiz answers at the end");
  command->add_option("-o,--output", arguments->output, "With --print: a file, .md or .html")
      ->needs(print)
      ->type_name("FILE");
  command->add_option("--language", arguments->language, "en or zh")
      ->check(CLI::IsMember({"en", "zh"}));
  command
      ->add_option("--folder", arguments->folder, "Lessons of your own instead of assets/lessons")
      ->type_name("FOLDER");
  command->callback([arguments, exit_code] {
    const int code = EndCommand("lesson", RunLesson(*arguments, exit_code));
    if (code != 0) *exit_code = code;
  });
}

}  // namespace shardscope::app
