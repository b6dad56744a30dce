// RunSource: all trace files of a run as one Source. Ids of the second and later files are shifted
// (row_batch.h), so that they stay distinct, and times are put on the clock of the first file
// (merge/clock_merger.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/database.h"
#include "trace/store/merge/clock_merger.h"
#include "trace/store/run_files.h"
#include "trace/store/source.h"

namespace shardscope::store {

// Of a run of several files meta rows "process.<index of the file>" name the process of each as
// its file does: "host-pid".
inline constexpr std::string_view kProcessPrefix = "process.";

class RunSource final : public Source {
 public:
  enum class Purpose : uint8_t {
    kFollow,   // Read is called again and again
    kReadOnce  // until it returns false: then nothing is kept for better knowledge of the clocks
  };
  static Result<std::unique_ptr<RunSource>> Open(const RunFiles& run,
                                                 Purpose purpose = Purpose::kFollow);

  Result<bool> Read(RowBatch* batch) override;
  SourceState state() const override;

 private:
  RunSource(RunFiles run, Purpose purpose) : run_(std::move(run)), purpose_(purpose) {}

  Status AddFile(const TraceFile& file);
  void AddNewFiles();
  void NameProcesses(RowBatch* batch);

  RunFiles run_;
  const Purpose purpose_;
  bool whole_folder_ = false;  // not just one file of it
  bool said_unfinished_ = false;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::string> stems_;
  size_t named_processes_ = 0;
  ClockMerger merger_;
  int64_t next_look_ns_ = 0;
};

// Rows of the files of a run, one batch a file, as one: ids shifted and on the clock of the first
// file, as a RunSource that reads no more than them gives them.
RowBatch MergeFiles(const RunFiles& run, std::vector<RowBatch> files);

// One file is queried in place, live or finished. Several files are copied into memory, with ids
// shifted as in row_batch.h, so that views across ranks see the whole run. Nothing can be changed
// or attached.
Result<Database> OpenRunDatabase(const RunFiles& run);

}  // namespace shardscope::store
