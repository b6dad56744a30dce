#include "engine/runtime/reference_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "engine/config/device.h"
#include "engine/model/reference_trainer.h"
#include "engine/runtime/dump.h"
#include "engine/runtime/run_folder.h"
#include "trace/base/time.h"
#include "trace/base/trace_keys.h"
#include "trace/base/words.h"
#include "trace/record/recorder.h"

namespace shardscope::runtime {
namespace {

Result<std::unique_ptr<record::Recorder>> OpenTrace(const ReferenceOptions& options) {
  const Result<RunFolder> folder = RunFolder::Create(options.folder);
  if (!folder.ok()) return folder.status();
  SHARDSCOPE_RETURN_IF_ERROR(folder->WriteConfig(config::PrintToml(options.config)));
  record::RecorderOptions record;
  record.run_folder = options.folder;
  record.config = options.config.Values();
  record.meta = {
      {"name", folder->name()},
      {"model", "unsharded reference"},
      {std::string(trace_keys::kNumRanks), "1"},
      {std::string(trace_keys::kNumCores), std::to_string(std::thread::hardware_concurrency())},
      {std::string(trace_keys::kContended), "false"},
      {"device", std::string(Name(config::DeviceKind::kCpu))},
      {"truth", std::string(words::Name(words::Truth::kMeasured))}};
  Result<std::unique_ptr<record::Recorder>> recorder = record::Recorder::Open(record);
  if (recorder.ok()) {
    (*recorder)->Add(schema::RankRow{
        .rank = 0, .pid = getpid(), .device = std::string(Name(config::DeviceKind::kCpu))});
  }
  return recorder;
}

}  // namespace

Result<RunSummary> RunReference(const ReferenceOptions& options, const Job& job) {
  const Result<model::Sampler> sampler = SamplerOf(options.config, *job.corpus);
  if (!sampler.ok()) return sampler.status();
  SHARDSCOPE_RETURN_IF_ERROR(CheckDumpPath(options.dump_path));
  std::unique_ptr<record::Recorder> recorder;
  if (!options.folder.empty()) {
    Result<std::unique_ptr<record::Recorder>> opened = OpenTrace(options);
    if (!opened.ok()) return opened.status();
    recorder = std::move(opened).value();
  }
  // Its global batch is that of the ranks that have samples of their own.
  model::TrainingSettings training = job.training;
  training.num_ranks = job.initial_layout.mesh.SizeOf(plan::kDataDimensions);
  model::ReferenceTrainer trainer(job.model, training, job.master, job.corpus.get(), *sampler,
                                  job.SourceWith(training.seed).get());
  std::optional<Dump> dump;
  const auto parameter = [&](const std::string& name) { return trainer.parameters().at(name); };
  if (!options.dump_path.empty()) {
    dump.emplace(options.dump_path, job.model);
    dump->AddParameters("init.", parameter);
  }
  model::Sampler looked_at = *sampler;
  RunSummary summary;
  int64_t start_ns = MonotonicNs();
  for (int64_t step = 0; step < job.training.steps; ++step) {
    if (options.stop_signal != nullptr) summary.stop_signal = options.stop_signal->load();
    if (summary.stop_signal != 0) break;
    const model::StepResult result = trainer.Step(step);
    const int64_t end_ns = MonotonicNs();
    const int64_t tokens =
        training.batch * training.micro_batches * job.model.seq * training.num_ranks;
    if (recorder) {
      schema::StepRow row;
      row.step = step;
      row.schedule = schema::ScheduleId::None();
      row.start_ns = start_ns;
      row.end_ns = end_ns;
      row.tokens = tokens;
      row.loss = result.loss;
      row.grad_norm = result.grad_norm;
      recorder->Record(row);
    }
    for (int rank = 0; dump && rank < training.num_ranks; ++rank) {
      std::vector<int64_t> samples;
      for (const int64_t sample : looked_at.Samples(step, {rank, training.num_ranks})) {
        model::AppendSample(*job.corpus, sample, job.model.seq, &samples);
      }
      dump->AddBatch(step, rank, samples);
    }
    summary.last = {.step = step,
                    .steps = job.training.steps,
                    .loss = result.loss,
                    .counts = model::CountedTargets(*job.corpus, &looked_at, step,
                                                    training.num_ranks, job.model.seq) > 0,
                    .grad_norm = result.grad_norm,
                    .tokens = tokens,
                    .step_ns = end_ns - start_ns};
    if (options.on_step) options.on_step(*summary.last);
    start_ns = end_ns;
    summary.steps = step + 1;
  }
  summary.stopped_early = summary.steps < job.training.steps;
  if (recorder) {
    SHARDSCOPE_RETURN_IF_ERROR(recorder->Finish());
    summary.folder = options.folder;
    summary.trace_path = recorder->path();
  }
  if (dump) {
    dump->AddParameters("final.", parameter);
    SHARDSCOPE_RETURN_IF_ERROR(dump->Write());
  }
  return summary;
}

}  // namespace shardscope::runtime
