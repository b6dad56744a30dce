// From CUPTI's buffers to plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/record/cupti/activity.h"
#include "trace/record/cupti/functions.h"
#include "trace/record/cupti/names.h"

namespace shardscope::cupti {

struct DecodeCounts {
  int64_t decoded = 0;
  int64_t ignored = 0;   // of kinds that nothing here uses
  bool damaged = false;  // the walk ended before the buffer did: the rest of it is lost
};

// Appends the records of one completed buffer (`size` valid bytes, 8-aligned) to `batch`. The
// walker of `functions` steps from record to record; a damaged one ends the walk and is said, never
// followed. One thread (that of `names`).
DecodeCounts Decode(const CuptiFunctions& functions, uint8_t* buffer, size_t size, Names& names,
                    Batch& batch);

}  // namespace shardscope::cupti
