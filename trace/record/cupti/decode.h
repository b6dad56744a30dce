// From CUPTI's buffers to plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "trace/record/cupti/activity.h"
#include "trace/record/cupti/functions.h"
#include "trace/record/cupti/names.h"

namespace shardscope::cupti {

// An enumeration as the number that is there: another CUPTI may have values that the headers that
// this was built with lack.
template <typename Record, typename Enum>
uint32_t Number(const Record& record, Enum Record::*field) {
  static_assert(sizeof(Enum) == sizeof(uint32_t));
  uint32_t number = 0;
  // Not through a reference to the member: of a packed record that would be a copy, read as the
  // enumeration.
  std::memcpy(&number, &(record.*field), sizeof number);
  return number;
}

// Calls each of which, if it succeeds, makes one kernel.
bool LaunchesKernel(bool driver, uint32_t callback);

struct DecodeResult {
  int64_t decoded = 0;
  int64_t ignored = 0;   // of kinds that nothing here uses
  bool damaged = false;  // the walk ended before the buffer did: the rest of it is lost
  // What records of overhead point to, which CUPTI hands over with them: what had the buffer
  // from CUPTI itself calls free() on each. In a dump they are pointers of another process.
  std::vector<void*> overhead_data;
};

// Appends the records of one completed buffer (`size` valid bytes, 8-aligned) to `batch`. The
// walker of `functions` steps from record to record; a damaged one ends the walk and is reported,
// never followed. One thread (that of `names`).
DecodeResult Decode(const CuptiFunctions& functions, uint8_t* buffer, size_t size, Names& names,
                    Batch& batch);

}  // namespace shardscope::cupti
