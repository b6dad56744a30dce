// Control messages between app and trainer: newline-delimited JSON over the run's Unix socket.
// Parsing and printing only; the sockets are in control_server.h (trainer) and
// control_client.h (app, scripts, tests).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "trace/base/status.h"
#include "trace/base/words.h"

namespace shardscope::config {

using words::RunState;

inline constexpr size_t kMaxLineBytes = 1 << 20;

enum class Action : uint8_t { kPause, kResume, kStep, kStop, kCheckpoint };

struct SetRequest {
  std::map<std::string, std::string> values;  // canonical texts are made by the receiver
};
struct DoRequest {
  Action action = Action::kPause;
};
struct GetRequest {
  std::string what;  // "status"
};

struct Request {
  int64_t id = 0;
  std::variant<SetRequest, DoRequest, GetRequest> body;
};

struct RunStatus {
  std::string run;
  std::optional<RunState> state;  // none: it has said nothing, or a word of another version
  int64_t step = 0;
  int64_t steps = 0;
  std::map<std::string, std::string> values;   // every key, in force
  std::map<std::string, std::string> pending;  // accepted, not yet in force
  int64_t pending_step = -1;                   // when they apply

  bool operator==(const RunStatus&) const = default;
};

struct Response {
  int64_t id = 0;
  bool ok = false;
  int64_t applies_at = -1;  // step; -1 if it does not apply
  std::string error;
  bool has_gone = false;  // the run, before it answered; not sent, but said by the client
  bool has_status = false;
  RunStatus status;
};

std::string PrintHello(std::string_view run);
Result<std::string> ParseHello(std::string_view line);  // the run's name
std::string PrintRequest(const Request& request);       // one line, with its newline
Result<Request> ParseRequest(std::string_view line);
int64_t IdOf(std::string_view line);  // of a request that cannot be parsed otherwise; -1 if none
std::string PrintResponse(const Response& response);
Result<Response> ParseResponse(std::string_view line);

}  // namespace shardscope::config
