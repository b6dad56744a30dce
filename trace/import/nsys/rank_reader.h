// RankReader: what an export of Nsight Systems tells of one rank, as a Recording.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/base/status.h"
#include "trace/import/nsys/export_file.h"
#include "trace/import/nsys/nccl_calls.h"
#include "trace/import/nsys/payload.h"
#include "trace/import/nsys/ranks.h"
#include "trace/import/recorded_tracks.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

class RankReader {
 public:
  // Called for each row that was read; false: stop.
  using OnRow = std::function<bool()>;

  // Keeps references.
  RankReader(ExportFile* file, const NsysRanks& ranks, const NsysRank& rank,
             const PayloadSchemas& schemas, const OnRow& on_row);

  // An error is that of a stop (kCancelled); what cannot be read is said in the Recording.
  Result<Recording> Read(std::string title);

  // Tables whose rows it takes.
  static bool Takes(const ExportFile& file, std::string_view table);

 private:
  using Row = store::Statement;

  Status ReadKernels();
  Status ReadGraphs();
  Status ReadCopies();
  Status ReadSets();
  Status ReadCalls();
  Status ReadSyncs();
  Status ReadRanges();
  Status ReadHostTables();
  Status ReadMemory();
  void ReadFacts();
  void TakeNvtx(const Row& row);
  void TakePayload(const Row& row, std::string_view name, const RecordedSpan& span);
  void CountLeftOut();

  // Calls `take` for rows of a table that is there; what cannot be read is noted.
  Status Each(std::string_view table, std::initializer_list<std::string_view> columns,
              const std::string& where, const std::function<void(const Row&)>& take);
  // Condition: work, waits or memory of this rank.
  std::string OfDevice(std::string_view table) const;
  std::string OfThreads(std::string_view table) const;

  // Column start in front; false: the row has no time, which is noted.
  bool HasStart(const Row& row);
  // Columns start and end in front; false as above.
  bool TimesOf(const Row& row, int64_t* start_ns, int64_t* duration_ns);
  void AddWork(const Row& row, RecordedWork work);
  Names::Index NameOf(const Row& row, std::initializer_list<int> columns);
  Names::Index AddName(std::string_view text);
  uint32_t ThreadTrack(int64_t global_thread);
  uint32_t RangesTrack(int64_t domain);
  uint32_t StreamTrack(TrackKind kind, int64_t device, int64_t context, int64_t stream);
  uint32_t ShapeOf(const Row& row, int first_column);
  void Miss(const std::string& what, int64_t count = 1) {
    recording_.not_understood[what] += count;
  }

  ExportFile& file_;
  const NsysRanks& ranks_;
  const NsysRank& rank_;
  const PayloadSchemas& schemas_;
  const OnRow& on_row_;
  Recording recording_;
  NcclCalls nccl_;
  std::map<int64_t, std::string> domains_;
  std::unordered_map<int64_t, Names::Index> name_of_;  // by id in StringIds
  RecordedTracks tracks_{&recording_.tracks, &recording_.not_understood};
  RecordedShapes shapes_{&recording_.shapes};
};

}  // namespace shardscope::imports
