// FileSource: follows one trace file, over the moment in which it is finished.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "trace/store/reader.h"
#include "trace/store/source.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

class FileSource final : public Source {
 public:
  static Result<std::unique_ptr<FileSource>> Open(const TraceFile& file);

  Result<bool> Read(RowBatch* batch) override;
  SourceState state() const override { return state_; }

 private:
  explicit FileSource(TraceFile file) : file_(std::move(file)) {}

  Status OpenNewest();
  Status CheckWriter();
  Result<bool> ReadTables(RowBatch* batch);
  template <typename Row>
  Result<bool> ReadTable(RowBatch* batch);
  Status ReadState();

  const TraceFile file_;
  std::optional<TraceReader> reader_;
  bool live_file_ = false;     // reader_ has the live file open
  int64_t data_version_ = -1;  // of reader_, at the last Read
  bool more_ = false;          // the last Read left rows
  int64_t next_writer_check_ns_ = 0;
  std::array<int64_t, schema::kNumTables> last_id_ = {};  // ids start at 1
  SourceState state_ = SourceState::kLive;
};

}  // namespace shardscope::store
