// What an event of NVTX carries beside its message: a plain number, or structures of which the
// library has registered what they mean (payload_schemas.h).
//
// Note: NCCL's payloads
// NCCL passes an array of {schema, size, pointer}, as nvToolsExtPayload.h has it, with numbers of
// schemas that are fixed in its source (src/include/nvtx.h); it registers what they mean only once
// a communicator is made. The layouts here are those of NCCL 2.28: communicator's hash, bytes of a
// rank, then, of most, one number more. What has another size is read as it was registered.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <optional>
#include <string>

namespace shardscope::inject {

struct NvtxDomain;

struct NvtxPayload {
  std::string text;  // becomes part of the range's name: " (communicator 1a2b, 64 bytes, peer 3)"
  std::optional<double> number;  // becomes a counter where the range begins
};

// `event` may be null, and `domain`: the default one. Nothing is read where nothing is recorded.
NvtxPayload PayloadOf(const nvtxEventAttributes_t* event, const NvtxDomain* domain);

}  // namespace shardscope::inject
