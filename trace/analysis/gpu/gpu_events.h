// What happened on the streams of a rank's GPU, as a definition of their times counts it.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/gpu/gpu_time.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// Bits, so that sums of them say what ran at once.
enum class GpuKind : uint8_t { kOther = 0, kComputation = 1, kCommunication = 2, kMemory = 4 };

// By the name alone, as HTA 0.5.0 does (hta/utils/utils.py: get_kernel_type()).
GpuKind HtaKindOfName(std::string_view name);

// Work, or what else HTA takes for that of a stream. Times are nanoseconds; of HTA's, whole
// microseconds, and the end may lie before the start.
struct GpuEvent {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t stream = 0;
  int64_t launch_ns = std::numeric_limits<int64_t>::min();  // the smallest: not known
  bool in_queue = false;                                    // its launch put it into a queue
  GpuKind kind = GpuKind::kOther;
  int32_t step = -1;
  const std::string* name = nullptr;   // of the Snapshot
  query::RowRef<query::GpuWork> work;  // of the Snapshot; null: no work

  bool has_launch() const { return launch_ns != std::numeric_limits<int64_t>::min(); }
  int64_t length_ns() const { return end_ns - start_ns; }
};

class GpuEventReader {
 public:
  // Keeps a reference to the Snapshot.
  GpuEventReader(const query::Snapshot& snapshot, GpuDefinition definition);

  // By start.
  std::vector<GpuEvent> EventsOf(const query::RankRows& rows) const;

 private:
  // What an import says of the file of a rank.
  struct FileFacts {
    int64_t base_ns = 0;  // what was added to its times
    // As the file has it, without the base; the smallest: not known.
    int64_t first_event_ns = std::numeric_limits<int64_t>::min();
    bool first_event_is_work = false;
    int64_t stream_of_host_waits = -1;
    std::map<std::string, int64_t, std::less<>> streams_of_names;  // of events that are no work
  };
  FileFacts FactsOf(int32_t rank) const;
  bool NameHasMark(int32_t name) const;
  GpuKind HtaKindOf(int32_t name) const;
  int64_t StartOfLastStep(const query::RankRows& rows, const FileFacts& facts) const;
  GpuEvent EventOf(query::RowRef<query::GpuWork> row) const;
  void AddOthers(const query::RankRows& rows, const FileFacts& facts,
                 std::vector<GpuEvent>* events) const;
  void RoundAndFilter(const query::RankRows& rows, const FileFacts& facts,
                      std::vector<GpuEvent>* events) const;
  void MarkQueued(const query::RankRows& rows, const FileFacts& facts,
                  std::vector<GpuEvent>* events) const;
  const std::string& NameAt(int32_t index) const;

  const query::Snapshot& snapshot_;
  const GpuDefinition definition_;
  std::vector<GpuKind> hta_kinds_;  // by name
  std::vector<bool> is_mark_;       // the same: of a step
  bool has_several_steps_ = false;  // as marked, over all ranks
  std::map<query::TrackId, int64_t> streams_;
  std::map<query::TrackId, int64_t> streams_of_waits_;  // by track; -2: of the host
};

}  // namespace shardscope::analysis
