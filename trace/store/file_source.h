// FileSource: follows one trace, from live segment to live segment (writer.h) and over the moment
// in which it is finished.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "trace/store/reader.h"
#include "trace/store/source.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

// Says that the file of a killed run stays as it was left, and why. Id of no row of a file.
inline constexpr std::string_view kFinisher = "finisher";  // capability.source of that row
schema::CapabilityRow UnfinishedRow(const std::string& reason);

class FileSource final : public Source {
 public:
  static Result<std::unique_ptr<FileSource>> Open(const TraceFile& file);

  Result<bool> Read(RowBatch* batch) override;
  SourceState state() const override { return state_; }

 private:
  // Ids for capability rows that are in no file; a file has no 2^39 rows.
  static constexpr int64_t kFirstRemovedId = int64_t{1} << 39;

  explicit FileSource(TraceFile file) : file_(std::move(file)) {}

  Status Use(TraceReader reader);
  Status OpenNewest();
  // The next segment; 0: there is none yet. If there is one, no more rows come to segment_.
  int64_t Successor() const;
  Status CheckNoGap();
  void CheckWriter(RowBatch* batch);
  Result<bool> ReadTables(RowBatch* batch);
  template <typename Row>
  Result<bool> ReadTable(RowBatch* batch);
  Status ReadState();
  // What was removed to keep the size bound: taken out of the meta rows from `first_meta` on, and
  // what is new of it added to *batch as capability rows, which add up over the files of a run.
  void SayRemoved(size_t first_meta, RowBatch* batch);

  const TraceFile file_;
  std::optional<TraceReader> reader_;
  int64_t segment_ = 0;  // that reader_ has open; 0: the finished file
  // The last step of which rows were missing when this source began; -1: none. Its other rows are
  // left out. Steps that are removed later were read before.
  int64_t skip_through_step_ = -1;
  int64_t data_version_ = -1;  // of reader_, at the last Read
  bool more_ = false;          // the last Read left rows
  int64_t next_writer_check_ns_ = 0;
  std::array<int64_t, schema::kNumTables> last_id_ = {};  // ids start at 1
  int64_t removed_engine_ = 0;                            // said so far
  int64_t removed_memory_ = 0;
  int64_t last_removed_id_ = kFirstRemovedId;
  SourceState state_ = SourceState::kLive;
};

}  // namespace shardscope::store
