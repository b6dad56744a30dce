#include "trace/import/flight_recorder/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/not_ended.h"
#include "trace/base/parse_number.h"
#include "trace/base/sane_time.h"
#include "trace/base/text.h"
#include "trace/base/words.h"
#include "trace/import/pickle/document_file.h"
#include "trace/import/pickle/stacks.h"
#include "trace/store/source.h"

namespace shardscope::imports {
namespace {

constexpr size_t kMostFlightGroups = 1 << 12;
constexpr size_t kMostMembers = 1 << 17;
constexpr size_t kLongestFlightName = 256;
constexpr size_t kLongestSizes = 1024;

std::string ShortText(std::string_view text) {
  return Printable(text.substr(0, kLongestFlightName));
}

// Numbers that stand in dumps as such, or as text (JSON).
std::optional<int64_t> NumberOf(const Value& value) {
  return value.is_text() ? ParseInteger<int64_t>(value.text()) : value.whole();
}

// -1 if it is none that counts something.
int64_t SequenceOf(std::optional<int64_t> number) {
  return number && *number >= 0 && *number <= store::kMaxSequence ? *number : -1;
}

// Moments that are not known are None, or 0 in JSON.
int64_t AfterNs(const Value& value, int64_t created_ns) {
  const std::optional<int64_t> time_ns = value.whole();
  if (!time_ns || !IsSaneNs(*time_ns)) return -1;
  return std::max<int64_t>(*time_ns - created_ns, 0);
}

class FlightReader {
 public:
  FlightReader(const Document& document, const std::string& title)
      : document_(document),
        unknown_(&recording_.not_understood),
        stacks_(&document, &recording_.names, &unknown_) {
    recording_.title = title;
    recording_.has_unmarked_step = false;
  }

  Recording Take();

 private:
  using State = words::FlightState;

  void TakeGroups(const Value& config);
  void TakeGroup(std::string_view name, const Value& facts);
  void TakeMembers(const Value& ranks, std::vector<int32_t>* members);
  void TakeStatus(const Value& status);
  void TakeEntries(const Value& entries);
  void TakeEntry(const Value& entry);
  // What is read of one field alone; of those that are not known their names.
  void TakeEntryFields(const Value& value, RecordedFlight* entry);
  bool TakeEntryNumber(std::string_view key, const Value& value, RecordedFlight* entry);
  void TakeGroupOfEntry(const Value& group, const Value* number, RecordedFlight* entry);
  State StateOf(std::string_view word, const RecordedFlight& entry);
  Names::Index Tensors(const Value* types, const Value* sizes);
  RecordedFlightGroup* GroupOf(const std::string& name, const std::string& description);
  void AddSpans();
  void Miss(const char* what) { ++recording_.not_understood[what]; }

  const Document& document_;
  Recording recording_;
  UnknownFields unknown_;
  Stacks stacks_;
  std::map<std::string, size_t, std::less<>> group_of_;            // by name
  std::map<int64_t, std::string> name_of_number_;                  // pg_id: that of pg_status
  std::map<std::pair<uint32_t, uint32_t>, Names::Index> tensors_;  // by containers
};

RecordedFlightGroup* FlightReader::GroupOf(const std::string& name,
                                           const std::string& description) {
  std::vector<RecordedFlightGroup>& groups = recording_.flight.groups;
  auto known = group_of_.find(name);
  if (known == group_of_.end()) {
    if (groups.size() >= kMostFlightGroups) {
      Miss("groups beyond the first 4096");
      return nullptr;
    }
    known = group_of_.emplace(name, groups.size()).first;
    groups.emplace_back().name = name;
  }
  RecordedFlightGroup& group = groups[known->second];
  if (group.description.empty()) group.description = description;
  return &group;
}

// "[0, 1, 2]", or a list.
void FlightReader::TakeMembers(const Value& ranks, std::vector<int32_t>* members) {
  const auto add = [&](std::optional<int64_t> rank) {
    if (rank && *rank >= 0 && *rank < INT32_MAX && members->size() < kMostMembers) {
      members->push_back(static_cast<int32_t>(*rank));
    } else {
      Miss("ranks of a group that cannot be");
    }
  };
  if (ranks.is_text()) {
    std::string_view text = ranks.text().substr(0, 16 * kMostMembers);
    if (text.starts_with('[')) text.remove_prefix(1);
    if (text.ends_with(']')) text.remove_suffix(1);
    for (const std::string_view part : Split(text, ',')) {
      if (!Trim(part).empty()) add(NumberOf(Value::Text(Trim(part))));
    }
  } else {
    for (const Value& rank : document_.Items(ranks)) add(rank.whole());
  }
  std::sort(members->begin(), members->end());
  members->erase(std::unique(members->begin(), members->end()), members->end());
}

void FlightReader::TakeGroup(std::string_view name, const Value& facts) {
  RecordedFlightGroup* const group = GroupOf(ShortText(name), "");
  if (group == nullptr) return;
  for (const auto& [field, value] : document_.FieldsOf(facts)) {
    const std::string_view key = field.text();
    if (key == "desc") {
      const std::string description = ShortText(value.text());
      if (!description.empty()) group->description = description;
    } else if (key == "ranks") {
      if (group->members.empty()) TakeMembers(value, &group->members);
    } else if (key != "name") {
      unknown_.Count("a group", field);
    }
  }
}

void FlightReader::TakeGroups(const Value& config) {
  std::set<uint32_t> seen;
  for (const auto& [key, facts] : document_.FieldsOf(config)) {
    if (facts.kind() != ValueKind::kDict || !seen.insert(facts.container()).second) {
      Miss("groups that are no record, or stand twice");
      continue;
    }
    std::string_view name = document_.Text(facts, "name");
    if (name.empty()) name = key.text();
    // The first group of Gloo has no name here, and is called "0" where it is used.
    TakeGroup(name.empty() ? "0" : name, facts);
  }
}

// Its keys are numbers (pg_id), of which only the entries say what group they are.
void FlightReader::TakeStatus(const Value& status) {
  for (const auto& [id, state] : document_.FieldsOf(status)) {
    const std::optional<int64_t> number = NumberOf(id);
    const auto name = number ? name_of_number_.find(*number) : name_of_number_.end();
    // The first group is number 0 and called "0"; no others are sure without an entry.
    const bool is_default = number && *number == 0 && group_of_.contains("0");
    if (name == name_of_number_.end() && !is_default) {
      Miss("states of groups without an entry");
      continue;
    }
    RecordedFlightGroup* const group = GroupOf(is_default ? "0" : name->second, "");
    const Value& facts = state;
    const auto sequence = [&](std::string_view key) {
      const Value* const found = document_.Find(facts, key);
      return SequenceOf(found == nullptr ? std::nullopt : NumberOf(*found));
    };
    if (group == nullptr) continue;
    group->last_enqueued = sequence("last_enqueued_collective");
    group->last_started = sequence("last_started_collective");
    group->last_completed = sequence("last_completed_collective");
  }
}

// "Float [4, 2], Float [8]"
Names::Index FlightReader::Tensors(const Value* types, const Value* sizes) {
  const uint32_t kNone = UINT32_MAX;
  const auto container = [&](const Value* value) {
    return value != nullptr && value->is_container() ? value->container() : kNone;
  };
  const auto [known, is_new] = tensors_.try_emplace({container(types), container(sizes)}, 0);
  if (!is_new) return known->second;
  const std::span<const Value> names =
      types == nullptr ? std::span<const Value>() : document_.Items(*types);
  const std::span<const Value> dims =
      sizes == nullptr ? std::span<const Value>() : document_.Items(*sizes);
  std::string text;
  const size_t count = std::max(names.size(), dims.size());
  for (size_t at = 0; at < count; ++at) {
    if (text.size() > kLongestSizes) {
      text += fmt::format(", {} more", count - at);
      break;
    }
    if (at > 0) text += ", ";
    if (at < names.size()) text += ShortText(names[at].text());
    if (at >= dims.size()) continue;
    text += at < names.size() ? " [" : "[";
    size_t listed = 0;
    for (const Value& dim : document_.Items(dims[at])) {
      if (++listed > 16) break;
      text += fmt::format("{}{}", listed > 1 ? ", " : "", dim.whole().value_or(-1));
    }
    text += "]";
  }
  return known->second = recording_.names.Add(text);
}

void FlightReader::TakeGroupOfEntry(const Value& group, const Value* number,
                                    RecordedFlight* entry) {
  // (name, description); before version 2.2 the name alone.
  const std::span<const Value> parts = document_.Items(group);
  std::string name = ShortText(parts.empty() ? group.text() : parts[0].text());
  const std::string description = parts.size() > 1 ? ShortText(parts[1].text()) : "";
  const std::optional<int64_t> id = number == nullptr ? std::nullopt : number->whole();
  if (name.empty()) name = id ? std::to_string(*id) : "0";
  if (id) name_of_number_.emplace(*id, name);
  entry->group = name;
  (void)GroupOf(name, description);
}

FlightReader::State FlightReader::StateOf(std::string_view word, const RecordedFlight& entry) {
  const std::optional<State> known = words::ParseFlightState(word);
  if (!known) Miss("entries in a state that is not known");
  const State state = known.value_or(State::kScheduled);
  if (state != State::kScheduled) return state;
  // Where there are no events of a GPU to look at (Gloo), that it is done with is all that is told.
  return entry.completed_after_ns >= 0 || entry.is_retired ? State::kCompleted : State::kScheduled;
}

// false: it is no number of an entry.
bool FlightReader::TakeEntryNumber(std::string_view key, const Value& value,
                                   RecordedFlight* entry) {
  const auto number = [&] { return std::max<int64_t>(NumberOf(value).value_or(-1), -1); };
  if (key == "record_id" || key == "id") {
    entry->record = number();
  } else if (key == "op_id") {
    entry->operation = number();
  } else if (key == "timeout_ms") {
    constexpr int64_t kMostMs = int64_t{1} << 40;
    const int64_t timeout_ms = number();
    entry->timeout_ns = timeout_ms < 0 ? -1 : std::min(timeout_ms, kMostMs) * 1'000'000;
  } else if (key == "is_p2p") {
    entry->is_p2p = number() > 0;
  } else if (key == "retired") {
    entry->is_retired = number() > 0;
  } else {
    return false;
  }
  return true;
}

void FlightReader::TakeEntryFields(const Value& value, RecordedFlight* entry) {
  static const std::set<std::string_view> kElsewhere = {"process_group",
                                                        "pg_name",
                                                        "pg_id",
                                                        "collective_seq_id",
                                                        "p2p_seq_id",
                                                        "seq_id",
                                                        "time_created_ns",
                                                        "input_sizes",
                                                        "input_dtypes",
                                                        "output_sizes",
                                                        "output_dtypes",
                                                        "duration_ms",
                                                        "thread_id",
                                                        "thread_name",
                                                        "time_discovered_started_ns",
                                                        "time_discovered_completed_ns",
                                                        "state"};
  for (const auto& [name, field] : document_.FieldsOf(value)) {
    const std::string_view key = name.text();
    if (TakeEntryNumber(key, field, entry)) continue;
    if (key == "profiling_name") {
      entry->name = recording_.names.Add(ShortText(field.text()));
    } else if (key == "frames") {
      entry->stack = stacks_.Take(field);
    } else if (!kElsewhere.contains(key)) {
      unknown_.Count("an entry", name);
    }
  }
}

void FlightReader::TakeEntry(const Value& value) {
  const auto find = [&](std::string_view key) { return document_.Find(value, key); };
  RecordedFlight entry;
  const int64_t created_ns = document_.Whole(value, "time_created_ns").value_or(0);
  if (!IsSaneNs(created_ns)) return Miss("entries without a sensible time");
  entry.created_ns = created_ns;
  TakeEntryFields(value, &entry);
  const Value no_value{};
  const Value* group = find("process_group");
  if (group == nullptr) group = find("pg_name");
  TakeGroupOfEntry(group == nullptr ? no_value : *group, find("pg_id"), &entry);
  if (const Value* const started = find("time_discovered_started_ns")) {
    entry.started_after_ns = AfterNs(*started, created_ns);
  }
  if (const Value* const completed = find("time_discovered_completed_ns")) {
    entry.completed_after_ns = AfterNs(*completed, created_ns);
  }
  entry.state = StateOf(document_.Text(value, "state"), entry);
  std::optional<int64_t> sequence =
      document_.Whole(value, entry.is_p2p ? "p2p_seq_id" : "collective_seq_id");
  if (!sequence) sequence = document_.Whole(value, "seq_id");
  entry.sequence = SequenceOf(sequence);
  if (entry.sequence < 0) Miss("entries without a sensible sequence");
  entry.input = Tensors(find("input_dtypes"), find("input_sizes"));
  entry.output = Tensors(find("output_dtypes"), find("output_sizes"));
  recording_.flight.entries.push_back(std::move(entry));
}

void FlightReader::TakeEntries(const Value& entries) {
  std::set<uint32_t> seen;
  for (const Value& entry : document_.Items(entries)) {
    if (entry.kind() == ValueKind::kDict && seen.insert(entry.container()).second) {
      TakeEntry(entry);
    } else {
      Miss("entries that are no record, or stand twice");
    }
  }
}

// A track a group. What has not ended lasts until the last thing that the dump has, and its name
// says so. Times at which something began and ended are those at which the recorder's thread
// looked.
void FlightReader::AddSpans() {
  int64_t last_ns = 0;
  for (const RecordedFlight& entry : recording_.flight.entries) {
    last_ns = std::max({last_ns, entry.created_ns, entry.created_ns + entry.started_after_ns,
                        entry.created_ns + entry.completed_after_ns});
  }
  std::map<std::string, uint32_t> track_of;
  for (const RecordedFlight& entry : recording_.flight.entries) {
    const auto [track, is_new] =
        track_of.try_emplace(entry.group, static_cast<uint32_t>(recording_.tracks.size()));
    if (is_new) {
      const auto group = group_of_.find(entry.group);
      const std::string description =
          group == group_of_.end() ? "" : recording_.flight.groups[group->second].description;
      recording_.tracks.push_back(
          {.kind = TrackKind::kThread,
           .thread = -1,
           .name = fmt::format("collectives of group {}{}", entry.group,
                               description.empty() ? "" : " (" + description + ")")});
    }
    const int64_t start_ns = entry.created_ns + std::max<int64_t>(entry.started_after_ns, 0);
    int64_t end_ns = last_ns;
    Names::Index name = entry.name;
    if (entry.completed_after_ns >= 0) {
      end_ns = entry.created_ns + entry.completed_after_ns;
    } else if (entry.state == State::kCompleted) {
      end_ns = start_ns;  // not known
    } else {
      name = recording_.names.Add(fmt::format("{}{}", recording_.names[entry.name], kNotEnded));
    }
    recording_.spans.push_back({.start_ns = start_ns,
                                .duration_ns = std::max<int64_t>(end_ns - start_ns, 0),
                                .name = name,
                                .track = track->second,
                                .category = entry.state == State::kScheduled
                                                ? words::SpanCategory::kWait
                                                : words::SpanCategory::kCommunication});
  }
}

Recording FlightReader::Take() {
  const Value& root = document_.root();
  const auto find = [&](std::string_view key) { return document_.Find(root, key); };
  if (const Value* const config = find("pg_config")) TakeGroups(*config);
  if (const Value* const entries = find("entries")) TakeEntries(*entries);
  if (const Value* const status = find("pg_status")) TakeStatus(*status);
  for (const auto& [field, value] : document_.FieldsOf(root)) {
    const std::string_view key = field.text();
    if (key == "version" || key == "comm_lib_version" || key == "nccl_version") {
      recording_.meta["flight_recorder." + std::string(key)] = Describe(value);
    } else if (key == "rank") {
      const std::optional<int64_t> rank = NumberOf(value);
      if (rank && *rank >= 0 && *rank < INT32_MAX) recording_.rank = static_cast<int32_t>(*rank);
    } else if (key == "nccl_comm_state") {
      const auto communicators = static_cast<int64_t>(document_.Items(value).size() / 2);
      if (communicators > 0) {
        recording_.not_understood["states of NCCL's communicators"] += communicators;
      }
    } else if (key != "pg_config" && key != "entries" && key != "pg_status") {
      unknown_.Count("the dump", field);
    }
  }
  AddSpans();
  return std::move(recording_);
}

}  // namespace

Status ReadFlightRecorder(const Input& input, const ReadProgress& progress,
                          const TakeRecording& take) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Document document, ReadDocument(input, progress));
  return take(FlightReader(document, input.Title()).Take());
}

}  // namespace shardscope::imports
