#include "trace/analysis/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "trace/base/reasons.h"
#include "trace/base/text.h"
#include "trace/base/trace_keys.h"

namespace shardscope::analysis {
namespace {

using Processes = std::set<int64_t>;

void SayWhere(const query::Snapshot& snapshot, const Processes& where, SourceState* state) {
  std::set<int32_t> ranks;
  for (const int64_t process : where) {
    const auto known = snapshot.processes.find(process);
    if (known == snapshot.processes.end()) continue;
    ranks.insert(known->second.ranks.begin(), known->second.ranks.end());
    if (known->second.ranks.empty() && !known->second.name.empty()) {
      state->processes.push_back(known->second.name);
    }
  }
  state->ranks.assign(ranks.begin(), ranks.end());
}

// The name of the file that the process is of, if it is not whole; empty where the trace does not
// say it.
std::string CutFileOf(const query::Snapshot& snapshot, int64_t process) {
  const auto known = snapshot.processes.find(process);
  if (known == snapshot.processes.end() || known->second.ranks.empty()) return "";
  const auto file = snapshot.config.find(
      trace_keys::ImportedKey(known->second.ranks.front(), trace_keys::kCutFile));
  return file == snapshot.config.end() ? "" : file->second;
}

struct CutFile {
  SourceState state;
  std::string name;
  Processes where;
};

}  // namespace

std::vector<SourceState> SourcesOf(const query::Snapshot& snapshot) {
  std::vector<SourceState> states;
  std::vector<Processes> where;                // of each of `states`
  std::map<std::string, Processes> of_source;  // that have a row of it
  for (const query::Capability& row : snapshot.capabilities) {
    if (row.source == trace_keys::kFinisher) continue;
    size_t at = 0;
    size_t behind = states.size();  // the last row of this source
    for (; at < states.size(); ++at) {
      const SourceState& known = states[at];
      if (known.source != row.source) continue;
      if (known.status == row.status && known.reason == row.reason) break;
      behind = at + 1;
    }
    if (at == states.size()) {
      at = behind;
      const auto place = static_cast<ptrdiff_t>(at);
      states.insert(states.begin() + place, {row.source, row.status, row.reason});
      where.insert(where.begin() + place, Processes());
    }
    states[at].dropped += row.dropped;
    where[at].insert(row.process);
    of_source[row.source].insert(row.process);
  }
  for (size_t at = 0; at < states.size(); ++at) {
    if (where[at] != of_source[states[at].source]) SayWhere(snapshot, where[at], &states[at]);
  }
  return states;
}

std::vector<std::string> CutFilesOf(const query::Snapshot& snapshot) {
  std::vector<CutFile> files;
  std::map<std::string, Processes> of_source;  // that have a row of it
  for (const query::Capability& row : snapshot.capabilities) {
    of_source[row.source].insert(row.process);
    if (!row.reason.starts_with(reasons::kFileIsCut)) continue;
    const std::string name = CutFileOf(snapshot, row.process);
    const auto is_of_it = [&](const CutFile& file) {
      return !name.empty() && file.name == name && file.state.source == row.source &&
             file.state.reason == row.reason;
    };
    auto file = std::find_if(files.begin(), files.end(), is_of_it);
    if (file == files.end()) {
      file = files.emplace(file);
      file->state = {row.source, row.status, row.reason};
      file->name = name;
    }
    file->where.insert(row.process);
  }
  std::vector<std::string> texts;
  for (CutFile& file : files) {
    if (file.where != of_source[file.state.source]) SayWhere(snapshot, file.where, &file.state);
    const std::string places = PlacesOf(file.state);
    texts.push_back(fmt::format(
        "{}{}: {}", Printable(file.state.source), places.empty() ? "" : " (" + places + ")",
        file.state.reason.substr(std::string_view(reasons::kFileIsCut).size())));
  }
  return texts;
}

std::string PlacesOf(const SourceState& state) {
  std::string text;
  const std::vector<int32_t>& ranks = state.ranks;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += text.empty() ? (ranks.size() == 1 ? "rank " : "ranks ") : ", ";
    text += std::to_string(ranks[first]);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(ranks[last]);
    first = last + 1;
  }
  for (const std::string& process : state.processes) {
    text += (text.empty() ? "" : ", ") + Printable(process);
  }
  return text;
}

std::string PrintSources(const std::vector<SourceState>& sources) {
  std::string on;
  std::string others;
  for (const SourceState& state : sources) {
    if (state.dropped > 0) continue;  // listed with the losses
    const std::string places = PlacesOf(state);
    if (state.status == Name(query::CapabilityStatus::kOn) && state.reason.empty() &&
        places.empty()) {
      on += (on.empty() ? "" : ", ") + Printable(state.source);
      continue;
    }
    others += fmt::format("  {} {}{}{}\n", Printable(state.source), Printable(state.status),
                          places.empty() ? "" : " (" + places + ")",
                          state.reason.empty() ? "" : ": " + Printable(state.reason));
  }
  if (on.empty() && others.empty()) return "";
  return "\nSources of this trace\n" + (on.empty() ? "" : "  " + on + " on\n") + others;
}

}  // namespace shardscope::analysis
