// For tests: a recorder that keeps the rows of the GPU's work.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "trace/record/recorder.h"

namespace shardscope::cuda {

class KeepingRecorder : public record::Recorder {
 public:
  int64_t AddTrack(schema::TrackRow row) override { return Keep(&tracks, std::move(row)); }
  void AddCapability(schema::CapabilityRow row) override { Keep(&capabilities, std::move(row)); }
  int64_t AddString(std::string_view text) override { return Keep(&strings, std::string(text)); }
  void Record(const record::GpuWorkRecord& record) override { Keep(&works, record); }

  // The rest is of no interest.
  int64_t AddSchedule(schema::ScheduleRow /*row*/) override { return 0; }
  int64_t AddPlanOp(schema::PlanOpRow /*row*/) override { return 0; }
  void AddPlanEdge(schema::PlanEdgeRow /*row*/) override {}
  void AddRank(schema::RankRow /*row*/) override {}
  void AddGpuStream(schema::GpuStreamRow /*row*/) override {}
  void AddMarker(schema::MarkerRow /*row*/) override {}
  void SetMeta(std::string_view /*key*/, std::string_view /*value*/) override {}
  void Record(const record::OpRecord& /*record*/) override {}
  void Record(const schema::StepRow& /*row*/) override {}
  void Record(const schema::SpanRow& /*row*/) override {}
  void Record(const schema::MemoryEventRow& /*row*/) override {}
  void Record(const schema::CounterRow& /*row*/) override {}
  void Record(const record::NcclRecord& /*record*/) override {}
  void Record(const schema::EventEdgeRow& /*row*/) override {}
  void Record(const schema::MemorySegmentRow& /*row*/) override {}
  void SetWindow(bool /*recording*/) override {}
  std::map<std::string, int64_t> Dropped() const override { return {}; }
  Status WriterStatus() const override { return Status::Ok(); }
  Status Flush() override { return Status::Ok(); }
  Status Finish() override { return Status::Ok(); }
  std::string path() const override { return ""; }

  // Read while nobody writes.
  std::vector<schema::TrackRow> tracks;
  std::vector<schema::CapabilityRow> capabilities;
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
