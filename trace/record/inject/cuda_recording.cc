#include "trace/record/inject/cuda_recording.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/reasons.h"
#include "trace/base/time.h"
#include "trace/base/words.h"
#include "trace/record/cupti/functions.h"
#include "trace/record/cupti/session.h"
#include "trace/record/inject/guarded.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

using words::CapabilityStatus;

constexpr int64_t kLagNs = 300 * kNsPerMs;

struct Gpu {
  std::unique_ptr<CudaRecording> spans;
  std::unique_ptr<cupti::Session> session;
};
Gpu* gpu = nullptr;  // set once, never destroyed: callbacks may come until the process is gone

// Work that still runs is not waited for: the program decides when it ends.
void StopCupti(ProcessRecording& recording) {
  gpu->session->Stop();
  gpu->spans->Finish();
  const cupti::SessionCounts counts = gpu->session->counts();
  recording.CountLost(trace_keys::kCuptiSource, reasons::kCuptiNoBuffer, counts.dropped);
  recording.CountLost(trace_keys::kCuptiSource, reasons::kCuptiDamaged, counts.damaged_buffers);
  recording.CountLost(trace_keys::kCuptiSource, reasons::kUnplaced, gpu->spans->unplaced());
  if (counts.silent)
    recording.State(trace_keys::kCuptiSource, CapabilityStatus::kPartial, reasons::kCuptiSilent);
  if (counts.failed)
    recording.State(trace_keys::kCuptiSource, CapabilityStatus::kPartial, reasons::kRecorderError);
  if (counts.fatal)
    recording.State(trace_keys::kCuptiSource, CapabilityStatus::kPartial, reasons::kCuptiError);
}

}  // namespace

void CudaRecording::Add(const cupti::Batch& batch, const cupti::Names& names) {
  names_ = &names;
  for (const cupti::StreamInfo& stream : batch.streams) rows_.SetPriority(stream);
  for (const cupti::MemoryOperation& operation : batch.memory) AddMemory(operation);
  joiner_.Add(batch);
  rows_.Write(joiner_.Take(MonotonicNs() - kLagNs), names);
}

void CudaRecording::Finish() {
  if (names_ != nullptr) rows_.Write(joiner_.Take(cupti::kEnd), *names_);
  rows_.Finish();
}

gpu::RowTarget::StreamTrack CudaRecording::AddStreamTrack(uint32_t device, cupti::StreamId stream) {
  StreamTrack added;
  added.track = recording_->AddTrack(gpu::NameOfStream(device, stream), words::TrackRole::kCompute);
  return added;
}

int32_t CudaRecording::RankOfDevice(uint32_t /*device*/) {
  return static_cast<int32_t>(recording_->rank());
}

// Where no caching allocator reports its events, the driver is the one allocator that is seen.
// Where one does, its blocks are the memory; what the driver hands out is in table memory_segment
// anyway.
void CudaRecording::AddMemory(const cupti::MemoryOperation& operation) {
  if (operation.kind != cupti::MemoryKind::kDevice || operation.time_ns <= 0) return;
  const std::pair segment(operation.device, operation.address);
  if (operation.bytes > 0) {
    if (operation.time_ns >= recording_->allocator_since_ns()) return;
    segments_.insert(segment);
  } else if (segments_.erase(segment) == 0) {
    return;
  }
  recording_->Memory(fmt::format("GPU {}", operation.device), operation.time_ns, operation.bytes);
}

void AttachCuda() {
  ProcessRecording* recording = ProcessRecording::Open();
  if (recording == nullptr || gpu != nullptr) return;
  const Result<cupti::CuptiFunctions> functions = cupti::LoadCupti();
  if (!functions.ok()) {
    recording->State(trace_keys::kCuptiSource, CapabilityStatus::kOff, functions.message());
    return;
  }
  const Undisturbed undisturbed;
  auto spans = std::make_unique<CudaRecording>(recording);
  cupti::SessionOptions options;
  options.on_profiler = [recording](bool on, int64_t time_ns) {
    Guarded([&] { recording->Switch(on, time_ns); });
  };
  auto session = cupti::Session::Start(
      functions.value(), options,
      [to = spans.get()](const cupti::Batch& batch, const cupti::Names& names) {
        Guarded([&] { to->Add(batch, names); });
      });
  if (!session.ok()) {
    recording->State(trace_keys::kCuptiSource, CapabilityStatus::kOff, session.message());
    return;
  }
  gpu = new Gpu{std::move(spans), std::move(session).value()};
  recording->AddAtEnd(&StopCupti);
  recording->recorder().Add(schema::MetaRow{std::string(trace_keys::kCuptiDeviceBytes),
                                            std::to_string(gpu->session->device_bytes())});
  const std::vector<std::string>& missing = gpu->session->missing();
  for (const std::string& reason : missing)
    recording->State(trace_keys::kCuptiSource, CapabilityStatus::kPartial, reason);
  if (missing.empty()) recording->SourceOn(trace_keys::kCuptiSource);
}

}  // namespace shardscope::inject
