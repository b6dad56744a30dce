#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "app/commands.h"
#include "app/export/html_report.h"
#include "app/import/import_progress.h"
#include "app/say.h"
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

// A folder is made beside its place and takes it when it is whole; files do so themselves.
Status WriteFolder(const exports::Format& format, const store::RunFiles& run,
                   const exports::ExportOptions& options, const std::string& to) {
  const std::string temporary = to + ".exporting";
  std::error_code error;
  fs::remove_all(temporary, error);
  Status status = format.write(run, temporary, options);
  if (status.ok()) {
    fs::remove_all(to, error);
    fs::rename(temporary, to, error);
    if (error)
      status =
          Status::Error(fmt::format("cannot rename {} to {}: {}", temporary, to, error.message()));
  }
  if (!status.ok()) fs::remove_all(temporary, error);
  return status;
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
  const std::string to =
      arguments.output.empty() ? DefaultOutput(run, *format, arguments.table) : arguments.output;
  std::error_code ignored;
  const bool is_there = fs::exists(to, ignored) && !fs::is_other(to, ignored) &&
                        !fs::is_character_file(to, ignored) && !fs::is_fifo(to, ignored);
  if (is_there && !arguments.force) {
    return Status::Error(
        fmt::format("{} is already there: give another place with -o, or --force", to));
  }
  const bool is_file = !format->ending.empty() || !arguments.table.empty();
  const exports::ExportOptions options{arguments.table};
  SHARDSCOPE_RETURN_IF_ERROR(is_file ? format->write(run, to, options)
                                     : WriteFolder(*format, run, options, to));
  Print(fmt::format("{}\n", to));
  return Status::Ok();
}

}  // namespace

void AddExportCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export", "A run in the form of another tool; where it is is printed");
  command->add_option("run", arguments->run, "Run folder or trace file, or what `import` takes")
      ->required()
      ->type_name("RUN");
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
