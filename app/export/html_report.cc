#include "app/export/html_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/analysis/report/report.h"
#include "trace/base/input_file.h"
#include "trace/base/output_file.h"
#include "trace/base/output_folder.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/query/live_trace.h"
#ifdef SHARDSCOPE_UI
#include "ui/shell/shot.h"
#endif

namespace shardscope::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 5'000;  // of a table; a browser sorts no more in a moment
constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<style>
:root { --ground: #fff; --ink: #1b1f24; --dim: #59636e; --line: #d5dae0; --raised: #f3f5f7; }
@media (prefers-color-scheme: dark) { :root { --ground: #15191e; --ink: #e8ebee; --dim: #98a2ad; --line: #333b44; --raised: #1e242b; } }
body { background: var(--ground); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin-top: 2em; } .verdict { font-size: 1.15em; font-weight: 600; }
.problem { border-left: 4px solid #c8553d; font-weight: 600; padding-left: .6em; }
.dim { color: var(--dim); } img { border: 1px solid var(--line); border-radius: 8px; max-width: 100%; } .scroll { max-height: 30em; overflow: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } th, td { border-bottom: 1px solid var(--line); padding: .25em .7em; text-align: left; }
td.number, th.number { text-align: right; white-space: nowrap; } th { background: var(--raised); cursor: pointer; position: sticky; top: 0; }
th[aria-sort=ascending]::after { content: " \25b2"; } th[aria-sort=descending]::after { content: " \25bc"; }
</style>
)";

// A click on a column sorts by it, another one the other way round; so does Enter on it.
constexpr std::string_view kScript = R"(<script>
for (const head of document.querySelectorAll("th")) {
  const sort = () => {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const order = (a, b) => {
      const x = key(a), y = key(b), numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
      return (numbers ? x - y : x.localeCompare(y)) * (up ? 1 : -1);
    };
    body.append(...[...body.rows].sort(order));
  };
  head.tabIndex = 0;
  head.addEventListener("click", sort);
  head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
}
</script>
)";

// "exposed_ns": "exposed"; "ns_per_step": "per step".
std::string Title(std::string key) {
  for (const std::string_view unit : {"_ns", "_bytes"}) {
    if (key.ends_with(unit)) key.resize(key.size() - unit.size());
  }
  for (const std::string_view unit : {"ns_", "bytes_"}) {
    if (key.starts_with(unit)) key.erase(0, unit.size());
  }
  for (char& c : key) c = c == '_' ? ' ' : c;
  return key;
}

bool HasUnit(std::string_view key, std::string_view unit) {
  return key == unit || key.ends_with(fmt::format("_{}", unit)) ||
         key.starts_with(fmt::format("{}_", unit));
}

// A cell shows the unit and sorts by the number.
std::string Cell(const std::string& key, const Json& value) {
  if (value.is_null()) return "<td></td>";
  if (!value.is_number()) {
    const std::string text = value.is_string()    ? value.get<std::string>()
                             : value.is_boolean() ? (value.get<bool>() ? "yes" : "no")
                                                  : value.dump();
    return fmt::format("<td>{}</td>", EscapedMarkup(text));
  }
  const double number = value.get<double>();
  const auto whole = static_cast<int64_t>(number);
  const std::string text = HasUnit(key, "ns")                          ? FormatDuration(whole)
                           : HasUnit(key, "bytes")                     ? FormatBytes(whole)
                           : key == "share" || key.ends_with("_ratio") ? FormatPercent(number)
                           : value.is_number_float() && key != "step"
                               ? fmt::format("{:.4g}", number)
                               : value.dump();
  return fmt::format("<td class=\"number\" data-value=\"{}\">{}</td>", value.dump(), text);
}

bool IsTable(const Json& list) {
  return list.is_array() && !list.empty() && list.front().is_object();
}

std::string Table(const std::string& name, const Json& rows) {
  std::string text = fmt::format("<h2>{}</h2>\n", EscapedMarkup(Title(name)));
  if (rows.size() > kMostRows) {
    text += fmt::format("<p class=\"dim\">The first {} of {}; all of them: report --json.</p>\n",
                        kMostRows, rows.size());
  }
  text += "<div class=\"scroll\"><table><thead><tr>";
  for (const auto& [key, value] : rows.front().items()) {
    if (value.is_structured()) continue;
    text += fmt::format("<th{}>{}</th>", value.is_number() ? " class=\"number\"" : "",
                        EscapedMarkup(Title(key)));
  }
  text += "</tr></thead><tbody>\n";
  for (size_t at = 0; at < std::min(rows.size(), kMostRows); ++at) {
    text += "<tr>";
    for (const auto& [key, first] : rows.front().items()) {
      if (first.is_structured()) continue;
      const auto value = rows[at].find(key);
      text += value == rows[at].end() ? "<td></td>" : Cell(key, *value);
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

#ifdef SHARDSCOPE_UI
constexpr size_t kMostPictureBytes = size_t{64} << 20;

// RFC 4648.
std::string Base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) {
      const bool is_padding = at + i > bytes.size();
      text += is_padding ? '=' : kDigits[group >> (18 - 6 * i) & 63];
    }
  }
  return text;
}

Result<std::string> PictureOf(const query::SnapshotPtr& snapshot, ui::ThemeName theme,
                              const std::string& to) {
  shell::ShotOptions options;
  options.theme = theme;
  SHARDSCOPE_ASSIGN_OR_RETURN(const shell::Shot shot, shell::TakeShot(snapshot, options));
  SHARDSCOPE_ASSIGN_OR_RETURN(const OutputFolder folder, OutputFolder::Make(to, ".picture-"));
  const std::string file = folder.path() + "/picture.png";
  SHARDSCOPE_RETURN_IF_ERROR(shell::WritePng(shot.image, file));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string png, ReadFile(file, kMostPictureBytes));
  return "data:image/png;base64," + Base64(png);
}

std::string Picture(const query::SnapshotPtr& snapshot, const std::string& to) {
  const Result<std::string> light = PictureOf(snapshot, ui::ThemeName::kLight, to);
  const Result<std::string> dark = PictureOf(snapshot, ui::ThemeName::kDark, to);
  if (!light.ok() || !dark.ok()) {
    const std::string& why = light.ok() ? dark.message() : light.message();
    return fmt::format("<p class=\"dim\">No picture: {}</p>\n", EscapedMarkup(why));
  }
  return fmt::format(
      "<picture><source media=\"(prefers-color-scheme: dark)\" srcset=\"{}\"><img alt=\"Timeline, "
      "memory and "
      "overlap of the newest steps\" src=\"{}\"></picture>\n",
      *dark, *light);
}
#else
std::string Picture(const query::SnapshotPtr&, const std::string&) {
  return "<p class=\"dim\">No picture: this program was built without the app.</p>\n";
}
#endif

std::string Advice(const Json& list) {
  if (list.empty()) return "";
  std::string text = "<h2>What would help</h2>\n<ul>\n";
  for (const Json& item : list) {
    text += fmt::format(
        "<li><b>{}</b>: saves {} a step at most. {} <span class=\"dim\">({})</span></li>\n",
        EscapedMarkup(item["title"].get<std::string>()),
        FormatDuration(static_cast<int64_t>(item["saving_ns_per_step"].get<double>())),
        EscapedMarkup(item["remedy"].get<std::string>()),
        EscapedMarkup(item["evidence"].get<std::string>()));
  }
  return text + "</ul>\n";
}

}  // namespace

Status WriteHtml(const store::RunFiles& run, const std::string& to, const exports::ExportOptions&) {
  // Before the picture, whose folder beside it brings along all folders that are missing.
  SHARDSCOPE_RETURN_IF_ERROR(OutputFile::Check(to));
  SHARDSCOPE_ASSIGN_OR_RETURN(const query::SnapshotPtr snapshot, query::ReadSnapshotOf(run));
  const analysis::Report report = analysis::MakeReport(*snapshot);
  const Json json = Json::parse(analysis::PrintReportJson(report), nullptr, false);
  std::string text(kHead);
  text += fmt::format("<title>{0} - Shardscope</title></head><body>\n<h1>{0}</h1>\n",
                      EscapedMarkup(report.name));
  for (const std::string& file : report.cut_files) {
    text += fmt::format("<p class=\"problem\">A file of it is not whole: {}</p>\n",
                        EscapedMarkup(file));
  }
  text += fmt::format("<p class=\"verdict\">{}</p>\n",
                      EscapedMarkup(json["verdict"]["sentence"].get<std::string>()));
  text += Picture(snapshot, to);
  text += Advice(json["advice"]);
  for (const auto& [key, value] : json.items()) {
    if (key != "advice" && IsTable(value)) text += Table(key, value);
  }
  text += fmt::format("<h2>The whole report</h2>\n<pre class=\"scroll\">{}</pre>\n",
                      EscapedMarkup(analysis::PrintReportText(report, 0)));
  text += kScript;
  text += "</body></html>\n";
  return WriteFile(to, text);
}

}  // namespace shardscope::app
