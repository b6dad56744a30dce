// TrackIndex: what one rank's GPU streams did and what its threads marked, arranged for drawing:
// one lane a stream, and per thread one lane for each level of nesting. Part of the RunIndex; no
// ImGui, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/timeline/span_column.h"

namespace shardscope::timeline {

struct TrackLane {
  query::TrackId track;
  std::string name;                // "stream 7", "thread 4711"
  std::vector<SpanColumn> levels;  // of a stream: one; of a thread: the innermost ranges first
  size_t num_spans = 0;
  int32_t position = 0;  // of the track among those of its rank
  // The class of those spans that a coarse view cannot tell apart (SlotOf() is 0) that took
  // longest.
  query::OpClass op_class = query::OpClass::kHost;

  // Of a stream: its GPU and number, and the hardware queue of its kernels.
  int64_t device = 0;
  int64_t stream = 0;
  bool has_channel = false;
  bool several_channels = false;
  int32_t channel = 0;
  query::ChannelKind channel_kind = query::ChannelKind::kUnknown;

 private:
  friend class TrackIndex;
  std::array<int64_t, words::kNumOpClasses> busy_ns_{};  // by OpClass
};

class TrackIndex {
 public:
  // How a plan op is drawn.
  struct Look {
    query::OpClass op_class = query::OpClass::kHost;
    uint8_t shade = 0;
  };
  using Looks = std::unordered_map<query::PlanOpId, std::pair<query::OpClass, uint8_t>>;

  // Takes new rows, at most `max_rows`; returns how many. Rows of a stream carry row numbers of
  // RankRows::gpu_work, those of a thread of RankRows::spans.
  size_t Advance(const query::Snapshot& snapshot, const query::RankRows& rows, const Looks& looks,
                 size_t max_rows);
  bool Complete(const query::RankRows& rows) const {
    return num_work_ == rows.gpu_work.size() && num_sorted_ == rows.spans.size() &&
           next_sorted_ == sorted_.size();
  }

  const std::vector<TrackLane>& streams() const { return streams_; }
  const std::vector<TrackLane>& threads() const { return threads_; }
  // Indices of streams() by GPU and number, as a rank's lanes stand.
  std::vector<uint16_t> StreamsInOrder() const;
  // Indices of threads() by position, equal ones by track: the same on all ranks, whichever marked
  // something first.
  std::vector<uint16_t> ThreadsInOrder() const;
  bool empty() const { return streams_.empty() && threads_.empty(); }

  // The other stream of this rank's process whose kernels use the same hardware queue; nullptr if
  // none does.
  const TrackLane* SharesChannel(const query::Snapshot& snapshot, const TrackLane& stream) const;

  // Ranges nest deeper in some programs: all deeper ones share the outermost lane.
  static constexpr size_t kMaxLevels = 6;

 private:
  TrackLane& LaneOf(const query::Snapshot& snapshot, query::TrackId track,
                    std::vector<TrackLane>* lanes,
                    std::unordered_map<query::TrackId, size_t>* places);
  void TakeWork(const query::Snapshot& snapshot, const query::GpuWork& work, uint32_t row,
                const Looks& looks);
  void TakeSpan(const query::Snapshot& snapshot, const query::Span& span, uint32_t row);
  static void Insert(const Span& span, size_t level, TrackLane* lane);

  size_t num_work_ = 0;
  // Rows come in batches, each in the order of starts; ranges are taken in the order of their ends.
  void SortSpans(const query::Snapshot& snapshot, const query::RankRows& rows);
  size_t num_sorted_ = 0;         // of RankRows::spans
  std::vector<uint32_t> sorted_;  // rows, some of them
  size_t next_sorted_ = 0;        // of those, not yet taken

  std::vector<TrackLane> streams_;
  std::vector<TrackLane> threads_;
  std::unordered_map<query::TrackId, size_t> stream_of_track_;
  std::unordered_map<query::TrackId, size_t> thread_of_track_;
};

// How work is drawn that no op launched: by what it is for.
query::OpClass ClassOf(query::SpanCategory category, std::string_view name);

// "ncclDevKernel_AllGather_RING_LL", "vectorized_elementwise_kernel": without template arguments,
// parameters and namespaces.
std::string ShortKernelName(std::string_view name);

}  // namespace shardscope::timeline
