// GpuSnapshotBuilder: rows of spans, kernels, NCCL operations and driver memory into a Snapshot. A
// kernel and its span come as two rows with one id, in either order. Part of the SnapshotBuilder,
// whose thread it is used on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "trace/query/snapshot.h"
#include "trace/store/row_io.h"

namespace shardscope::query {

class GpuSnapshotBuilder {
 public:
  struct Hooks {
    std::function<RankRows*(int64_t rank)> rows_of_rank;  // nullptr: no such rank can be
    std::function<int32_t(std::string_view)> communicator;
    std::function<void(int64_t from_ns, int64_t to_ns)> extend;
    std::function<void()> refuse;
  };

  // After the small tables and the plan of the same batch.
  void Add(const store::RowBatch& batch, Snapshot* snapshot, const Hooks& hooks);

  // No more rows come: spans on a stream's track without a kernel's row are spans like others.
  void End(const Hooks& hooks);

 private:
  void AddNames(const store::RowBatch& batch, Snapshot* snapshot);
  void AddStreams(const store::RowBatch& batch, Snapshot* snapshot, const Hooks& hooks);
  void AddSpans(const store::RowBatch& batch, const Hooks& hooks);
  void AddWork(const store::RowBatch& batch, const Hooks& hooks);
  void Join(const schema::GpuWorkRow& row, const Span& span, const Hooks& hooks);
  void AddNccl(const store::RowBatch& batch, Snapshot* snapshot, const Hooks& hooks);
  void AddEdges(const store::RowBatch& batch, const Hooks& hooks);
  void AddSegments(const store::RowBatch& batch, const Hooks& hooks);
  void AddCounters(const store::RowBatch& batch, const Hooks& hooks);
  RankRows* RowsOfTrack(int64_t track, const Hooks& hooks) const;
  // Index into Snapshot::names of a string of the file; 0, an empty name, if there is none.
  int32_t NameOf(int64_t string) const;
  int32_t NameOfText(std::string_view text, Snapshot* snapshot);
  int32_t KnownName(std::string_view text) const;  // -1: no string of the file so far

  std::unordered_map<int64_t, int32_t> name_of_string_;
  std::map<std::string, int32_t, std::less<>> name_of_text_;
  std::unordered_map<int64_t, int32_t> rank_of_track_;
  size_t known_tracks_ = 0;
  std::unordered_set<int64_t> stream_tracks_;
  // By id; each waits for its other half.
  std::unordered_map<int64_t, Span> waiting_spans_;  // on stream tracks
  std::unordered_map<int64_t, schema::GpuWorkRow> waiting_work_;
};

}  // namespace shardscope::query
