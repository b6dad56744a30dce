// HeldMemory: what changes of memory sum up to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/schema/columns.h"

namespace shardscope::store {

// One thread.
class HeldMemory {
 public:
  struct Change {
    int64_t rank = 0;
    std::string_view device;
    std::string_view category;
    std::string_view unit;
    int64_t bytes = 0;
  };
  // More than a terabyte at once is damage, and left out.
  void Add(const Change& change);
  void Add(const HeldMemory& other);

  // As one row a device, category and unit, at `time_ns`; then nothing is held. Of one rank, and of
  // all.
  void TakeRowsOf(int64_t rank, int64_t time_ns, std::vector<schema::MemoryEventRow>* rows);
  void TakeRows(int64_t time_ns, std::vector<schema::MemoryEventRow>* rows);

 private:
  struct Held {
    int64_t rank = 0;
    schema::ShortText device;
    schema::ShortText category;
    schema::ShortText unit;
    int64_t bytes = 0;
  };
  template <typename IsTaken>
  void Take(const IsTaken& is_taken, int64_t time_ns, std::vector<schema::MemoryEventRow>* rows);

  std::string key_;  // of the last change: millions are looked up
  std::unordered_map<std::string, Held> held_;
};

}  // namespace shardscope::store
