// What `shardscope tail --stdio RUN` writes: rows of a run as lines of JSON, so that another
// machine can follow it through a pipe (ssh).
//
//   {"shardscope_tail":1,"schema":1,"run":"NAME"}     first line: protocol, schema version
//   {"table":"op_run","rows":[[1,17,0,...],...]}      values in the order of the table's columns
//   {"state":"live"}                                  ends a group of rows that belong together;
//   also
//                                                     "finished" and "cut", after which the pipe
//                                                     ends
//   {"error":"..."}                                   the last line, if the run cannot be read on
//
// A REAL that is not finite is null.
#pragma once

#include <string>
#include <string_view>

#include "trace/base/status.h"
#include "trace/store/source.h"

namespace shardscope::store {

std::string TailHello(std::string_view run_name);
// The lines of a group, its end included.
std::string TailGroup(const RowBatch& batch, SourceState state);
std::string TailError(std::string_view message);

// Reads those lines. Input from a pipe is as untrusted as a file: everything is checked.
class TailDecoder {
 public:
  // One line without its end. Rows are kept until their group ends.
  Status Take(std::string_view line);

  // Moves the rows of complete groups to *batch; false if there was no complete group.
  bool TakeRows(RowBatch* batch);

  SourceState state() const { return state_; }
  const std::string& run_name() const { return run_name_; }

 private:
  bool greeted_ = false;
  bool complete_ = false;
  std::string run_name_;
  RowBatch group_;     // not ended yet
  RowBatch finished_;  // of ended groups
  SourceState state_ = SourceState::kLive;
};

}  // namespace shardscope::store
