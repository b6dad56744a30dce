// shardscope-train: the engine as a program. Trains a decoder on ranks that are threads, or as
// one of several processes, records the run, and listens to its control socket.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "app/folder_of_now.h"
#include "app/say.h"
#include "app/train/arguments.h"
#include "app/train/command_export.h"
#include "app/train/command_sample.h"
#include "app/train/progress.h"
#include "app/train/signals.h"
#include "app/train/tokenizing_told.h"
#include "engine/config/config.h"
#include "engine/config/device.h"
#include "engine/config/launch.h"
#include "engine/cuda/plugin/loader.h"
#include "engine/cuda/plugin/probe.h"
#include "engine/footprint/footprint.h"
#include "engine/runtime/reference_run.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/trainer.h"
#include "trace/analysis/derived.h"
#include "trace/base/process.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::app {
namespace {

// Activations are allocated and freed in every step: without this, malloc would give their pages
// back and fault them in again each time.
void KeepFreedPages() {
  constexpr int kKept = 512 << 20;
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
}

// Whether a tool that watches this process may be in it. Some write what they have collected where
// their library ends, which is not among what is registered after main() has begun.
bool MayHaveTools() {
  constexpr std::array kVariables = {"LD_PRELOAD", "LD_AUDIT", "CUDA_INJECTION64_PATH",
                                     "NVTX_INJECTION64_PATH"};
  return std::ranges::any_of(kVariables,
                             [](const char* variable) { return std::getenv(variable) != nullptr; });
}

// LibTorch's static objects end by taking thousands of operators out of its tables, one by one: a
// third of the time of a short command. Called first in main(): what is to be done at exit and is
// registered later still is.
void SkipStaticDestructors() {
  if (MayHaveTools()) return;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they look for leaks there
  on_exit(
      [](int status, void* /*argument*/) {
        std::fflush(nullptr);
        _exit(status);
      },
      nullptr);
#endif
}

// The default data are Shardscope's own sources; where the program runs without them, the current
// folder.
std::string DefaultData() {
  std::error_code error;
  return std::filesystem::is_directory(SHARDSCOPE_SOURCE_DIR, error) ? SHARDSCOPE_SOURCE_DIR : ".";
}

// The device that run.device=auto comes to be, and the plugin with it.
Status ChooseDevice(const Arguments& arguments, const config::Config& config,
                    cuda::DeviceChoice* choice) {
  const config::DeviceKind wanted = config::GetDevice(config);
  if (arguments.reference) {
    if (wanted != config::DeviceKind::kCuda) return Status::Ok();
    return Status::Error("--reference computes on the CPU: leave run.device=cuda away");
  }
  const int64_t num_ranks =
      arguments.launch ? arguments.launch->num_ranks : config.GetInt("run.ranks");
  const bool waits_for_ranks =
      num_ranks > 1 && (arguments.launch || config.Get("transport") == "nccl");
  Result<cuda::DeviceChoice> chosen = cuda::ChooseDevice(wanted, waits_for_ranks);
  if (!chosen.ok()) return chosen.status();
  *choice = *std::move(chosen);
  return Status::Ok();
}

// `config`, for the device that was chosen, checked. `gave_way`: of a checkpoint, as
// config::SettleInherited() has it.
Result<config::Config> ConfigFor(const cuda::DeviceChoice& choice, const Arguments& arguments,
                                 config::Config config, std::string* gave_way) {
  Status status;
  if (choice.device != config::GetDevice(config))
    status = config.Set("run.device", config::Name(choice.device));
  if (status.ok() && arguments.launch) status = config::ApplyLaunch(*arguments.launch, &config);
  if (status.ok()) *gave_way = config::SettleInherited(&config);
  if (status.ok()) status = config.Check();
  if (status.ok()) status = config::CheckKeysOfStrategies(config);
  if (status.ok()) return config;
  if (choice.why_not_cuda.empty()) return status;
  return Status::Error("run.device=auto took cpu (" + choice.why_not_cuda +
                       "): " + status.message());
}

// What a run is made with.
struct Setting {
  config::Config config;
  cuda::DeviceChoice choice;
  std::unique_ptr<runtime::Device> device;
};

Result<Setting> ReadSetting(const Arguments& arguments) {
  Result<config::Config> given = ReadSettings(arguments);
  if (!given.ok()) return given.status();
  // What reads the run later may be started in another folder.
  config::MakePathsAbsolute(&*given);
  SHARDSCOPE_RETURN_IF_ERROR(footprint::ApplyFolders(&*given));
  Setting setting;
  SHARDSCOPE_RETURN_IF_ERROR(ChooseDevice(arguments, *given, &setting.choice));
  std::string gave_way;
  Result<config::Config> config = ConfigFor(setting.choice, arguments, *given, &gave_way);
  if (!config.ok()) return config.status();
  Result<std::unique_ptr<runtime::Device>> device =
      cuda::OpenDevice({.config = *config, .launch = arguments.launch}, &setting.choice);
  if (!device.ok()) return device.status();
  setting.device = std::move(device).value();
  // It may have become the CPU only now.
  if (setting.choice.device != config::GetDevice(*config)) {
    config = ConfigFor(setting.choice, arguments, *given, &gave_way);
    if (!config.ok()) return config.status();
  }
  if (arguments.is_leader() && !gave_way.empty()) {
    Say("settings of the checkpoint that do not go with the given ones give way: " + gave_way);
  }
  setting.config = std::move(config).value();
  return setting;
}

// Where the run is to be, unless it is named after the second in which it starts.
std::string NamedFolder(const Arguments& arguments, const config::Config& config) {
  if (!arguments.out.empty()) return arguments.out;
  const std::string& name = config.Get("run.name");
  return name.empty() ? "" : "runs/" + name;
}

std::string BrokenLinks(const model::Corpus& corpus) {
  if (corpus.num_broken_links == 0) return "";
  return fmt::format("; {} that lead nowhere or in a circle skipped",
                     Counted(corpus.num_broken_links, "link"));
}

void PrintData(const runtime::Job& job) {
  const model::Corpus& corpus = *job.corpus;
  if (!corpus.tokens.empty()) {
    Print(fmt::format(
        "data: {}, {}, {}, {} of {} tokens{}{}\n", Counted(corpus.num_files, "file"),
        Counted(corpus.num_documents, "document"), Counted(corpus.num_tokens(), "token"),
        Counted(model::NumSamples(corpus.num_tokens(), job.model.seq), "sample"), job.model.seq + 1,
        corpus.is_masked ? "; the loss counts the assistant's alone" : "", BrokenLinks(corpus)));
    FlushOutput();
    return;
  }
  const int64_t num_bytes = corpus.num_tokens();
  Print(fmt::format("data: {}, {}, {} of {} bytes; unigram entropy {:.4f} nats/byte{}\n",
                    Counted(corpus.num_files, "file"), FormatBytes(num_bytes),
                    Counted(model::NumSamples(num_bytes, job.model.seq), "sample"),
                    job.model.seq + 1, model::UnigramEntropy(corpus.bytes), BrokenLinks(corpus)));
  FlushOutput();
}

// What of the settings is taken as it is, and may not be what was meant.
void PrintDoubts(const config::Config& config, const model::ModelConfig& model) {
  if (model.most_positions > 0 && model.seq > model.most_positions) {
    Print(fmt::format(
        "model.seq={} is longer than max_position_embeddings={} of {}/config.json: the model has "
        "not learned the positions behind that\n",
        model.seq, model.most_positions, config.Get("model.path")));
  }
  const bool keeps = config.IsGiven("checkpoint.keep") && config.GetInt("checkpoint.keep") > 0;
  const bool comes_later = std::ranges::any_of(config.changes(), [](const config::Change& change) {
    return change.set.contains("checkpoint.every");
  });
  if (keeps && config.GetInt("checkpoint.every") == 0 && !comes_later) {
    Print(
        fmt::format("checkpoint.keep={} has no effect with checkpoint.every=0, but on checkpoints "
                    "that the control socket asks for: set checkpoint.every\n",
                    config.Get("checkpoint.keep")));
  }
}

// A file or folder that the run has written, while it is still at its place.
void PrintPath(std::string_view what, const std::string& path) {
  if (path.empty()) return;
  std::error_code unknown;
  const bool is_gone = !std::filesystem::exists(path, unknown) && !unknown;
  Print(fmt::format("{}: {}{}\n", what, path,
                    is_gone ? " is gone: it was removed or moved while the run wrote to it" : ""));
}

void PrintEnd(const runtime::RunSummary& summary, int64_t steps) {
  Print(fmt::format("{} after {} of {}{}\n", summary.stopped_early ? "stopped" : "finished",
                    summary.steps, Counted(steps, "step"),
                    summary.last ? ", " + LossText(*summary.last) : ""));
  PrintPath("trace", summary.trace_path);
  PrintPath("run", summary.folder);
}

// What the process ends with after a run that ended well, though perhaps before its last step.
int ExitCodeOf(const runtime::RunSummary& summary) {
  return summary.stop_signal == 0 ? 0 : kExitOfSignals + summary.stop_signal;
}

Result<int> TrainReference(const Arguments& arguments, const config::Config& config,
                           const runtime::Job& job) {
  LossFile losses;
  if (!arguments.out.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(runtime::RunFolder::CheckFree(arguments.out));
  }
  SHARDSCOPE_RETURN_IF_ERROR(losses.Open(arguments.losses));
  PrintData(job);
  CatchSignals();
  runtime::ReferenceOptions options;
  options.config = config;
  options.folder = arguments.out;
  options.dump_path = arguments.dump;
  options.stop_signal = &StopSignal();
  options.on_step = [&](const runtime::StepReport& report) {
    if (losses.is_open()) {
      losses.Add(report);
    } else {
      Print(LossLine(report));
      if (!FlushOutput() && HasNoReader()) StopBy(SIGPIPE);
    }
  };
  const Result<runtime::RunSummary> summary = runtime::RunReference(options, job);
  if (!summary.ok()) return summary.status();
  PrintEnd(*summary, job.training.steps);
  SHARDSCOPE_RETURN_IF_ERROR(losses.Close());
  return ExitCodeOf(*summary);
}

// A rank hangs: its threads cannot be joined, so nothing may be destroyed.
[[noreturn]] void LeaveAtOnce(const Status& status) {
  Say("error: " + status.message());
  std::fflush(nullptr);
  std::_Exit(1);
}

// What a process says of its GPU before the first step, for its trace: each is on a machine and in
// an environment of its own.
void DescribeDevice(const Setting& setting, runtime::TrainerOptions* options) {
  if (!setting.choice.why_not_cuda.empty()) {
    options->capabilities.push_back({"device", words::CapabilityStatus::kPartial,
                                     "run.device=auto took cpu: " + setting.choice.why_not_cuda});
  }
  if (setting.choice.device == config::DeviceKind::kCpu) return;
  options->capabilities.push_back({"device", words::CapabilityStatus::kOn, ""});
  for (const auto& [name, value] : cuda::CudaEnvironment()) {
    options->environment["env." + name] = value;
  }
  for (const std::string& warning : setting.choice.warnings) {
    options->capabilities.push_back({"environment", words::CapabilityStatus::kPartial, warning});
  }
}

// The same for the user, once a run.
void PrintDevice(const Setting& setting) {
  const std::string& why_not = setting.choice.why_not_cuda;
  if (!why_not.empty()) Print(fmt::format("device: cpu ({})\n", why_not));
  if (setting.choice.device != config::DeviceKind::kCpu)
    Print(fmt::format("device: {}\n", setting.device->name()));
  for (const std::string& warning : setting.choice.warnings) Print(warning + "\n");
}

// `setting` outlives the call. `is_awaited`: whether this process ends before the others, which
// wait for it to come, could be told why.
Result<int> TrainSharded(const Arguments& arguments, const Setting& setting, runtime::Job job,
                         bool* is_awaited) {
  const config::Config& config = setting.config;
  const std::string named = NamedFolder(arguments, config);
  const std::string folder = named.empty() ? FolderOfNow("") : named;
  const auto if_taken = named.empty() ? runtime::IfTaken::kNumber : runtime::IfTaken::kRefuse;
  const int64_t steps = job.training.steps;
  LossFile losses;
  TrainProgress progress([] { StopBy(SIGPIPE); });
  runtime::TrainerOptions options;
  options.device = setting.device.get();
  DescribeDevice(setting, &options);
  options.config = config;
  options.folder = arguments.launch ? std::filesystem::absolute(folder).string() : folder;
  options.if_taken = if_taken;
  options.launch = arguments.launch;
  options.dump_path = arguments.dump;
  // Not before: while processes wait for one another, nothing would hear a signal.
  options.before_folder = CatchSignals;
  options.on_step = [&](const runtime::StepReport& report) {
    if (!arguments.is_leader()) return;
    progress.OnStep(report);
    losses.Add(report);
  };
  options.on_message = [&](const std::string& text) { progress.OnMessage(text); };
  if (arguments.is_leader()) {
    *is_awaited = arguments.launch.has_value();
    SHARDSCOPE_RETURN_IF_ERROR(runtime::Trainer::CheckFiles(options));
    SHARDSCOPE_RETURN_IF_ERROR(losses.Open(arguments.losses));
    *is_awaited = false;
    PrintData(job);
    PrintDoubts(config, job.model);
    PrintDevice(setting);
  }
  const FinishingTold told(arguments.is_leader() ? &progress : nullptr);
  Result<std::unique_ptr<runtime::Trainer>> trainer =
      runtime::Trainer::Start(std::move(options), std::move(job));
  if (!trainer.ok()) return trainer.status();
  CatchSignals();
  TellSignalsTo(&(*trainer)->steering());
  const Result<runtime::RunSummary> summary = (*trainer)->Run();
  TellSignalsTo(nullptr);
  progress.Close();
  if ((*trainer)->is_stuck()) LeaveAtOnce(summary.status());
  if (!summary.ok()) return summary.status();
  if (arguments.is_leader()) PrintEnd(*summary, steps);
  SHARDSCOPE_RETURN_IF_ERROR(losses.Close());
  return ExitCodeOf(*summary);
}

// What one process can do only if it has all ranks.
Status CheckLaunch(const Arguments& arguments) {
  if (!arguments.launch || arguments.launch->num_ranks == 1) return Status::Ok();
  const char* alone = arguments.reference ? "--reference" : "--dump";
  if (!arguments.reference && arguments.dump.empty()) return Status::Ok();
  return Status::Error(std::string(alone) +
                       " needs all ranks in one process: start without the launcher");
}

Result<int> Train(const Arguments& arguments, bool* is_awaited) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckLaunch(arguments));
  const Result<Setting> setting = ReadSetting(arguments);
  if (!setting.ok()) return setting.status();
  if (arguments.reference && !setting->config.Get("checkpoint.resume").empty()) {
    return Status::Error(
        "--reference goes on from no checkpoint: leave --resume and checkpoint.resume away");
  }
  if (arguments.reference && setting->config.GetInt("eval.every") > 0) {
    return Status::Error("--reference evaluates nothing: leave eval.every away");
  }
  for (const auto& [key, value] :
       {std::pair{"precision.param", "fp16"}, {"optimizer.state", "8bit"}}) {
    if (!arguments.reference || setting->config.Get(key) != value) continue;
    return Status::Error(fmt::format("--reference has no {}={}: leave it away", key, value));
  }
  TokenizingTold told;
  Result<runtime::Job> job =
      runtime::JobOf(setting->config, DefaultData(), [&told](int64_t done, int64_t all) {
        const std::string line = told.LineAt(std::chrono::steady_clock::now(), done, all);
        if (!line.empty()) Say(line);
      });
  if (!job.ok()) return job.status();
  if (arguments.reference) return TrainReference(arguments, setting->config, *job);
  return TrainSharded(arguments, *setting, *std::move(job), is_awaited);
}

int Main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "export") return CommandExport(argc - 1, argv + 1);
  if (command == "sample") return CommandSample(argc - 1, argv + 1);
  Result<std::optional<Arguments>> parsed = ParseArguments(argc, argv);
  if (!parsed.ok()) {
    Say("error: " + parsed.message());
    return 1;
  }
  if (!*parsed) return 0;  // the help was asked for
  Arguments arguments = std::move(**parsed);
  if (arguments.import) {
    const Status imported = ImportCheckpoint(*arguments.import);
    if (!imported.ok()) Say("error: " + imported.message());
    return imported.ok() ? 0 : 1;
  }
  KeepFreedPages();
  auto launch = config::ReadLaunch([](const char* name) { return std::getenv(name); });
  if (launch.ok()) arguments.launch = *launch;
  if (arguments.launch) {
    arguments.launch->say = Say;
    IgnoreLostPeers();
  }
  bool is_awaited = false;
  const Result<int> exit_code = launch.ok() ? Train(arguments, &is_awaited) : launch.status();
  if (exit_code.ok()) return *exit_code;
  const Status& status = exit_code.status();
  // Processes of one run often share a terminal.
  const bool says_who = !arguments.launch || status.message().starts_with("rank ");
  const std::string who = says_who ? "" : fmt::format("rank {}: ", arguments.launch->rank);
  Say(fmt::format("error: {}{}", who, status.message()));
  // After it is said here: who comes late keeps this process for a moment.
  if (is_awaited) runtime::Trainer::TellOthers(*arguments.launch, status.message());
  return 1;
}

}  // namespace
}  // namespace shardscope::app

int main(int argc, char** argv) {
  shardscope::app::SkipStaticDestructors();
  shardscope::app::HoldStandardDescriptors();
  shardscope::app::TakeFullFilesAsErrors();
  shardscope::EndOnShortage();
  shardscope::query::DeriveWhileFinishing(shardscope::analysis::MakeDeriver());
  try {
    return shardscope::app::ExitCode(shardscope::app::Main(argc, argv), "error");
  } catch (const std::exception& error) {
    shardscope::app::Say("error: " + shardscope::ErrorText(error));
    return 1;
  }
}
