// Ranges that a program marked while a memory snapshot was recorded (external_annotations), and
// which of them are open when something happens on a device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/import/pickle/document_file.h"
#include "trace/import/pickle/stacks.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

// Nanoseconds of the time of day of a field in microseconds; none if it is no sensible time.
std::optional<int64_t> NsOfUs(std::optional<int64_t> time_us);

class Annotations {
 public:
  // Takes the list `annotations` of the document; nullptr: there are none. Spans, marks of steps
  // and what is odd go into the recording.
  Annotations(const Document& document, const Value* annotations, UnknownFields* unknown,
              Recording* recording);

  bool empty() const { return devices_.empty(); }
  std::optional<int64_t> first_ns() const { return first_ns_; }
  std::optional<int64_t> last_ns() const { return last_ns_; }

  struct Owner {
    Names::Index range = 0;
    Names::Index unit = 0;
    std::optional<words::Phase> phase;
  };
  // What is open on a device at a time, which never gets smaller from call to call.
  Owner OwnerAt(int32_t device, int64_t time_ns);

 private:
  struct Moment {
    int64_t time_ns = 0;
    Names::Index name = 0;
    bool begins = false;
  };
  struct Open {
    Names::Index name = 0;
    int64_t start_ns = 0;
  };
  struct Device {
    std::vector<Moment> moments;  // by time
    size_t next = 0;
    std::vector<Open> open;
    Owner owner;
  };

  void Take(const Document& document, const Value& annotation, UnknownFields* unknown);
  void WriteSpans(int32_t number, const Device& device);
  static bool Close(std::vector<Open>* open, Names::Index name, Open* closed);
  Owner OwnerOf(const std::vector<Open>& open);
  const Owner& PartOf(Names::Index name);

  Recording& recording_;
  std::map<int32_t, Device> devices_;
  std::map<Names::Index, Owner> part_of_;
  std::optional<int64_t> first_ns_;
  std::optional<int64_t> last_ns_;
};

}  // namespace shardscope::imports
