// PipeSource: follows a run on another machine through the output of a command, as a rule
// `ssh HOST shardscope tail --stdio RUN`. Used by one thread at a time.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "trace/store/remote/tail_protocol.h"
#include "trace/store/source.h"

namespace shardscope::store {

class PipeSource final : public Source {
 public:
  // Starts the command (found by PATH, no shell). It is ended when the PipeSource goes.
  static Result<std::unique_ptr<PipeSource>> Start(const std::vector<std::string>& command);
  ~PipeSource() override;

  // Takes what has arrived; does not wait for more.
  Result<bool> Read(RowBatch* batch) override;
  SourceState state() const override { return decoder_.state(); }

  // As the remote end calls it; empty until its greeting came.
  const std::string& run_name() const { return decoder_.run_name(); }

 private:
  PipeSource(std::string name, pid_t process, int descriptor)
      : name_(std::move(name)), process_(process), descriptor_(descriptor) {}

  // Decodes the complete lines of unread_.
  Status DecodeLines();
  Status EndOfPipe();

  const std::string name_;  // the command, for messages
  pid_t process_;
  int descriptor_;
  std::string unread_;
  size_t searched_ = 0;  // so much of the front of unread_ has no end of a line
  TailDecoder decoder_;
  bool ended_ = false;
};

}  // namespace shardscope::store
