// GpuSnapshotBuilder: rows of spans, kernels, NCCL operations and driver memory into a Snapshot. A
// kernel and its span come as two rows with one id, in either order. Part of the SnapshotBuilder,
// whose thread it is used on.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "trace/query/snapshot.h"
#include "trace/store/row_batch.h"

namespace shardscope::query {

class SnapshotBuilder;

class GpuSnapshotBuilder {
 public:
  explicit GpuSnapshotBuilder(SnapshotBuilder* owner);

  // After the small tables and the plan of the same batch.
  void Add(const store::RowBatch& batch);

  // No more rows come: spans on a stream's track without a kernel's row are spans like others.
  void End();

  // Index into Snapshot::names of a string of the file; 0, an empty name, if there is none.
  int32_t NameOf(StringId string) const;

 private:
  void AddNames(const store::RowBatch& batch);
  void AddStreams(const store::RowBatch& batch);
  void AddSpans(const store::RowBatch& batch);
  void AddWork(const store::RowBatch& batch);
  void Join(const schema::GpuWorkRow& row, const Span& span);
  void AddNccl(const store::RowBatch& batch);
  void AddEdges(const store::RowBatch& batch);
  void AddSegments(const store::RowBatch& batch);
  void AddCounters(const store::RowBatch& batch);
  RankRows* RowsOfTrack(TrackId track) const;
  int32_t NameOfText(std::string_view text);
  int32_t KnownName(std::string_view text) const;  // -1: no string of the file so far

  SnapshotBuilder& owner_;
  Snapshot& snapshot_;  // of the owner
  std::unordered_map<StringId, int32_t> name_of_string_;
  std::map<std::string, int32_t, std::less<>> name_of_text_;
  std::unordered_map<TrackId, int32_t> rank_of_track_;
  size_t known_tracks_ = 0;
  std::unordered_set<TrackId> stream_tracks_;
  // By id; each waits for its other half.
  std::unordered_map<SpanId, Span> waiting_spans_;  // on stream tracks
  std::unordered_map<SpanId, schema::GpuWorkRow> waiting_work_;
};

}  // namespace shardscope::query
