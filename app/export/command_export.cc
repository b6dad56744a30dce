#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/commands.h"
#include "app/export/html_report.h"
#include "app/import/import_progress.h"
#include "app/output_check.h"
#include "app/say.h"
#include "trace/base/output_folder.h"
#include "trace/base/text.h"
#include "trace/export/format.h"
#include "trace/store/run_files.h"

namespace shardscope::app {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  std::string run;
  std::string format;
  std::string output;
  std::string table;
  bool force = false;
};

// Those of trace/export, and the page, which has a picture of the app in it.
const std::vector<exports::Format>& AllFormats() {
  static const auto* const formats = [] {
    auto* const all = new std::vector<exports::Format>(exports::Formats());
    all->push_back({"html", "one page with verdict, picture and sortable tables, for browsers",
                    ".html", WriteHtml});
    return all;
  }();
  return *formats;
}

const exports::Format* FindFormat(std::string_view key) {
  for (const exports::Format& format : AllFormats()) {
    if (format.key == key) return &format;
  }
  return nullptr;
}

std::string KnownFormats() {
  std::vector<std::string> keys;
  for (const exports::Format& format : AllFormats()) keys.emplace_back(format.key);
  return Join(keys, ", ");
}

// NAME.json, or a folder NAME-kineto.
std::string DefaultOutput(const store::RunFiles& run, const exports::Format& format,
                          const std::string& table) {
  if (!table.empty()) return table + ".csv";
  if (!format.ending.empty()) return fmt::format("{}{}", run.name, format.ending);
  return fmt::format("{}-{}", run.name, format.key);
}

// Without its digits, which count ranks: that of every file of an export is one of a few.
std::string ShapeOf(const fs::path& file) {
  std::string shape = file.filename().string();
  std::erase_if(shape, [](char c) { return c >= '0' && c <= '9'; });
  return shape;
}

// Whether the folder `old` has nothing but files as an export of this kind, `made`, has them. A
// folder that holds anything else, above all the run itself, must not go.
Status CheckIsExport(const std::string& old, const std::string& made) {
  std::set<std::string> shapes;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(made, error))
    shapes.insert(ShapeOf(entry.path()));
  for (const fs::directory_entry& entry : fs::directory_iterator(old, error)) {
    std::error_code unreachable;
    if (entry.is_regular_file(unreachable) && shapes.contains(ShapeOf(entry.path()))) continue;
    return Status::Error(
        fmt::format("{} is no earlier export of this format, it has {} in it: "
                    "give another place with -o",
                    old, entry.path().filename().string()));
  }
  return error ? Status::Error(fmt::format("cannot list {}: {}", old, error.message()))
               : Status::Ok();
}

// Where `path` leads to, links followed; also of what is not there yet.
fs::path Canonical(const fs::path& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  return error ? fs::absolute(path) : canonical;
}

// The path of `place` from `folder` on; empty if it is neither that nor in it.
fs::path WithinFolder(const fs::path& place, const std::string& folder) {
  const fs::path within = place.lexically_relative(Canonical(folder));
  return within.empty() || *within.begin() == ".." ? fs::path() : within;
}

// Exports of a run may lie in its folder: each by its ending, or anywhere in `exports`.
bool IsExportWithin(const fs::path& within, std::string_view ending) {
  if (*within.begin() == "exports") return true;
  const bool is_beside_trace = std::next(within.begin()) == within.end();
  return is_beside_trace && !ending.empty() && within.extension() == ending &&
         !within.string().ends_with("bookmarks.json");
}

// Whether what is at `to` may be replaced by a file, or by a folder if `ending` is empty. `read`:
// what was given to be exported, which an import has made `run` of if that is another folder.
Status CheckIsReplaceable(const std::string& to, std::string_view ending, const std::string& read,
                          const store::RunFiles& run) {
  std::error_code error;
  if (fs::is_directory(to, error) != ending.empty()) {
    return Status::Error(fmt::format("{} is a {}, and this format a {}: give another place with -o",
                                     to, ending.empty() ? "file" : "folder",
                                     ending.empty() ? "folder" : "file"));
  }
  const fs::path place = Canonical(to);
  const fs::path within_run = WithinFolder(place, run.path);
  const bool is_of_run = !within_run.empty() && !IsExportWithin(within_run, ending);
  const bool is_imported = Canonical(read) != Canonical(run.path) && fs::is_directory(read, error);
  const bool is_of_import = is_imported && !WithinFolder(place, read).empty();
  if (place == Canonical(read) || is_of_run || is_of_import) {
    return Status::Error(to + " is of what is exported: give another place with -o");
  }
  return Status::Ok();  // files of a folder say more: CheckIsExport
}

// A folder is made beside its place and takes it when it is whole; files do so themselves.
Status WriteFolder(const exports::Format& format, const store::RunFiles& run,
                   const exports::ExportOptions& options, const std::string& to) {
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFolder folder, OutputFolder::Make(to, ".exporting-"));
  SHARDSCOPE_RETURN_IF_ERROR(format.write(run, folder.path(), options));
  std::error_code error;
  if (fs::exists(to, error)) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckIsExport(to, folder.path()));
  }
  return folder.Replace();
}

Status Export(const ExportArguments& arguments) {
  const exports::Format* const format = FindFormat(arguments.format);
  if (format == nullptr) {
    return Status::Error(fmt::format("--format {}: there is no such format; there are {}",
                                     arguments.format, KnownFormats()));
  }
  if (!arguments.table.empty() && format->key != "csv")
    return Status::Error("--table is for --format csv");
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string path, RunOfPath(arguments.run));
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
  std::string to =
      arguments.output.empty() ? DefaultOutput(run, *format, arguments.table) : arguments.output;
  while (to.size() > 1 && to.ends_with('/')) to.pop_back();
  std::error_code ignored;
  const bool is_there = fs::exists(to, ignored) && !fs::is_other(to, ignored) &&
                        !fs::is_character_file(to, ignored) && !fs::is_fifo(to, ignored);
  if (is_there && !arguments.force) {
    return Status::Error(
        fmt::format("{} is already there: give another place with -o, or --force", to));
  }
  const std::string_view ending = arguments.table.empty() ? format->ending : ".csv";
  if (is_there) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckIsReplaceable(to, ending, arguments.run, run));
  }
  if (!ending.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckIsOfNoRun("-o", to));
  }
  const exports::ExportOptions options{arguments.table};
  SHARDSCOPE_RETURN_IF_ERROR(ending.empty() ? WriteFolder(*format, run, options, to)
                                            : format->write(run, to, options));
  Print(fmt::format("{}\n", to));
  return Status::Ok();
}

}  // namespace

void AddExportCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export", "A run in the form of another tool; where it is is printed");
  AddRunArgument(command, &arguments->run);
  std::string help;
  for (const exports::Format& format : AllFormats())
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", format.key, format.title);
  command->add_option("--format", arguments->format, help)->required()->type_name("FORMAT");
  command->add_option("-o,--output", arguments->output, "The file or folder that is made")
      ->type_name("PATH");
  command->add_option("--table", arguments->table, "csv: one table or view of the trace")
      ->type_name("NAME");
  command->add_flag("--force", arguments->force, "Replace what is already there");
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("export", Export(*arguments)); });
}

}  // namespace shardscope::app
