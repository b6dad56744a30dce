// What an event of NVTX carries beside its message: a plain number, or what NCCL tells of the
// operation.
//
// Note: NCCL's payloads
// NCCL passes an array of {schema, size, pointer}, as nvToolsExtPayload.h has it, with numbers of
// schemas that are fixed in its source (src/include/nvtx.h); it registers what they mean only once
// a communicator is made. The layouts here are those of NCCL 2.28: communicator's hash, bytes of a
// rank, then, of most, one number more. What has another size is not read.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <optional>
#include <string>
#include <string_view>

namespace shardscope::inject {

struct NvtxPayload {
  std::string text;  // becomes part of the range's name: " (communicator 1a2b, 64 bytes, peer 3)"
  std::optional<double> number;  // becomes a counter where the range begins
};

// `event` may be null. `domain` is the name of its domain.
NvtxPayload PayloadOf(const nvtxEventAttributes_t* event, std::string_view domain);

}  // namespace shardscope::inject
