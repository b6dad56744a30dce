// What files of other programs are, by their first bytes: for importers, and for messages
// that say what a file is that holds no trace.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardscope {

// So many bytes of a file are looked at, or all there are.
inline constexpr size_t kHeadBytes = 64 << 10;

// Of a SQLite file, ours too (sqlite.org/fileformat2.html, 1.2).
inline constexpr std::string_view kSqliteHead("SQLite format 3\0", 16);

// What may stand in front of JSON: spaces, and the mark of UTF-8.
inline constexpr std::string_view kBeforeJson(" \t\r\n\xef\xbb\xbf", 7);

// Traces of torch.profiler (Kineto), and other Chrome JSON.
bool IsKineto(std::string_view head);

// Snapshots of PyTorch's allocator: pickles or JSON.
bool IsMemorySnapshot(std::string_view head);

// Dumps of PyTorch's flight recorder: a pickle, and JSON where it is asked to.
bool IsFlightRecorder(std::string_view head);

// Nsight Systems' own form, which only that can read.
bool IsNsysReport(std::string_view head);

}  // namespace shardscope
