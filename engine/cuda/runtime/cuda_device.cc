// The GPUs of this machine as a runtime::Device, and what libshardscope_cuda.so exports.

#include <ATen/Context.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <utility>

#include "engine/cuda/device/cuda_runner.h"
#include "engine/cuda/plugin/plugin.h"
#include "engine/cuda/recording/cupti_log.h"
#include "engine/cuda/recording/event_clock_log.h"
#include "engine/cuda/runtime/cuda_work.h"
#include "engine/cuda/runtime/device_model.h"
#include "engine/cuda/runtime/torch_cuda.h"
#include "engine/cuda/runtime/torch_memory.h"
#include "engine/cuda/transport/local_transport.h"
#include "engine/cuda/transport/nccl/nccl_transport.h"
#include "engine/footprint/device_limits.h"
#include "engine/runtime/setup.h"
#include "trace/base/mutex.h"
#include "trace/base/reasons.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::cuda {
namespace {

using transport::TransportError;

std::string NameOfGpu(int device) {
  cudaDeviceProp properties = {};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return "an unknown GPU";
  return std::string(properties.name) + ", " +
         FormatBytes(static_cast<int64_t>(properties.totalGlobalMem));
}

class CudaDevice final : public runtime::Device {
 public:
  // `log` is on since before the first CUDA context.
  CudaDevice(const DeviceOptions& options, RuntimeApi api, int num_gpus,
             Result<std::unique_ptr<CuptiLog>> log)
      : options_(options), api_(std::move(api)), num_gpus_(num_gpus), log_(std::move(log)) {
    at::globalContext().setAllowTF32CuBLAS(false);
    // The backward of both fused attentions adds in the order in which blocks happen to end, unless
    // it is told not to; nothing else here has such a form. Memory is not filled for that.
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    Check(api_, "cudaSetDevice", api_.SetDevice(GpuOf(first_rank())));
    clock_step_ns_ = kernels_->MeasureClockStepNs();
  }

  config::DeviceKind kind() const override { return config::DeviceKind::kCuda; }
  std::string name() const override {
    const int device = GpuOf(first_rank());
    return "cuda:" + std::to_string(device) + ", " + NameOfGpu(device);
  }
  bool copies_take_memory() const override { return false; }

  std::unique_ptr<transport::Transport> MakeTransport(
      const config::Config& config, const std::optional<config::Launch>& launch) override;
  std::unique_ptr<runtime::RankWork> MakeWork(int rank, const runtime::RankContext& rank_context,
                                              model::Sampler sampler) override {
    const int gpu = GpuOf(rank);
    const DevicePlace place{.model = &ModelOn(gpu, rank, rank_context.job->model),
                            .device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu)),
                            .uses_pool = UsesPool(),
                            .memory = &memory_,
                            .is_first_of_device = rank == FirstOn(gpu)};
    return std::make_unique<CudaWork>(rank, place, rank_context, std::move(sampler));
  }
  std::unique_ptr<executor::StepRunner> MakeRunner(int rank, executor::OpBodies* bodies,
                                                   executor::ExecutionSink* sink) override {
    const int gpu = GpuOf(rank);
    return std::make_unique<CudaRunner>(
        CudaRunnerOptions{.rank = rank,
                          .device = gpu,
                          .api = api_,
                          .bodies = bodies,
                          .sink = sink,
                          .log = log(),
                          .is_recording = &is_recording_,
                          .on_clock =
                              [this, rank, gpu](int64_t time_ns, int64_t uncertainty_ns) {
                                event_clocks_.Add(rank, gpu, time_ns, uncertainty_ns);
                              },
                          .free_late = !UsesPool()});
  }
  void EnterThread(int rank) override {
    Check(api_, "cudaSetDevice", api_.SetDevice(GpuOf(rank)));
    TorchMemory::EnterThread(rank);
  }

  bool is_contended() const override {
    return !has_gpu_each() && options_.config.GetInt("run.ranks") > 1;
  }
  void SetRecording(bool is_recording) override {
    is_recording_ = is_recording;
    if (log_.ok()) (*log_)->SetRecording(is_recording);
  }
  void SetOpIds(executor::OpIds ids) override { ids_ = std::move(ids); }
  void SetRecorder(record::Recorder* recorder) override {
    event_clocks_.SetRecorder(recorder);
    if (!log_.ok()) return;
    if (recorder != nullptr) {
      (*log_)->Open(recorder, ids_);
    } else {
      (*log_)->Close();
    }
  }
  std::vector<runtime::DeviceCapability> Capabilities() const override;

 private:
  bool UsesPool() const { return options_.config.Get("cuda.memory") == "pool"; }
  bool has_gpu_each() const {
    return options_.launch.has_value() || options_.config.Get("transport") == "nccl";
  }
  int first_rank() const { return options_.launch ? options_.launch->rank : 0; }
  DeviceLog* log() const { return log_.ok() ? (*log_)->log() : nullptr; }
  // A launcher such as srun --gpus-per-task shows each process its own GPU, under number 0. If it
  // is one GPU for all NCCL says so.
  bool has_bound_gpu() const {
    return options_.launch && num_gpus_ == 1 && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  }
  int GpuOf(int rank) const {
    if (!has_gpu_each() || has_bound_gpu()) return 0;
    return rank % (options_.launch ? options_.launch->num_local_ranks : num_gpus_);
  }
  // Of the ranks of this process that are on `gpu`.
  int FirstOn(int gpu) const {
    if (options_.launch) return options_.launch->rank;
    return has_gpu_each() ? gpu : 0;
  }
  // On the thread of `rank`. Its tables count for the first rank of the GPU, whichever asks first.
  const DeviceModel& ModelOn(int gpu, int rank, const model::ModelConfig& config) {
    const MutexLock lock(mutex_);
    const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(gpu));
    TorchMemory::EnterThread(FirstOn(gpu));
    const DeviceModel& model =
        models_.try_emplace(gpu, config, device, &LaunchTurnKernel).first->second;
    TorchMemory::EnterThread(rank);
    return model;
  }

  const DeviceOptions options_;
  const RuntimeApi api_;
  const int num_gpus_;
  const Result<std::unique_ptr<CuptiLog>> log_;
  const TorchMemory memory_{api_};
  EventClockLog event_clocks_;
  executor::OpIds ids_;
  std::atomic<bool> is_recording_ = true;
  const std::shared_ptr<Kernels> kernels_ = MakeKernels();
  int64_t clock_step_ns_ = 0;

  Mutex mutex_;
  std::map<int, DeviceModel> models_ GUARDED_BY(mutex_);  // by GPU; addresses are stable
};

std::unique_ptr<transport::Transport> CudaDevice::MakeTransport(
    const config::Config& config, const std::optional<config::Launch>& launch) {
  const auto num_ranks = static_cast<int>(config.GetInt("run.ranks"));
  const int64_t timeout_ns = config.GetInt("comm.timeout");
  const std::string& wanted = config.Get("transport");
  if (wanted != "nccl") {
    if (launch) {
      throw TransportError("transport=" + wanted +
                           " is for ranks that are threads on one GPU; processes need nccl");
    }
    // The last rank enqueues for all: without the log that work would all be its own.
    const LocalTransportOptions options{.num_ranks = num_ranks,
                                        .timeout_ns = timeout_ns,
                                        .api = api_,
                                        .kernels = kernels_,
                                        .log = log()};
    if (wanted == "local") return MakeLocalTransport(options);
    return MakeEmulatedDeviceTransport(options, runtime::StartBandwidth(config),
                                       config.GetInt("link.latency"));
  }
  const int num_here = launch ? launch->num_local_ranks : num_ranks;
  if (num_here > num_gpus_ && !has_bound_gpu()) {
    throw TransportError("transport=nccl wants a GPU for each rank: " + std::to_string(num_here) +
                         " ranks, " + std::to_string(num_gpus_) +
                         (num_gpus_ == 1 ? " GPU" : " GPUs") +
                         " on this machine; lower run.ranks, or use transport=local");
  }
  Result<NcclApi> nccl = LoadNcclApi();
  if (!nccl.ok()) throw TransportError(nccl.message());
  NcclTransportOptions options{.num_ranks = num_ranks,
                               .timeout_ns = timeout_ns,
                               .api = api_,
                               .nccl = *nccl,
                               .kernels = kernels_,
                               .device_of_rank = [this](int rank) { return GpuOf(rank); },
                               .log = log()};
  if (!launch) {
    return MakeNcclTransport(options, transport::MakeSharedMemoryTransport(num_ranks, timeout_ns));
  }
  options.only_rank = launch->rank;
  return MakeNcclTransport(
      options, transport::MakeGlooTransport(runtime::GlooProcessOf(*launch), timeout_ns));
}

std::vector<runtime::DeviceCapability> CudaDevice::Capabilities() const {
  std::vector<runtime::DeviceCapability> capabilities = {
      {"tf32", words::CapabilityStatus::kOff, reasons::kNoTf32},
      {"gpu_clock", words::CapabilityStatus::kOn,
       "the GPU's clock advances in steps of " + FormatDuration(clock_step_ns_) +
           ": how finely an emulated link is paced"}};
  if (memory_.why_not().empty()) {
    capabilities.push_back({"allocator", words::CapabilityStatus::kOn, ""});
  } else {
    capabilities.push_back({"allocator", words::CapabilityStatus::kOff,
                            memory_.why_not() + ": memory is what ops account for, not compared "
                                                "with what was handed out"});
  }
  if (!log_.ok()) {
    capabilities.push_back({std::string(trace_keys::kCuptiSource), words::CapabilityStatus::kOff,
                            log_.message() + "; times of ops come from CUDA events, the GPU's "
                                             "single kernels are not recorded"});
  }
  return capabilities;
}

// Loads LibTorch's CUDA libraries, starts the driver, takes the GPUs. Where ranks are processes,
// each takes the GPU of its number on this machine; where they are threads, transport=nccl gives
// each one of its own, and other transports put all on the first. Error: what is missing, in one
// message.
Result<std::unique_ptr<runtime::Device>> OpenCudaDevice(const DeviceOptions& options) {
  try {
    Result<RuntimeApi> api = LoadRuntimeApi();
    if (!api.ok()) return api.status();
    int num_gpus = 0;
    const Code code = api->GetDeviceCount(&num_gpus);
    if (code != kSuccess || num_gpus == 0) {
      return Status::Error("no GPU can be used: " +
                           (code == kSuccess ? std::string("there is none")
                                             : Describe(*api, "cudaGetDeviceCount", code)));
    }
    SHARDSCOPE_RETURN_IF_ERROR(footprint::CheckDeviceLimits(options.config));
    const bool is_one_rank = options.launch.has_value();
    const bool has_gpu_each = options.config.Get("transport") == "nccl";
    // Before LibTorch makes a context: joining later is slow, and misses its first records.
    auto log = CuptiLog::Start([=, rank = is_one_rank ? options.launch->rank : 0](uint32_t device) {
      return is_one_rank ? rank : (has_gpu_each ? static_cast<int32_t>(device) : 0);
    });
    SHARDSCOPE_RETURN_IF_ERROR(LoadTorchCuda());
    at::globalContext().lazyInitDevice(at::kCUDA);
    return std::unique_ptr<runtime::Device>(
        std::make_unique<CudaDevice>(options, *std::move(api), num_gpus, std::move(log)));
  } catch (const std::exception& error) {
    return Status::Error(error.what());
  }
}

}  // namespace

}  // namespace shardscope::cuda

extern "C" __attribute__((visibility("default"))) const shardscope::cuda::PluginApi*
ShardscopeCudaPlugin() {
  static const shardscope::cuda::PluginApi api = {.version = shardscope::cuda::kPluginVersion,
                                                  .build = shardscope::cuda::BuildName(),
                                                  .open_device = &shardscope::cuda::OpenCudaDevice};
  return &api;
}
