#include "trace/import/kineto/event.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "trace/import/kineto/decimal.h"
#include "trace/import/kineto/event_text.h"

namespace shardscope::imports {

static_assert(EventTexts::kPadding >= simdjson::SIMDJSON_PADDING);

struct EventParser::Json {
  simdjson::ondemand::parser parser;
};

namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::object;
using simdjson::ondemand::value;

constexpr size_t kMostUnknown = 1 << 10;

// The text of a value that is no list and no object, without the quotes of a string.
std::string_view Token(value* from) {
  std::string_view text = from->raw_json_token();
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

// With escapes undone, where they are what JSON has.
std::string_view Text(value* from) {
  const std::string_view raw = Token(from);
  std::string_view text;
  json_type type;
  if (from->type().get(type) != simdjson::SUCCESS || type != json_type::string) return raw;
  return from->get_string().get(text) == simdjson::SUCCESS ? text : raw;
}

int64_t Whole(value* from) { return ParseWhole(Token(from)).value_or(-1); }

EventId IdOf(value* from) {
  const std::string_view token = Token(from);
  if (const auto number = ParseWhole(token)) return {*number, {}};
  return {-1, Text(from)};
}

void Dimensions(value* from, std::array<int32_t, 3>* dimensions) {
  simdjson::ondemand::array list;
  if (from->get_array().get(list) != simdjson::SUCCESS) return;
  size_t at = 0;
  for (auto entry : list) {
    value element;
    if (at == dimensions->size() || std::move(entry).get(element) != simdjson::SUCCESS) return;
    const int64_t number = Whole(&element);
    (*dimensions)[at++] = static_cast<int32_t>(std::clamp<int64_t>(number, 0, INT32_MAX));
  }
}

// Members of EventArguments or its base.
template <auto kMember>
void TakeWhole(value* from, EventArguments* arguments) {
  arguments->*kMember = Whole(from);
}
template <auto kMember>
void TakeText(value* from, EventArguments* arguments) {
  arguments->*kMember = Text(from);
}
template <auto kMember>
void TakeDimensions(value* from, EventArguments* arguments) {
  Dimensions(from, &(arguments->*kMember));
}

constexpr std::string_view kRowsPrefix = "shardscope ";

using Take = void (*)(value*, EventArguments*);
using A = EventArguments;

// Names by Kineto's MetadataFieldCatalog.h and output_json.cpp, and PyTorch's profiler.
const std::unordered_map<std::string_view, Take>& KnownArguments() {
  static const auto* const known = new std::unordered_map<std::string_view, Take>{
      {"correlation", TakeWhole<&A::correlation>},
      {"device", TakeWhole<&A::device>},
      {"context", TakeWhole<&A::context>},
      {"stream", TakeWhole<&A::stream>},
      {"priority", TakeWhole<&A::priority>},
      {"bytes", TakeWhole<&A::bytes>},
      {"Bytes", TakeWhole<&A::bytes>},
      {"graph id", TakeWhole<&A::graph>},
      {"graph node id", TakeWhole<&A::graph_node>},
      {"channel", TakeWhole<&A::channel>},
      {"registers per thread", TakeWhole<&A::registers>},
      {"shared memory", TakeWhole<&A::shared_bytes>},
      {"grid", TakeDimensions<&A::grid>},
      {"block", TakeDimensions<&A::block>},
      {"wait_on_stream", TakeWhole<&A::waited_stream>},
      {"wait_on_cuda_event_record_corr_id", TakeWhole<&A::record_correlation>},
      {"In msg nelems", TakeWhole<&A::elements_in>},
      {"Out msg nelems", TakeWhole<&A::elements_out>},
      {"Group size", TakeWhole<&A::group_size>},
      {"Seq", TakeWhole<&A::sequence>},
      {"Collective name", TakeText<&A::collective>},
      {"dtype", TakeText<&A::dtype>},
      {"Process Group Name", TakeText<&A::group>},
      {"Process Group Description", TakeText<&A::group_description>},
      {"Process Group Ranks", TakeText<&A::group_ranks>},
      {"Device Id", TakeWhole<&A::device>},
      {"Device Type", TakeWhole<&A::device_type>},
      {"Total Allocated", TakeWhole<&A::total_allocated>},
      {"name", TakeText<&A::name>},
      {"shardscope schema", TakeWhole<&A::schema>},
      {"shardscope launch", TakeWhole<&A::is_launch_of_op>},
  };
  return *known;
}

// Arguments whose meaning is known and that nothing here shows: shapes of tensors, Python's own ids
// of calls, occupancy, what ROCm and Triton say of a call.
const std::unordered_set<std::string_view>& UnusedArguments() {
  static const auto* const unused = new std::unordered_set<std::string_view>{
      "Total Reserved",
      "In split size",
      "Out split size",
      "Global rank start",
      "Global rank stride",
      "Process Group ID",
      "Op count",
      "External id",
      "external id",
      "cbid",
      "queued",
      "blocks per SM",
      "warps per SM",
      "est. achieved occupancy %",
      "memory bandwidth (GB/s)",
      "Ev Idx",
      "Record function id",
      "Sequence number",
      "Fwd thread id",
      "cuda_sync_kind",
      "wait_on_cuda_event_id",
      "sort_index",
      "labels",
      "Profiler Event Index",
      "Trace iteration",
      "Trace name",
      "external ts",
      "Rank",
      "Src Rank",
      "Dst Rank",
      "Comms Id",
      "Input Dims",
      "Input Strides",
      "Input type",
      "Concrete Inputs",
      "Call stack",
      "Module Hierarchy",
      "Python id",
      "Python parent id",
      "Python module id",
      "Python thread",
      "Addr",
      "kernel_backend",
      "kernel_file",
      "kernel_hash",
      "kernel_kwargs",
      "kernel_name",
      "num_warps",
      "num_stages",
      "stream_id",
      "cid",
      "kind",
      "kernel",
      "src",
      "dst",
      "ptr",
      "size",
      "finished",
      "scope",
      "direction",
  };
  return *unused;
}

void CountUnknown(std::string_view key, std::map<std::string, int64_t, std::less<>>* unknown) {
  const auto found = unknown->find(key);
  if (found != unknown->end()) {
    ++found->second;
  } else if (unknown->size() < kMostUnknown) {
    unknown->emplace(std::string(key), 1);
  }
}

// Those of a counter are its values, whatever their names. False: it cannot be read.
bool TakeArguments(value* from, Event* event,
                   std::map<std::string, int64_t, std::less<>>* unknown) {
  object arguments;
  if (from->get_object().get(arguments) != simdjson::SUCCESS) return true;
  for (auto argument : arguments) {
    simdjson::ondemand::field inner;
    std::string_view name;
    if (std::move(argument).get(inner) != simdjson::SUCCESS ||
        inner.unescaped_key().get(name) != simdjson::SUCCESS) {
      return false;
    }
    value content = inner.value();
    const bool is_ours = name.starts_with(kRowsPrefix);
    if (event->phase == 'C' && !is_ours) {
      double number = 0;
      if (content.get_double().get(number) == simdjson::SUCCESS) {
        event->arguments.values.emplace_back(name, number);
      }
      continue;
    }
    const auto known = KnownArguments().find(name);
    if (known != KnownArguments().end()) {
      known->second(&content, &event->arguments);
    } else if (is_ours) {
      std::string_view rows;
      if (simdjson::to_json_string(content).get(rows) == simdjson::SUCCESS)
        event->arguments.rows.emplace_back(name.substr(kRowsPrefix.size()), rows);
    } else if (!UnusedArguments().contains(name)) {
      CountUnknown(name, unknown);
    }
  }
  return true;
}

// Bytes that are no UTF-8 become '?'.
std::string RepairUtf8(std::string_view text) {
  std::string repaired(text);
  for (size_t at = 0; at < repaired.size();) {
    const auto lead = static_cast<unsigned char>(repaired[at]);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xc2 ? 0
                          : lead < 0xe0 ? 2
                          : lead < 0xf0 ? 3
                          : lead < 0xf5 ? 4
                                        : 0;
    if (length <= 1) {
      if (length == 0) repaired[at] = '?';
      ++at;
      continue;
    }
    if (at + length <= repaired.size() && simdjson::validate_utf8(repaired.data() + at, length)) {
      at += length;
    } else {
      repaired[at++] = '?';
    }
  }
  return repaired;
}

}  // namespace

EventParser::EventParser() : json_(std::make_unique<Json>()) {}
EventParser::~EventParser() = default;

bool EventParser::Parse(std::string_view text, Event* event) {
  bool is_utf8 = true;
  if (ParseFields(text, text.size() + EventTexts::kPadding, event, &is_utf8)) return true;
  if (is_utf8) return false;
  repaired_ = RepairUtf8(text);
  const size_t size = repaired_.size();
  repaired_.append(EventTexts::kPadding, '\0');
  const bool parsed =
      ParseFields(std::string_view(repaired_).substr(0, size), repaired_.size(), event, &is_utf8);
  if (parsed) ++num_repaired_;
  return parsed;
}

bool EventParser::ParseFields(std::string_view text, size_t capacity, Event* event, bool* is_utf8) {
  std::vector<std::pair<std::string_view, double>> values = std::move(event->arguments.values);
  std::vector<std::pair<std::string_view, std::string_view>> tables =
      std::move(event->arguments.rows);
  values.clear();
  tables.clear();
  *event = Event();
  event->arguments.values = std::move(values);
  event->arguments.rows = std::move(tables);
  simdjson::ondemand::document document;
  const simdjson::error_code error =
      json_->parser.iterate(simdjson::padded_string_view(text, capacity)).get(document);
  *is_utf8 = error != simdjson::UTF8_ERROR;
  object fields;
  if (error != simdjson::SUCCESS || document.get_object().get(fields) != simdjson::SUCCESS)
    return false;
  bool arguments_wait = false;
  for (auto entry : fields) {
    simdjson::ondemand::field field;
    if (std::move(entry).get(field) != simdjson::SUCCESS) return false;
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return false;
    value from = field.value();
    if (key == "ph") {
      const std::string_view phase = Text(&from);
      event->phase = phase.size() == 1 ? phase.front() : '\0';
    } else if (key == "cat") {
      event->category = Text(&from);
    } else if (key == "name") {
      event->name = Text(&from);
    } else if (key == "pid") {
      event->process = IdOf(&from);
    } else if (key == "tid") {
      event->thread = IdOf(&from);
    } else if (key == "ts") {
      event->start_ns = ParseMicroseconds(Token(&from));
    } else if (key == "dur") {
      event->duration_ns = ParseMicroseconds(Token(&from));
    } else if (key == "args") {
      // Those of a counter mean something else: where the phase stands behind them they wait.
      arguments_wait = event->phase == '\0';
      if (!arguments_wait && !TakeArguments(&from, event, &unknown_)) return false;
    }
  }
  value waiting;
  if (arguments_wait && event->phase != '\0' &&
      fields.find_field_unordered("args").get(waiting) == simdjson::SUCCESS &&
      !TakeArguments(&waiting, event, &unknown_)) {
    return false;
  }
  return event->phase != '\0';
}

}  // namespace shardscope::imports
