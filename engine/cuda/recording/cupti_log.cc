#include "engine/cuda/recording/cupti_log.h"

#include <dlfcn.h>

#include <string>
#include <utility>

#include "trace/base/reasons.h"
#include "trace/base/trace_keys.h"
#include "trace/base/words.h"
#include "trace/record/cupti/functions.h"

namespace shardscope::cuda {
namespace {

// The context of the calling thread, from the driver that the process has loaded; null: none.
CUcontext CurrentContext() {
  using GetCurrent = int (*)(CUcontext*);
  static const auto get_current = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver == nullptr ? nullptr
                             : reinterpret_cast<GetCurrent>(dlsym(driver, "cuCtxGetCurrent"));
  }();
  CUcontext context = nullptr;
  if (get_current != nullptr) get_current(&context);
  return context;
}

}  // namespace

Result<std::unique_ptr<CuptiLog>> CuptiLog::Start(std::function<int32_t(uint32_t)> rank_of_device) {
  const Result<cupti::CuptiFunctions> functions = cupti::LoadCupti();
  if (!functions.ok()) return functions.status();
  std::unique_ptr<CuptiLog> log(new CuptiLog(*functions, std::move(rank_of_device)));
  CuptiLog* const self = log.get();
  // At a step's end the ranks wait for its records: most have been taken in by then.
  const cupti::SessionOptions options{
      .buffer_bytes = 512UL << 10, .max_buffers = 256, .flush_period_ns = 2'000'000};
  Result<std::unique_ptr<cupti::Session>> session = cupti::Session::Start(
      *functions, options, [self](const cupti::Batch& batch, const cupti::Names& names) {
        self->log_.Add(batch, names);
      });
  if (!session.ok()) return session.status();
  log->session_ = std::move(session).value();
  return log;
}

CuptiLog::CuptiLog(const cupti::CuptiFunctions& functions,
                   std::function<int32_t(uint32_t)> rank_of_device)
    : functions_(functions),
      log_({.id_of_stream = [this](Stream stream) { return IdOf(stream); },
            .flush = [this] { session_->FlushSoon(); },
            .rank_of_device = std::move(rank_of_device)}) {}

CuptiLog::~CuptiLog() { Close(); }

cupti::StreamId CuptiLog::IdOf(Stream stream) const {
  cupti::StreamId id;
  const CUcontext context = CurrentContext();
  functions_.GetContextId(context, &id.context);
  // 0: the code is not built for a default stream of each thread.
  functions_.GetStreamIdEx(context, static_cast<CUstream>(stream), 0, &id.stream);
  return id;
}

void CuptiLog::Open(record::Recorder* recorder, executor::OpIds ids) {
  recorder_ = recorder;
  log_.Open(recorder, std::move(ids));
  if (session_ != nullptr) {
    recorder->Add(schema::MetaRow{std::string(trace_keys::kCuptiDeviceBytes),
                                  std::to_string(session_->device_bytes())});
  }
  if (session_ != nullptr && !session_->missing().empty()) {
    for (const std::string& reason : session_->missing()) {
      recorder->Add(schema::CapabilityRowOf(trace_keys::kCuptiSource,
                                            words::CapabilityStatus::kPartial, reason));
    }
    return;
  }
  recorder->Add(schema::CapabilityRowOf(trace_keys::kCuptiSource, words::CapabilityStatus::kOn));
}

void CuptiLog::SetRecording(bool is_recording) {
  log_.SetRecording(is_recording);
  if (session_ != nullptr) session_->SetRecording(is_recording);
}

void CuptiLog::Close() {
  if (session_ == nullptr) return;
  session_->Stop();
  const cupti::SessionCounts counts = session_->counts();
  log_.Close();
  const auto lost = [this](int64_t number, const std::string& reason) {
    if (number <= 0) return;
    recorder_->Add(schema::CapabilityRowOf(trace_keys::kCuptiSource,
                                           words::CapabilityStatus::kPartial, reason, number));
  };
  if (recorder_ != nullptr) {
    lost(counts.dropped, reasons::kCuptiNoBuffer);
    lost(counts.damaged_buffers, reasons::kCuptiDamaged);
    lost(counts.failed ? 1 : 0, reasons::kRecorderError);
    lost(counts.fatal ? 1 : 0, reasons::kCuptiError);
  }
  recorder_ = nullptr;
  session_.reset();
}

}  // namespace shardscope::cuda
