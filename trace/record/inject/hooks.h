// What NVTX and NCCL call in this process, from the moment at which they find the library by the
// names that hooks.cc exports.
#pragma once

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include "trace/record/inject/nccl_abi.h"

namespace shardscope::inject {

// Puts our handlers into the function tables of a copy of NVTX, which calls this once for each of
// its copies in the process. 1: attached; 0: this process is not recorded, and NVTX calls nothing.
int AttachNvtx(NvtxGetExportTableFunc_t get_export_table);

// NVTX calls it once for each extension in each of its copies: that for payloads describes their
// layout. 0 as above.
int AttachNvtxExtension(nvtxExtModuleInfo_t* module);

// A profiler plugin of NCCL that records when collectives, sends and receives are put on their
// streams, with sequence number, algorithm and protocol.
//
// NCCL ends these events once the work is enqueued, not when the GPU has done it: they are spans of
// the host. One track a communicator; the sequence number is the counter "sequence" on it.
extern const nccl::PluginV5 kNcclPluginV5;
extern const nccl::PluginV4 kNcclPluginV4;

}  // namespace shardscope::inject
