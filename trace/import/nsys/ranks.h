// The ranks that an export of Nsight Systems tells of: a process for each device that it works on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/import/nsys/export_file.h"
#include "trace/import/nsys/nccl_calls.h"
#include "trace/import/nsys/payload.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

// A process as Nsight Systems numbers it, with the bits of threads 0; 0: the file has no numbers.
using GlobalProcess = int64_t;

inline constexpr int64_t kThreadBits = (int64_t{1} << 24) - 1;

// The number that the system gave a process, or a thread.
inline int64_t ProcessOf(int64_t global) { return (global >> 24) & kThreadBits; }
inline int64_t ThreadOf(int64_t global) { return global & kThreadBits; }

struct NsysRank {
  GlobalProcess process = 0;
  int64_t device = -1;            // -1: none
  bool has_more_devices = false;  // the process works on others, too, as other ranks
  std::optional<int32_t> rank;    // as far as the file tells
};

struct NsysRanks {
  std::vector<NsysRank> ranks;              // by process and device
  std::map<int64_t, int64_t> num_ranks_of;  // by communicator
  std::vector<RecordedGroup> groups;        // whose members are all known
  int num_ranks = 1;                        // of the run, as far as the file tells
};

// The payload of a row of NVTX_EVENTS that begins with kPayloadColumns, from this column on.
inline constexpr std::string_view kPayloadColumns[] = {"binaryData", "jsonText", "jsonTextId"};
Payload PayloadOf(const store::Statement& row, int column, const PayloadSchemas& schemas,
                  ExportFile* file);

Result<NsysRanks> FindRanks(ExportFile* file, const PayloadSchemas& schemas);

}  // namespace shardscope::imports
