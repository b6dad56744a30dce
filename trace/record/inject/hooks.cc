// The names by which CUDA, NVTX and NCCL find this library; all that it exports.
#include "trace/record/inject/hooks.h"

#include "trace/record/inject/allocator/allocator_rows.h"
#include "trace/record/inject/cuda_recording.h"
#include "trace/record/inject/guarded.h"
#include "trace/record/inject/process_recording.h"

#define SHARDSCOPE_HOOK extern "C" __attribute__((visibility("default")))

using shardscope::inject::Guarded;
using shardscope::inject::ProcessRecording;

SHARDSCOPE_HOOK int InitializeInjection() {
  Guarded([] { shardscope::inject::AttachCuda(); });
  return 1;
}

SHARDSCOPE_HOOK int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  return Guarded([&] { return shardscope::inject::AttachNvtx(get_export_table); });
}

SHARDSCOPE_HOOK int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  return Guarded([&] { return shardscope::inject::AttachNvtxExtension(module); });
}

// For what is loaded into the process beside this library (engine/torch_ranges): a capability row.
SHARDSCOPE_HOOK void ShardscopeState(const char* source, const char* status, const char* reason) {
  Guarded([&] {
    if (ProcessRecording* recording = ProcessRecording::Open()) {
      recording->State(source, status, reason);
    }
  });
}

// The same without a recording of a process with nothing else to record.
SHARDSCOPE_HOOK void ShardscopeStateIfRecorded(const char* source, const char* status,
                                               const char* reason) {
  Guarded([&] { ProcessRecording::StateIfRecorded(source, status, reason); });
}

// Likewise: an event of a caching allocator.
SHARDSCOPE_HOOK void ShardscopeAllocator(const ShardscopeAllocatorEvent* event) {
  Guarded([&] { shardscope::inject::AddAllocatorEvent(*event); });
}

SHARDSCOPE_HOOK const shardscope::inject::nccl::PluginV5 ncclProfiler_v5 =
    shardscope::inject::kNcclPluginV5;
SHARDSCOPE_HOOK const shardscope::inject::nccl::PluginV4 ncclProfiler_v4 =
    shardscope::inject::kNcclPluginV4;
