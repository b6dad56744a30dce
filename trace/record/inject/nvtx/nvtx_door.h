// The NVTX door: puts our handlers into the function tables of a copy of NVTX.
#pragma once

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

namespace shardscope::inject {

// As NVTX calls it, once for each of its copies in the process. 1: attached; 0: this process is not
// recorded, and NVTX calls nobody.
int AttachNvtx(NvtxGetExportTableFunc_t get_export_table);

// As NVTX calls it, once for each extension in each of its copies: that for payloads tells what
// they mean. 0 as above.
int AttachNvtxExtension(nvtxExtModuleInfo_t* module);

}  // namespace shardscope::inject
