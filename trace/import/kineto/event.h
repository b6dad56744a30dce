// One event of a Chrome trace, as its text says.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::imports {

// A number, or a name where the file has a text.
struct EventId {
  int64_t number = -1;
  std::string_view text;  // empty: it is a number
};

// What PyTorch says of a collective beside its kernel. Elements, not bytes.
struct CollectiveArguments {
  int64_t elements_in = -1;
  int64_t elements_out = -1;
  int64_t group_size = -1;
  int64_t sequence = -1;
  std::string_view collective;
  std::string_view dtype;
  std::string_view group;
  std::string_view group_description;
  std::string_view group_ranks;  // a list; cut after 30, it ends with "...]"
};

// Arguments that mean something to us; numbers are -1 and texts empty where they are not there.
struct EventArguments : CollectiveArguments {
  int64_t correlation = -1;
  int64_t device = -1;
  int64_t context = -1;
  int64_t stream = -1;
  int64_t priority = -1;
  int64_t bytes = -1;
  int64_t graph = -1;
  int64_t graph_node = -1;
  int64_t channel = -1;
  int64_t registers = -1;
  int64_t shared_bytes = -1;
  std::array<int32_t, 3> grid{};
  std::array<int32_t, 3> block{};
  int64_t waited_stream = -1;
  int64_t record_correlation = -1;
  // Of PyTorch's allocator.
  int64_t device_type = -1;
  int64_t total_allocated = -1;
  // Of metadata: the name of a process or thread.
  std::string_view name;
  // Of counters.
  std::vector<std::pair<std::string_view, double>> values;
  // Of an export of ours (trace/export/kineto.h): rows of tables, as JSON, and the version of their
  // schema; a launch of one of its ops, which has no row.
  std::vector<std::pair<std::string_view, std::string_view>> rows;
  int64_t schema = -1;
  int64_t is_launch_of_op = -1;
};

struct Event {
  char phase = '\0';
  std::string_view category;
  std::string_view name;
  EventId process;
  EventId thread;
  std::optional<int64_t> start_ns;
  std::optional<int64_t> duration_ns;
  EventArguments arguments;
};

// One thread at a time.
class EventParser {
 public:
  EventParser();
  ~EventParser();

  // `text` is an object with EventTexts::kPadding bytes behind it that may be read. The event's
  // texts are valid until the next call. False: it cannot be read.
  bool Parse(std::string_view text, Event* event);

  // Arguments and fields that mean nothing to us, and how often.
  const std::map<std::string, int64_t, std::less<>>& unknown() const { return unknown_; }
  // Events with bytes that are no UTF-8, which were replaced.
  int64_t num_repaired() const { return num_repaired_; }

 private:
  struct Json;

  bool ParseFields(std::string_view text, size_t capacity, Event* event, bool* is_utf8);

  const std::unique_ptr<Json> json_;
  std::string repaired_;
  std::map<std::string, int64_t, std::less<>> unknown_;
  int64_t num_repaired_ = 0;
};

}  // namespace shardscope::imports
