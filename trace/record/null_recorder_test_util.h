// For tests: a recorder that takes everything and keeps nothing. Tests override what they look at.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "trace/record/recorder.h"

namespace shardscope::record {

class NullRecorder : public Recorder {
 public:
  NullRecorder() : Recorder(TakersOf<NullRecorder>(schema::HotRecords())) {}

  schema::StringId AddString(std::string_view /*text*/) override { return {}; }
  void MakeRoom() override {}
  void SetWindow(bool /*recording*/) override {}
  bool WasRecording(int64_t /*time_ns*/) const override { return true; }
  std::map<std::string, int64_t> Dropped() const override { return {}; }
  Status WriterStatus() const override { return Status::Ok(); }
  Status Flush() override { return Status::Ok(); }
  Status Finish() override { return Status::Ok(); }
  std::string path() const override { return ""; }

 protected:
  using Recorder::Recorder;

 private:
  friend class Recorder;

  int64_t AddRow(RareRow /*row*/) override { return 0; }
  template <typename T>
  void Take(const T& /*record*/) {}
};

}  // namespace shardscope::record
