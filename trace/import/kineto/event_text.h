// EventTexts: takes the text of a Chrome trace apart into the texts of its events, without ever
// holding the whole, and goes on behind what is no JSON.
//
// Files of killed profilers end anywhere, names hold unescaped quotes and bytes that are no UTF-8
// (pytorch/pytorch#130622, #146900): an event that cannot be read must not cost those behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"
#include "trace/import/input.h"

namespace shardscope::imports {

class EventTexts {
 public:
  // Bytes that may be read behind every text that Next() gives.
  static constexpr size_t kPadding = 64;

  // `source` is borrowed.
  explicit EventTexts(ByteSource* source) : source_(*source) {}

  // The text of the next event, from '{' to '}', valid until the next call; empty: there is none
  // any more. The error is of a text that is no trace.
  Result<std::string_view> Next();

  // The event that Next() gave cannot be read: the next one is looked for inside of it, not behind
  // it.
  void Reject() { rejected_ = true; }

  // Texts of the values beside the list of events, by key, as far as they were read.
  const std::map<std::string, std::string>& values() const { return values_; }
  // How often something was passed over to go on with the next event.
  int64_t num_broken() const { return num_broken_; }
  // Why the text ended before its end; empty: it did not.
  const std::string& cut() const { return cut_; }

 private:
  enum class Place : uint8_t { kStart, kObject, kEvents, kEnd };
  enum class Scan : uint8_t { kWhole, kEnded, kBroken, kTooLong };

  bool Fill();
  // The next byte that is none of `passed`, without taking it; '\0' at the end.
  char Peek(std::string_view passed);
  Scan ScanValue(size_t limit, size_t* end);
  Status TakeStart();
  Status TakeMember();
  void SkipToNextEvent();
  void EndCut(const std::string& why);

  ByteSource& source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what was not taken yet
  size_t size_ = 0;   // of what was read
  bool ended_ = false;
  bool rejected_ = false;
  size_t last_begin_ = 0;  // of the event that Next() gave
  int64_t offset_ = 0;     // in the whole text, of buffer_'s first byte
  int64_t num_broken_ = 0;
  int64_t bytes_without_event_ = 0;
  Place place_ = Place::kStart;
  bool is_list_ = false;  // the text is the list of events itself
  std::map<std::string, std::string> values_;
  std::string cut_;
};

}  // namespace shardscope::imports
