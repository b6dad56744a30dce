// For tests: a recorder that takes everything and keeps nothing. Tests override what they look at.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "trace/record/recorder.h"

namespace shardscope::record {

class NullRecorder : public Recorder {
 public:
  int64_t AddTrack(schema::TrackRow /*row*/) override { return 0; }
  void AddGpuStream(schema::GpuStreamRow /*row*/) override {}
  void AddRank(schema::RankRow /*row*/) override {}
  int64_t AddString(std::string_view /*text*/) override { return 0; }
  int64_t AddSchedule(schema::ScheduleRow /*row*/) override { return 0; }
  void AddScheduleBound(schema::ScheduleBoundRow /*row*/) override {}
  int64_t AddPlanOp(schema::PlanOpRow /*row*/) override { return 0; }
  void AddPlanEdge(schema::PlanEdgeRow /*row*/) override {}
  void AddMarker(schema::MarkerRow /*row*/) override {}
  void AddCapability(schema::CapabilityRow /*row*/) override {}
  void AddGpuClock(schema::GpuClockRow /*row*/) override {}
  void AddOverheadStep(schema::OverheadStepRow /*row*/) override {}
  void AddPause(schema::PauseRow /*row*/) override {}
  void SetMeta(std::string_view /*key*/, std::string_view /*value*/) override {}
  void Record(const OpRecord& /*record*/) override {}
  void Record(const schema::StepRow& /*row*/) override {}
  void Record(const schema::SpanRow& /*row*/) override {}
  void Record(const schema::MemoryEventRow& /*row*/) override {}
  void Record(const schema::CounterRow& /*row*/) override {}
  void Record(const GpuWorkRecord& /*record*/) override {}
  void Record(const NcclRecord& /*record*/) override {}
  void Record(const schema::EventEdgeRow& /*row*/) override {}
  void Record(const schema::MemorySegmentRow& /*row*/) override {}
  void Record(const schema::AllocationRow& /*row*/) override {}
  void SetWindow(bool /*recording*/) override {}
  bool WasRecording(int64_t /*time_ns*/) const override { return true; }
  std::map<std::string, int64_t> Dropped() const override { return {}; }
  Status WriterStatus() const override { return Status::Ok(); }
  Status Flush() override { return Status::Ok(); }
  Status Finish() override { return Status::Ok(); }
  std::string path() const override { return ""; }
};

}  // namespace shardscope::record
