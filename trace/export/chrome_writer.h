// ChromeWriter: events of a Chrome trace, as torch.profiler and Perfetto's viewer read them.
//
// Format: "Trace Event Format" of Chromium; microseconds as decimals, which here have three digits
// behind the point, so that nothing is rounded. Used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/base/output_file.h"
#include "trace/base/status.h"

namespace shardscope::exports {

// Text in quotes as JSON has it; bytes that are no UTF-8 become U+FFFD.
std::string JsonText(std::string_view text);

// The members of an object, in the order in which they are added.
class JsonMembers {
 public:
  JsonMembers& Add(std::string_view key, std::string_view text) {
    return AddJson(key, JsonText(text));
  }
  JsonMembers& Add(std::string_view key, int64_t number);
  JsonMembers& AddJson(std::string_view key, std::string_view json);
  // Not if it is no number that JSON has.
  JsonMembers& AddReal(std::string_view key, double number);

  // "{...}"
  std::string Object() const { return "{" + text_ + "}"; }
  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
};

// Where an event stands.
struct ChromePlace {
  int64_t process = 0;
  int64_t thread = 0;
};

class ChromeWriter {
 public:
  // `head`: what the file says beside its events. `file` is borrowed.
  ChromeWriter(OutputFile* file, const JsonMembers& head);

  void NameProcess(int64_t process, std::string_view name, int64_t position);
  void NameThread(ChromePlace place, std::string_view name, int64_t position);
  void Complete(ChromePlace place, std::string_view category, std::string_view name,
                int64_t start_ns, int64_t end_ns, const JsonMembers& arguments = {});
  void Instant(ChromePlace place, std::string_view category, std::string_view name, int64_t time_ns,
               const JsonMembers& arguments = {});
  void Counter(int64_t process, std::string_view name, int64_t time_ns, const JsonMembers& values);
  // From an event that encloses the first moment to one that encloses the second.
  void Arrow(std::string_view category, std::string_view name, ChromePlace from, int64_t from_ns,
             ChromePlace to, int64_t to_ns);

  // Ends the text; the file is closed by its owner. The first error of all that was written.
  Status End();

 private:
  void Event(char phase, ChromePlace place, std::string_view category, std::string_view name,
             int64_t time_ns, std::string_view rest, const JsonMembers& arguments);
  void Put(std::string_view text);

  OutputFile& file_;
  std::string buffer_;
  bool is_first_ = true;
  int64_t next_arrow_ = 0;
  Status status_;
};

}  // namespace shardscope::exports
