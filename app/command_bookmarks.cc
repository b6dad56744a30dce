#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/commands.h"
#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/base/json_line.h"
#include "trace/base/text.h"
#include "trace/bookmarks/bookmarks.h"
#include "trace/query/live_trace.h"
#include "trace/query/summary.h"
#include "trace/store/run_files.h"
#include "ui/link.h"
#include "ui/timeline/link_place.h"

namespace shardscope::app {
namespace {

using bookmarks::Bookmark;

constexpr size_t kPlaceColumns = 48;
constexpr size_t kNoteColumns = 100;

struct BookmarksArguments {
  std::string run;
  std::optional<std::string> add;  // a link
  std::string note;
  std::optional<std::string> remove;  // an id
  bool json = false;
};

Status AddError(const ui::LinkError& error) {
  return Status::Error("--add: " + LinkErrorText(ui::Language::kEnglish, error));
}

// What stands behind the # of a link to `run`, or the whole of it.
Result<ui::Link> PlaceOf(const std::string& link, const std::string& run) {
  if (Contains(link, "#")) {
    const auto parsed = ui::ParseLinkedRun(link);
    if (const auto* error = std::get_if<ui::LinkError>(&parsed)) return AddError(*error);
    const auto& linked = std::get<ui::LinkedRun>(parsed);
    std::error_code ignored;
    if (!linked.path.empty() && !std::filesystem::equivalent(linked.path, run, ignored)) {
      return Status::Error(
          fmt::format("--add {}: that is a link to another run than {}", link, run));
    }
    if (linked.link) return *linked.link;
  }
  const auto parsed = ui::ParseLink(link);
  if (const auto* error = std::get_if<ui::LinkError>(&parsed)) return AddError(*error);
  return std::get<ui::Link>(parsed);
}

Status CheckNote(const std::string& note) {
  if (note.size() > bookmarks::kMostNoteBytes) {
    return Status::Error(
        fmt::format("--note: a note has up to {} bytes", bookmarks::kMostNoteBytes));
  }
  if (!IsPlainUtf8(note)) return Status::Error("--note: give one line of text in UTF-8");
  return Status::Ok();
}

std::string PrintBookmarksJson(const std::string& file, const std::vector<Bookmark>& all) {
  nlohmann::ordered_json json = {{"file", file}, {"bookmarks", nlohmann::json::array()}};
  for (const Bookmark& one : all) {
    json["bookmarks"].push_back(
        {{"id", one.id}, {"link", one.link}, {"note", one.note}, {"made", one.made}});
  }
  return JsonText(json);
}

std::string PrintBookmarksText(const std::string& file, const std::vector<Bookmark>& all) {
  std::string text = fmt::format("{} in {}\n", Counted(std::ssize(all), "bookmark"), file);
  if (all.empty()) return text;
  size_t columns = std::string_view("place").size();
  for (const Bookmark& one : all) columns = std::max(columns, TerminalWidth(one.link));
  columns = std::min(columns, kPlaceColumns);
  text += fmt::format("\n{:<10}  {:<{}}  note\n", "id", "place", columns);
  for (const Bookmark& one : all) {
    const std::string place = Shortened(Printable(one.link), columns);
    text += fmt::format("{:<10}  {}{}  {}\n", Printable(one.id), place,
                        std::string(columns - std::min(columns, TerminalWidth(place)), ' '),
                        Shortened(Printable(one.note), kNoteColumns));
  }
  return text;
}

// Whether that place is in the run. One that goes on may come to it yet.
Status CheckPlace(const ui::Link& link, const std::string& run) {
  if (query::LookAtRun(run).live) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(query::SnapshotPtr snapshot, query::ReadSummary(run));
  // What a summary lacks (evaluations, memory, unfinished steps) may be in the run all the same.
  const bool is_in_summary = snapshot != nullptr && std::holds_alternative<timeline::LinkPlace>(
                                                        timeline::PlaceOf(*snapshot, link));
  if (is_in_summary) return Status::Ok();
  const query::ReadLimits limits{.around_step = link.step};
  SHARDSCOPE_ASSIGN_OR_RETURN(snapshot, query::ReadSnapshotWithin(run, limits, {}));
  if (timeline::StepInOtherPart(*snapshot, link)) return Status::Ok();
  const auto place = timeline::PlaceOf(*snapshot, link);
  const auto* error = std::get_if<ui::LinkError>(&place);
  return error == nullptr ? Status::Ok() : AddError(*error);
}

// `run`: folder or trace file of what was given.
Status Add(const BookmarksArguments& arguments, const std::string& run, const std::string& file) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckNote(arguments.note));
  SHARDSCOPE_ASSIGN_OR_RETURN(const ui::Link place, PlaceOf(*arguments.add, arguments.run));
  SHARDSCOPE_RETURN_IF_ERROR(bookmarks::Read(file).status());
  SHARDSCOPE_RETURN_IF_ERROR(CheckPlace(place, run));
  const Bookmark bookmark = bookmarks::NewBookmark(PrintLink(place), arguments.note);
  const auto all = bookmarks::Apply(file, {{bookmark}});
  if (!all.ok()) return all.status();
  Print(bookmark.id + "\n");
  return Status::Ok();
}

Status Remove(const BookmarksArguments& arguments, const std::string& file) {
  const auto all = bookmarks::Read(file);
  if (!all.ok()) return all.status();
  const auto found = std::ranges::find(*all, *arguments.remove, &Bookmark::id);
  if (found == all->end()) {
    return Status::Error(
        fmt::format("--remove {}: {} has no such bookmark; without --remove its "
                    "bookmarks are listed",
                    *arguments.remove, file));
  }
  return bookmarks::Apply(file, {{*found, true}}).status();
}

Status RunBookmarks(const BookmarksArguments& arguments) {
  // As a script gives them whose variable is empty. Parsed to an optional they would be none.
  if (arguments.add == "") return Status::Error("--add '': say where it is, such as step=30");
  if (arguments.remove == "") {
    return Status::Error("--remove '': say which, by its id; without --remove they are listed");
  }
  if (!arguments.note.empty() && !arguments.add) {
    return Status::Error("--note is of a new bookmark: say where it is with --add LINK");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(arguments.run));
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles files, store::FindRun(run));
  const std::string file = bookmarks::FileOf(arguments.run, files.path);
  if (arguments.add) return Add(arguments, run, file);
  if (arguments.remove) return Remove(arguments, file);
  const auto all = bookmarks::Read(file);
  if (!all.ok()) return all.status();
  arguments.json ? PrintExact(PrintBookmarksJson(file, *all))
                 : Print(PrintBookmarksText(file, *all));
  return Status::Ok();
}

}  // namespace

void AddBookmarksCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("bookmarks", "List, add and remove bookmarks and notes of a run");
  const auto arguments = std::make_shared<BookmarksArguments>();
  AddRunArgument(command, &arguments->run);
  CLI::Option* json = command->add_flag("--json", arguments->json, "The list as JSON");
  CLI::Option* add =
      command
          ->add_option_function<std::string>(
              "--add", [arguments](const std::string& link) { arguments->add = link; },
              "Add one at this place, such as step=30&rank=1, or a link that the app copied; "
              "prints its id")
          ->type_name("LINK")
          ->excludes(json);
  command->add_option("--note", arguments->note, "What to say there")->type_name("TEXT");
  command
      ->add_option_function<std::string>(
          "--remove", [arguments](const std::string& id) { arguments->remove = id; },
          "Remove the one with this id")
      ->type_name("ID")
      ->excludes(json)
      ->excludes(add);
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("bookmarks", RunBookmarks(*arguments)); });
}

}  // namespace shardscope::app
