#include "engine/runtime/reference_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

record::RecorderOptions ReferenceRecorderOptions(const ReferenceOptions& options,
                                                 const RunFolder& folder) {
  record::RecorderOptions record;
  record.run_folder = folder.path();
  record.config = options.config.Values();
  record.meta = {
      {"name", folder.name()},
      {"model", "unsharded reference"},
      {std::string(trace_keys::kNumRanks), "1"},
      {std::string(trace_keys::kNumCores), std::to_string(std::thread::hardware_concurrency())},
      {std::string(trace_keys::kContended), "false"},
      {"device", std::string(Name(config::DeviceKind::kCpu))},
      {"truth", std::string(words::Name(words::Truth::kMeasured))}};
  return record;
}

// What a run with a folder leaves in it.
struct KeptRun {
  RunFolder folder;  // held as long as the run lasts
  std::unique_ptr<record::Recorder> recorder;
};

// After an error the folder is free again.
Result<KeptRun> OpenKeptRun(const ReferenceOptions& options) {
  SHARDSCOPE_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Create(options.folder));
  std::unique_ptr<record::Recorder> recorder;
  const auto open = [&]() -> Status {
    SHARDSCOPE_RETURN_IF_ERROR(folder.WriteConfig(config::PrintToml(options.config)));
    SHARDSCOPE_ASSIGN_OR_RETURN(recorder,
                                record::Recorder::Open(ReferenceRecorderOptions(options, folder)));
    return Status::Ok();
  };
  const Status opened = open();
  if (!opened.ok()) {
    folder.Discard();
    return opened;
  }
  recorder->Add(schema::RankRow{
      .rank = 0, .pid = getpid(), .device = std::string(Name(config::DeviceKind::kCpu))});
  return KeptRun{std::move(folder), std::move(recorder)};
}

// Its global batch is that of the ranks that have samples of their own.
model::TrainingSettings TrainingOfReference(const Job& job) {
  model::TrainingSettings training = job.training;
  training.num_ranks = job.initial_layout.mesh.SizeOf(plan::kDataDimensions);
  return training;
}

class ReferenceRun {
 public:
  // `options` and `job` are borrowed.
  ReferenceRun(const ReferenceOptions& options, const Job& job, const model::Sampler& sampler)
      : options_(options),
        job_(job),
        training_(TrainingOfReference(job)),
        sampler_(sampler),
        trainer_(job.model, training_, job.master, job.corpus.get(), sampler,
                 job.SourceWith(training_.seed).get()) {}

  Status Open() {
    if (!options_.folder.empty()) {
      SHARDSCOPE_ASSIGN_OR_RETURN(KeptRun kept, OpenKeptRun(options_));
      kept_.emplace(std::move(kept));
    }
    if (options_.dump_path.empty()) return Status::Ok();
    dump_.emplace(options_.dump_path, job_.model);
    DumpParameters("init.");
    return Status::Ok();
  }

  RunSummary Train() {
    RunSummary summary;
    int64_t start_ns = MonotonicNs();
    for (int64_t step = 0; step < training_.steps; ++step) {
      if (options_.stop_signal != nullptr) summary.stop_signal = options_.stop_signal->load();
      if (summary.stop_signal != 0) break;
      const model::StepResult result = trainer_.Step(step);
      const int64_t end_ns = MonotonicNs();
      summary.last = ReportOf(step, result, end_ns - start_ns);
      if (kept_) RecordStep(*summary.last, start_ns);
      if (dump_) DumpBatches(step);
      if (options_.on_step) options_.on_step(*summary.last);
      start_ns = end_ns;
      summary.steps = step + 1;
    }
    summary.stopped_early = summary.steps < training_.steps;
    return summary;
  }

  Status Close(RunSummary* summary) {
    if (kept_) {
      SHARDSCOPE_RETURN_IF_ERROR(kept_->recorder->Finish());
      summary->folder = options_.folder;
      summary->trace_path = kept_->recorder->path();
    }
    if (!dump_) return Status::Ok();
    DumpParameters("final.");
    return dump_->Write();
  }

 private:
  StepReport ReportOf(int64_t step, const model::StepResult& result, int64_t step_ns) {
    return {
        .step = step,
        .steps = training_.steps,
        .loss = result.loss,
        .counts = model::CountedTargets(*job_.corpus, &sampler_, step, job_.model.seq) > 0,
        .grad_norm = result.grad_norm,
        .tokens = training_.batch * training_.micro_batches * job_.model.seq * training_.num_ranks,
        .step_ns = step_ns};
  }

  void RecordStep(const StepReport& report, int64_t start_ns) {
    schema::StepRow row;
    row.step = report.step;
    row.schedule = schema::ScheduleId::None();
    row.start_ns = start_ns;
    row.end_ns = start_ns + report.step_ns;
    row.tokens = report.tokens;
    row.loss = report.loss;
    row.grad_norm = report.grad_norm;
    kept_->recorder->Record(row);
  }

  void DumpParameters(const std::string& prefix) {
    dump_->AddParameters(
        prefix, [this](const std::string& name) { return trainer_.parameters().at(name); });
  }

  void DumpBatches(int64_t step) {
    for (int rank = 0; rank < training_.num_ranks; ++rank) {
      std::vector<int64_t> tokens;
      for (const int64_t sample : sampler_.Samples(step, rank)) {
        model::AppendSample(*job_.corpus, sample, job_.model.seq, &tokens);
      }
      dump_->AddBatch(rank, step, tokens);
    }
  }

  const ReferenceOptions& options_;
  const Job& job_;
  const model::TrainingSettings training_;
  model::Sampler sampler_;  // beside the trainer's own, for what is reported and dumped
  model::ReferenceTrainer trainer_;
  std::optional<KeptRun> kept_;  // if a folder is given
  std::optional<Dump> dump_;     // if one is asked for
};

}  // namespace

Result<RunSummary> RunReference(const ReferenceOptions& options, const Job& job) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::Sampler sampler, SamplerOf(options.config, *job.corpus));
  SHARDSCOPE_RETURN_IF_ERROR(CheckDumpPath(options.dump_path));
  ReferenceRun run(options, job, sampler);
  SHARDSCOPE_RETURN_IF_ERROR(run.Open());
  RunSummary summary = run.Train();
  SHARDSCOPE_RETURN_IF_ERROR(run.Close(&summary));
  return summary;
}

}  // namespace shardscope::runtime
