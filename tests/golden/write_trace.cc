#include <algorithm>
#include <map>
#include <set>

#include "engine/executor/trace_sink.h"
#include "engine/plan/memory.h"
#include "engine/simulate/report_step_test_util.h"
#include "engine/simulate/simulate.h"
#include "tests/golden/gpu_scenario.h"
#include "trace/base/trace_keys.h"
#include "trace/base/words.h"
#include "trace/record/cupti/decode.h"
#include "trace/record/cupti/session.h"
#include "trace/record/gpu/gpu_recorder.h"

namespace shardscope::golden {
namespace {

// Records go from the scenario to the recorder as CUPTI would deliver them: in buffers of several
// threads, in any order.
void Deliver(std::vector<std::vector<uint64_t>> records, const cupti::CuptiFunctions& functions,
             std::mt19937_64* shuffle, cupti::Names* names, gpu::GpuRecorder* gpu) {
  if (shuffle != nullptr) std::shuffle(records.begin(), records.end(), *shuffle);
  for (size_t next = 0; next < records.size();) {
    const size_t left = records.size() - next;
    const size_t count = shuffle == nullptr ? left : std::min(left, 1 + (*shuffle)() % 400);
    std::vector<uint64_t> buffer;
    for (size_t i = 0; i < count; ++i, ++next) {
      buffer.insert(buffer.end(), records[next].begin(), records[next].end());
    }
    cupti::Batch batch;
    cupti::Decode(functions, reinterpret_cast<uint8_t*>(buffer.data()),
                  buffer.size() * sizeof(uint64_t), *names, batch);
    gpu->Add(batch, *names);
  }
}

// The rows of the plan by the scenario's keys.
class Identities {
 public:
  Identities(const plan::Schedule& schedule, schema::PlanOpId first_plan_op)
      : schedule_(schedule), first_plan_op_(first_plan_op) {}

  gpu::OpIdentity Of(int64_t key) const {
    const auto op = static_cast<plan::OpIndex>(key % 1'000'000);
    return {
        schema::PlanOpId(first_plan_op_.value() + op), key / 100'000'000,
        plan::Name(plan::CategoryOf(schedule_.programs.front().ops[static_cast<size_t>(op)].kind))};
  }

 private:
  const plan::Schedule& schedule_;
  const schema::PlanOpId first_plan_op_;
};

void OwnAll(const Scenario& scenario, gpu::GpuRecorder* gpu) {
  const plan::Schedule& schedule = *scenario.schedule;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    gpu->OwnThread(ThreadOf(rank), {rank, "host", 0});
    for (size_t stream = 1; stream < schedule.streams.size(); ++stream) {
      const plan::Stream& described = schedule.streams[stream];
      gpu::StreamOwner owner;
      owner.rank = rank;
      owner.name = described.name;
      owner.role = plan::Name(described.role);
      owner.position = static_cast<int64_t>(described.role);
      // The sink adds the tracks of a rank in the order of its streams, from 1.
      owner.op_track = schema::TrackId(1 + rank * static_cast<int64_t>(schedule.streams.size()) +
                                       static_cast<int64_t>(stream));
      gpu->OwnStream(StreamOf(rank, static_cast<plan::StreamIndex>(stream)), owner);
    }
  }
}

int64_t PersistentBytes(const plan::Schedule& schedule, plan::MemoryCategory category) {
  int64_t bytes = 0;
  for (const plan::Buffer& buffer : schedule.programs.front().buffers) {
    const bool counts = buffer.persistent && plan::MemoryCategoryOf(buffer.kind) == category;
    bytes += counts ? buffer.bytes : 0;
  }
  return bytes;
}

void RecordPersistent(const Scenario& scenario, executor::TraceSink* sink) {
  for (const StepRun& run : scenario.steps) {
    if (run.step > 0) continue;
    for (int i = 0; i < plan::kNumMemoryCategories; ++i) {
      const auto category = static_cast<plan::MemoryCategory>(i);
      const int64_t bytes = PersistentBytes(*scenario.schedule, category);
      if (bytes > 0) sink->OnMemoryOutsideOps(run.rank, category, "", bytes, run.start_ns);
    }
  }
}

// What the allocator and the driver say at the end of each step.
void RecordCounters(const Scenario& scenario, executor::TraceSink* sink) {
  const DeviceBytes device = DeviceBytesOf(*scenario.schedule);
  int64_t persistent = 0;
  for (int i = 0; i < plan::kNumMemoryCategories; ++i) {
    persistent += PersistentBytes(*scenario.schedule, static_cast<plan::MemoryCategory>(i));
  }
  for (const StepRun& run : scenario.steps) {
    executor::StepMemory memory;
    memory.time_ns = run.end_ns;
    memory.allocated_bytes = persistent;  // a step gives back all else
    memory.reserved_bytes = device.allocator;
    memory.device_used_bytes = device.allocator + device.others + device.context;
    sink->OnStepMemory(run.rank, memory);
  }
}

// Op runs with the times that CUPTI's records give, as the engine writes them.
void RecordOps(const Scenario& scenario, gpu::GpuRecorder* gpu, executor::TraceSink* sink) {
  std::vector<int64_t> keys;
  for (const OpRun& run : scenario.runs) keys.push_back(KeyOf(run.rank, run.step, run.op));
  std::ranges::sort(keys);
  std::map<int64_t, cupti::OpWork> works;  // by key
  for (const cupti::OpWork& work : gpu->TakeOps(ThreadOf(0), 0, keys, 0)) works[work.op] = work;
  for (const OpRun& run : scenario.runs) {
    executor::OpContext context;
    context.schedule = scenario.schedule.get();
    context.program = &scenario.schedule->programs.front();
    context.index = run.op;
    context.rank = run.rank;
    context.step = run.step;
    context.issued_ns = run.times.issued_ns;
    executor::OpTimes times = run.times;
    const cupti::OpWork& work = works.at(KeyOf(run.rank, run.step, run.op));
    if (run.on_gpu && work.start_ns > 0) {
      times.started_ns = work.start_ns;
      times.ended_ns = work.end_ns;
    }
    simulate::ReportOp(context, times, sink);
  }
}

void RecordSteps(const Scenario& scenario, schema::ScheduleId schedule,
                 record::Recorder* recorder) {
  for (const StepRun& run : scenario.steps) {
    schema::StepRow row;
    row.rank = run.rank;
    row.step = run.step;
    row.schedule = schedule;
    row.start_ns = run.start_ns;
    row.end_ns = run.end_ns;
    row.tokens = 4096;
    row.loss = 5.5 - 0.01 * static_cast<double>(run.step);
    row.grad_norm = 1;
    recorder->Record(row);
  }
}

}  // namespace

Status WriteTrace(const Scenario& scenario, const cupti::CuptiFunctions& functions,
                  const std::string& folder, const Delivery& delivery) {
  const plan::Schedule& schedule = *scenario.schedule;
  record::RecorderOptions options;
  options.run_folder = folder;
  options.ring_records = 1 << 16;
  options.meta = {
      {"name", "golden GPU scenario"},
      {"model", "toy"},
      {"device", "cuda"},
      {"truth", "projected"},
      {"host", "virtual"},
      {"num_ranks", std::to_string(schedule.num_ranks())},
      {std::string(trace_keys::kCuptiDeviceBytes), std::to_string(DeviceBytesOf(schedule).tracer)}};
  Result<std::unique_ptr<record::Recorder>> opened = record::Recorder::Open(options);
  if (!opened.ok()) return opened.status();
  record::Recorder& recorder = *opened.value();
  recorder.Add(schema::CapabilityRow{{}, "cupti", "on", "", 0});
  std::vector<int> ranks;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    ranks.push_back(rank);
    recorder.Add(schema::RankRow{rank, "virtual", 1, "virtual GPU"});
  }
  executor::TraceSink sink(&recorder, {"nccl", words::Truth::kProjected, "GPU"});
  const schema::ScheduleId schedule_id = sink.RegisterSchedule(
      schedule, ranks, {.largest = {.issued = plan::PredictLargestPeak(schedule)}, .by_rank = {}});
  const Identities identities(schedule, schema::PlanOpId(1));  // the first rows of the plan
  gpu::GpuRecorderOptions gpu_options;
  gpu_options.identity_of = [&](int64_t key) { return identities.Of(key); };
  gpu_options.rank_of_device = [](uint32_t device) { return static_cast<int32_t>(device); };
  gpu::GpuRecorder gpu(&recorder, gpu_options);
  OwnAll(scenario, &gpu);
  std::vector<IssuedOp> issued = scenario.issued;
  if (delivery.shuffle != nullptr) std::shuffle(issued.begin(), issued.end(), *delivery.shuffle);
  for (const IssuedOp& op : issued) gpu.OpIssued(op.op, op.rank);
  std::vector<std::vector<uint64_t>> records = scenario.records;
  if (delivery.damage) delivery.damage(records);
  cupti::Names names;
  Deliver(std::move(records), functions, delivery.shuffle, &names, &gpu);
  RecordPersistent(scenario, &sink);
  RecordOps(scenario, &gpu, &sink);
  RecordCounters(scenario, &sink);
  RecordSteps(scenario, schedule_id, &recorder);
  SHARDSCOPE_RETURN_IF_ERROR(recorder.Flush());
  gpu.Finish();
  return recorder.Finish();
}

}  // namespace shardscope::golden
