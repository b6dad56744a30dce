// Which parallelism a recording shows, by group of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/ops.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

enum class Parallelism : uint8_t {
  kFsdp2,
  kFsdp1,
  kZero3,    // of DeepSpeed
  kSharded,  // FSDP or ZeRO-3: nothing else tells
  kZero2,    // gradients are reduced each to one rank or scattered, parameters gathered afterwards
  kDdp,
  kTensor,
  kPipeline,
  kContext,  // sequences are split
  kExpert
};
// "FSDP2", "FSDP1", "ZeRO-3", ..., "tensor parallel", ...
std::string_view Name(Parallelism parallelism);

// By what it is known.
enum class Evidence : uint8_t {
  kRanges,  // the framework marks what it does
  kName,    // of the group
  kUse      // which collectives it has, and when
};
// "ranges", "name", "use"
std::string_view Name(Evidence evidence);

struct RecognisedGroup {
  std::string group;  // as RecordedCollective::group
  Parallelism parallelism = Parallelism::kDdp;
  Evidence evidence = Evidence::kUse;
  int64_t num_units = 0;  // of what shards parameters
};

// By group, those with most collectives first; groups that nothing is known of are left out.
std::vector<RecognisedGroup> Recognise(const Recording& recording, const InferredOps& ops);

}  // namespace shardscope::imports
