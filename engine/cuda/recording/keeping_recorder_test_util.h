// For tests: a recorder that keeps the rows of the GPU's work.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "trace/record/null_recorder_test_util.h"

namespace shardscope::cuda {

class KeepingRecorder : public record::NullRecorder {
 public:
  using NullRecorder::Record;
  int64_t AddTrack(schema::TrackRow row) override { return Keep(&tracks, std::move(row)); }
  void AddCapability(schema::CapabilityRow row) override { Keep(&capabilities, std::move(row)); }
  void AddMarker(schema::MarkerRow row) override { Keep(&markers, std::move(row)); }
  void AddGpuClock(schema::GpuClockRow row) override { Keep(&gpu_clocks, std::move(row)); }
  int64_t AddString(std::string_view text) override { return Keep(&strings, std::string(text)); }
  void Record(const record::GpuWorkRecord& record) override { Keep(&works, record); }
  void Record(const schema::MemorySegmentRow& row) override { Keep(&segments, row); }
  void Record(const schema::SpanRow& row) override { Keep(&spans, row); }

  // Read while nobody writes.
  std::vector<schema::TrackRow> tracks;
  std::vector<schema::CapabilityRow> capabilities;
  std::vector<schema::MarkerRow> markers;
  std::vector<schema::MemorySegmentRow> segments;
  std::vector<schema::SpanRow> spans;  // of no kernel or copy
  std::vector<schema::GpuClockRow> gpu_clocks;
  std::vector<std::string> strings;
  std::vector<record::GpuWorkRecord> works;

 private:
  template <typename Row>
  int64_t Keep(std::vector<Row>* rows, Row row) {
    const std::lock_guard lock(mutex_);
    rows->push_back(std::move(row));
    return static_cast<int64_t>(rows->size());
  }
  std::mutex mutex_;
};

}  // namespace shardscope::cuda
