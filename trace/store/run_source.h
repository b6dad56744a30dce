// RunSource: all trace files of a run as one Source. Ids of the second and later files are shifted
// (row_io.h), so that they stay distinct.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/store/run_folder.h"
#include "trace/store/source.h"

namespace shardscope::store {

class RunSource final : public Source {
 public:
  static Result<std::unique_ptr<RunSource>> Open(const RunFolder& run);

  Result<bool> Read(RowBatch* batch) override;
  SourceState state() const override;

 private:
  explicit RunSource(RunFolder run) : run_(std::move(run)) {}

  Status AddFile(const TraceFile& file);
  void AddNewFiles();

  RunFolder run_;
  bool whole_folder_ = false;  // not just one file of it
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::string> stems_;
  int64_t next_look_ns_ = 0;
};

}  // namespace shardscope::store
