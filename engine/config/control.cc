#include "engine/config/control.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trace/base/json_line.h"
#include "trace/base/text.h"

namespace shardscope::config {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr size_t kMaxEntries = 256;
constexpr size_t kMaxTextBytes = 8192;
constexpr std::array<std::pair<std::string_view, Action>, 5> kActions = {
    {{"pause", Action::kPause},
     {"resume", Action::kResume},
     {"step", Action::kStep},
     {"stop", Action::kStop},
     {"checkpoint", Action::kCheckpoint}}};

// Never throws; an object, or nothing.
std::optional<Json> ParseObject(std::string_view line) {
  if (line.size() > kMaxLineBytes) return std::nullopt;
  Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::optional<int64_t> Integer(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX) return std::nullopt;
  return found->get<int64_t>();
}

std::optional<std::string> Text(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// A value as the text that --set would take: "pre", 2, 0.003, true. A number without a fraction is
// a whole number, however it is written: scripts send 1.0 for 1.
std::optional<std::string> ValueText(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return std::string(value.get<bool>() ? "true" : "false");
  if (value.is_number_integer()) return value.dump();
  if (value.is_number()) return fmt::format("{}", value.get<double>());
  return std::nullopt;
}

Result<std::map<std::string, std::string>> ReadValues(const Json& json, std::string_view what) {
  if (!json.is_object() || json.size() > kMaxEntries)
    return Status::Error(
        fmt::format("{}: must be an object of at most {} keys", what, kMaxEntries));
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : json.items()) {
    auto text = ValueText(value);
    if (!text || text->size() > kMaxTextBytes || !IsPlainUtf8(*text) || !IsPlainUtf8(key) ||
        key.size() > kMaxTextBytes)
      return Status::Error(
          fmt::format("{}: the value of {} must be a text, a number, true or false", what,
                      IsPlainUtf8(key) ? key.substr(0, 80) : "a key"));
    values[key] = std::move(*text);
  }
  return values;
}

std::string_view NameOf(Action action) {
  for (const auto& [name, known] : kActions)
    if (known == action) return name;
  return "";
}

Result<Action> ReadAction(const Json& json) {
  std::vector<std::string> names;
  for (const auto& [name, action] : kActions) {
    if (json == name) return action;
    names.emplace_back(name);
  }
  return Status::Error("do: must be one of " + Join(names, ", "));
}

Json StatusJson(const RunStatus& status) {
  return {{"run", status.run},
          {"state", status.state ? Name(*status.state) : std::string_view()},
          {"step", status.step},
          {"steps", status.steps},
          {"values", status.values},
          {"pending", status.pending},
          {"pending_step", status.pending_step}};
}

Result<RunStatus> ReadStatus(const Json& json) {
  if (!json.is_object() || !json.contains("values") || !json.contains("pending"))
    return Status::Error("control: a status without values");
  RunStatus status;
  status.run = Text(json, "run").value_or("");
  status.state = words::ParseRunState(Text(json, "state").value_or(""));
  status.step = Integer(json, "step").value_or(0);
  status.steps = Integer(json, "steps").value_or(0);
  status.pending_step = Integer(json, "pending_step").value_or(-1);
  auto values = ReadValues(json["values"], "values");
  if (!values.ok()) return values.status();
  auto pending = ReadValues(json["pending"], "pending");
  if (!pending.ok()) return pending.status();
  status.values = std::move(*values);
  status.pending = std::move(*pending);
  return status;
}

}  // namespace

std::string PrintHello(std::string_view run) {
  return JsonLine({{"shardscope", kVersion}, {"run", run}});
}

Result<std::string> ParseHello(std::string_view line) {
  const auto json = ParseObject(line);
  const auto version = json ? Integer(*json, "shardscope") : std::nullopt;
  const auto run = json ? Text(*json, "run") : std::nullopt;
  if (!version || !run) return Status::Error("control: whoever answered is no Shardscope run");
  if (*version != kVersion)
    return Status::Error(fmt::format("control: the run speaks version {}, this program version {}",
                                     *version, kVersion));
  return *run;
}

std::string PrintRequest(const Request& request) {
  Json json = {{"id", request.id}};
  if (const auto* set = std::get_if<SetRequest>(&request.body)) json["set"] = set->values;
  if (const auto* act = std::get_if<DoRequest>(&request.body)) json["do"] = NameOf(act->action);
  if (const auto* get = std::get_if<GetRequest>(&request.body)) json["get"] = get->what;
  return JsonLine(json);
}

Result<Request> ParseRequest(std::string_view line) {
  const auto json = ParseObject(line);
  if (!json) return Status::Error("control: a request must be one line with one JSON object");
  const auto id = Integer(*json, "id");
  if (!id) return Status::Error("control: a request needs \"id\", a whole number");
  const std::string wanted = "control: a request has \"id\" and one of \"set\", \"do\", \"get\"";
  if (json->size() != 2) return Status::Error(wanted);
  Request request{.id = *id};
  if (const auto set = json->find("set"); set != json->end()) {
    auto values = ReadValues(*set, "set");
    if (!values.ok()) return values.status();
    if (values->empty()) return Status::Error("set: names no key");
    request.body = SetRequest{std::move(*values)};
  } else if (const auto act = json->find("do"); act != json->end()) {
    const auto action = ReadAction(*act);
    if (!action.ok()) return action.status();
    request.body = DoRequest{*action};
  } else if (const auto get = json->find("get"); get != json->end()) {
    if (*get != "status") return Status::Error("get: must be \"status\"");
    request.body = GetRequest{"status"};
  } else {
    return Status::Error(wanted);
  }
  return request;
}

int64_t IdOf(std::string_view line) {
  const auto json = ParseObject(line);
  return json ? Integer(*json, "id").value_or(-1) : -1;
}

std::string PrintResponse(const Response& response) {
  Json json = {{"id", response.id}, {"ok", response.ok}};
  if (response.applies_at >= 0) json["applies_at"] = response.applies_at;
  if (!response.ok) json["error"] = response.error;
  if (response.has_status) json["status"] = StatusJson(response.status);
  return JsonLine(json);
}

Result<Response> ParseResponse(std::string_view line) {
  const auto json = ParseObject(line);
  const auto id = json ? Integer(*json, "id") : std::nullopt;
  if (!id || !json->contains("ok") || !(*json)["ok"].is_boolean())
    return Status::Error("control: not an answer of a Shardscope run");
  Response response{.id = *id, .ok = (*json)["ok"].get<bool>()};
  response.applies_at = Integer(*json, "applies_at").value_or(-1);
  response.error = Text(*json, "error").value_or("");
  if (const auto found = json->find("status"); found != json->end()) {
    auto status = ReadStatus(*found);
    if (!status.ok()) return status.status();
    response.has_status = true;
    response.status = std::move(*status);
  }
  return response;
}

}  // namespace shardscope::config
