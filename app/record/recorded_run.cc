#include "app/record/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "trace/analysis/sources.h"
#include "trace/base/json_line.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/base/words.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"
#include "trace/store/trace_file.h"

namespace shardscope::app {
namespace {

using store::Database;
using store::Statement;
using SpanKey = std::pair<std::string, std::string>;  // name, category

// Calls `take` with each row.
template <typename Take>
Status ForEachRow(Database& database, std::string_view query, Take take) {
  Result<Statement> statement = database.Prepare(query);
  if (!statement.ok()) return statement.status();
  while (true) {
    const Result<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!row.value()) return Status::Ok();
    take(*statement);
  }
}

Status ReadProcess(Database& database, RecordedProcess* process) {
  SHARDSCOPE_RETURN_IF_ERROR(
      ForEachRow(database, "SELECT key, value FROM meta", [&](const Statement& row) {
        const std::string key(row.Text(0));
        const std::string value(row.Text(1));
        if (key == "pid") process->pid = value;
        if (key == "host") process->host = value;
        if (key == "command") process->command = value;
        if (key == "state") process->state = value;
        if (key == "recorded") process->launcher = value == "command";
      }));
  SHARDSCOPE_RETURN_IF_ERROR(
      ForEachRow(database, "SELECT rank FROM rank LIMIT 1",
                 [&](const Statement& row) { process->rank = row.Integer(0); }));
  return ForEachRow(database,
                    "SELECT source, max(status = 'on') FROM capability GROUP BY source ORDER BY 1",
                    [&](const Statement& row) {
                      process->sources_spoken.emplace_back(row.Text(0));
                      if (row.Integer(1) != 0) process->sources_on.emplace_back(row.Text(0));
                    });
}

Status ReadSpans(Database& database, RecordedProcess* process,
                 std::map<SpanKey, SpanGroup>* groups) {
  return ForEachRow(
      database,
      "SELECT n.text, s.category, count(*), sum(s.duration_ns), max(s.duration_ns) "
      "FROM span s JOIN string n ON n.id = s.name_string GROUP BY 1, 2",
      [&](const Statement& row) {
        SpanGroup& group = (*groups)[{std::string(row.Text(0)), std::string(row.Text(1))}];
        group.name = row.Text(0);
        group.category = row.Text(1);
        group.count += row.Integer(2);
        process->num_spans += row.Integer(2);
        group.total_ns += row.Integer(3);
        group.longest_ns = std::max(group.longest_ns, row.Integer(4));
      });
}

// Text of a foreign program on one line of a terminal.
std::string Line(const std::string& text, size_t columns) {
  return Shortened(Printable(text), columns);
}

std::string ProcessesText(const RecordedRun& run) {
  std::string text = fmt::format("\nProcesses\n  {:<10} {:<16} {:>5} {:>9}  {:<9} {:<12} {}\n",
                                 "pid", "host", "rank", "spans", "state", "sources", "command");
  for (const RecordedProcess& process : run.processes) {
    text += fmt::format(
        "  {:<10} {:<16} {:>5} {:>9}  {:<9} {:<12} {}\n", process.pid, Line(process.host, 16),
        process.launcher ? "-" : std::to_string(process.rank), process.num_spans, process.state,
        process.sources_on.empty() ? "-" : Line(Join(process.sources_on, " "), 40),
        (process.launcher ? "shardscope record -- " : "") + Line(process.command, 80));
  }
  return text;
}

std::string UnreadableText(const RecordedRun& run) {
  if (run.unreadable.empty()) return "";
  std::string text = "\nNot read\n";
  for (const std::string& file : run.unreadable) text += "  " + Line(file, 160) + "\n";
  return text;
}

// What the files alone do not say.
std::string EndsText(const RecordedRun& run, const analysis::Report& report) {
  std::string text;
  for (const std::string& reason : report.unfinished) {
    text += fmt::format("\nNot finished, it stays as it was left: {}\n", Line(reason, 160));
  }
  for (const RecordedProcess& process : run.processes) {
    if (!process.launcher || process.state != Name(words::TraceState::kCut)) continue;
    text +=
        "\n`shardscope record` was killed, or could not write: how the program ended, and why a "
        "source gave nothing, is not known\n";
  }
  return text;
}

std::string SpansText(const RecordedRun& run, size_t num_spans) {
  if (run.spans.empty()) return "\nNo spans were recorded.\n";
  const size_t listed = num_spans == 0 ? run.spans.size() : std::min(num_spans, run.spans.size());
  std::string text =
      fmt::format("\nSpans by total time{}\n  {:<14} {:>9} {:>9} {:>9} {:>9}  {}\n",
                  listed < run.spans.size()
                      ? fmt::format(" ({} of {} names; --all lists all)", listed, run.spans.size())
                      : "",
                  "category", "count", "total", "mean", "longest", "name");
  for (size_t i = 0; i < listed; ++i) {
    const SpanGroup& group = run.spans[i];
    text += fmt::format("  {:<14} {:>9} {:>9} {:>9} {:>9}  {}\n", group.category, group.count,
                        FormatDuration(group.total_ns),
                        FormatDuration(group.total_ns / std::max<int64_t>(1, group.count)),
                        FormatDuration(group.longest_ns), Line(group.name, 80));
  }
  return text;
}

// Calls `read_more` with each file that could be opened.
template <typename ReadMore>
Result<RecordedRun> Read(const std::string& path, const ReadMore& read_more) {
  const Result<store::RunFiles> folder = store::FindRun(path);
  if (!folder.ok()) return folder.status();
  RecordedRun run;
  for (const store::TraceFile& trace : folder->traces) {
    store::RunFiles one = folder.value();
    one.traces = {trace};
    Result<Database> database = store::OpenRunDatabase(one);
    RecordedProcess process;
    Status status = database.status();
    if (status.ok()) status = ReadProcess(database.value(), &process);
    if (status.ok()) status = read_more(database.value(), &process);
    // A file that could not be finished still says of itself what it was (a full disk, another
    // user's folder).
    if (process.state != Name(words::TraceState::kFinished) && !store::WriterLives(trace) &&
        !store::Exists(trace.FinishedPath())) {
      process.state = Name(words::TraceState::kCut);
    }
    if (status.ok()) {
      run.processes.push_back(process);
    } else {
      run.unreadable.push_back(status.message());
    }
  }
  std::stable_sort(run.processes.begin(), run.processes.end(), [](const auto& a, const auto& b) {
    return std::tuple(!a.launcher, a.rank) < std::tuple(!b.launcher, b.rank);
  });
  return run;
}

}  // namespace

bool IsRecordedRun(const std::map<std::string, std::string>& meta) {
  return meta.contains("recorded");
}

Result<RecordedRun> ReadRecordedProcesses(const std::string& path) {
  return Read(path, [](Database&, RecordedProcess*) { return Status::Ok(); });
}

Result<RecordedRun> ReadRecordedRun(const std::string& path) {
  std::map<SpanKey, SpanGroup> spans;
  Result<RecordedRun> run = Read(path, [&](Database& database, RecordedProcess* process) {
    return ReadSpans(database, process, &spans);
  });
  if (!run.ok()) return run;
  for (const auto& [key, group] : spans) run->spans.push_back(group);
  std::stable_sort(run->spans.begin(), run->spans.end(),
                   [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return run;
}

std::string PrintRecordedText(const RecordedRun& run, const analysis::Report& report,
                              size_t num_spans) {
  const auto num_programs = std::count_if(run.processes.begin(), run.processes.end(),
                                          [](const auto& process) { return !process.launcher; });
  std::set<std::string> states;
  for (const RecordedProcess& process : run.processes) states.insert(process.state);
  std::string text = fmt::format(
      "{}: {}, a recorded program, {} process{} with records, no schedule and no steps\n",
      report.name, Join({states.begin(), states.end()}, " and "), num_programs,
      num_programs == 1 ? "" : "es");
  text +=
      ProcessesText(run) + UnreadableText(run) + EndsText(run, report) + SpansText(run, num_spans);
  if (!report.markers.empty()) text += "\nNotes\n";
  for (const query::Marker& marker : report.markers)
    text += "  " + Line(marker.new_value, 160) + "\n";
  text += analysis::PrintSources(report.sources) + analysis::PrintDropped(report);
  return text;
}

std::string AddRecordedJson(const RecordedRun& run, const std::string& report_json) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(report_json);
  Json& recorded = json["recorded"];
  recorded["processes"] = Json::array();
  for (const RecordedProcess& process : run.processes) {
    recorded["processes"].push_back({{"pid", process.pid},
                                     {"host", process.host},
                                     {"rank", process.rank},
                                     {"launcher", process.launcher},
                                     {"state", process.state},
                                     {"sources", process.sources_on},
                                     {"spans", process.num_spans},
                                     {"command", process.command}});
  }
  recorded["unreadable"] = run.unreadable;
  recorded["spans"] = Json::array();
  for (const SpanGroup& group : run.spans) {
    recorded["spans"].push_back({{"name", group.name},
                                 {"category", group.category},
                                 {"count", group.count},
                                 {"total_ns", group.total_ns},
                                 {"longest_ns", group.longest_ns}});
  }
  return JsonText(json);
}

}  // namespace shardscope::app
