// What traces say, in English, of a source that is off or partial, where it is always the same
// (table capability, column reason). The app has each in Chinese (ui/catalogue/reasons.inc).
#pragma once

namespace shardscope::reasons {

inline constexpr const char* kNoNvtxTool = "no tool listens (NVTX_INJECTION64_PATH is not set)";
inline constexpr const char* kNoTf32 = "fp32 products are computed in fp32, not in TF32";
inline constexpr const char* kRingFull =
    "a ring was full: records came faster than they were written";
inline constexpr const char* kNoRoom = "record.max_bytes leaves no room beside the plan of the run";
inline constexpr const char* kWriteFailed = "writing the trace failed";
inline constexpr const char* kRecorderMemory =
    "the recorder had no memory: what came later is lost";
inline constexpr const char* kRecorderError = "an error of the recorder: what came later is lost";
inline constexpr const char* kCuptiError = "CUPTI met an error and switched itself off";
inline constexpr const char* kCuptiSilent =
    "for a time launches went on but CUPTI handed out no records: another tool in the process "
    "(torch.profiler) has them";
inline constexpr const char* kCuptiNoBuffer = "records that CUPTI had no buffer for";
inline constexpr const char* kCuptiDamaged = "buffers of CUPTI that could not be read to their end";
inline constexpr const char* kUnplaced =
    "kernels and copies without times and without the call that made them";
inline constexpr const char* kAllocatorGaps =
    "changes of PyTorch's allocator without an event of it";
inline constexpr const char* kNcclEvents = "events: more were open than fit";
inline constexpr const char* kNvtxRanges = "ranges: too many are open";
inline constexpr const char* kNvtxPayloads = "payloads: more different values than are kept";
inline constexpr const char* kRefusedRows = "rows of the file that cannot be were left out";

// How the reason begins of a source that is partial as its file ends early; what it was that is
// missing comes behind it, in English.
inline constexpr const char* kFileIsCut = "the file is not whole: ";

// What else recorded and imported traces say in English, with what is filled in: errors (table
// marker) and their optional parts, and the name of a track.
inline constexpr const char* kGpuOutOfMemory =
    "GPU {} is out of memory: {} more were asked for{}; of the blocks that the snapshot knows {} "
    "are "
    "in use";
inline constexpr const char* kTorchOutOfMemory =
    "GPU {} is out of memory: {} more were asked for{}; PyTorch holds {}, of which {} are in use";
inline constexpr const char* kGpuBytesFree = ", {} are free";
inline constexpr const char* kAskedForIn = " in {}";
inline constexpr const char* kInRange = " (in {})";
inline constexpr const char* kAskedForBy = "; asked for by {}";
inline constexpr const char* kRangesWhileRecorded = "ranges while GPU {} was recorded";

// All of them.
inline constexpr const char* kAll[] = {
    kNoNvtxTool,    kNoTf32,     kRingFull,    kNoRoom,        kWriteFailed,  kRecorderMemory,
    kRecorderError, kCuptiError, kCuptiSilent, kCuptiNoBuffer, kCuptiDamaged, kUnplaced,
    kAllocatorGaps, kNcclEvents, kNvtxRanges,  kNvtxPayloads,  kRefusedRows};

}  // namespace shardscope::reasons
