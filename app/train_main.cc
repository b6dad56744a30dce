// shardscope-train: the engine as a program. Trains a byte-level decoder on ranks that are threads,
// records the run, and listens to its control socket.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "app/train_progress.h"
#include "engine/config/config.h"
#include "engine/runtime/reference_run.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/trainer.h"
#include "trace/base/units.h"

namespace shardscope::app {
namespace {

struct Arguments {
  std::string ranks;
  std::string out;
  std::string config;
  std::vector<std::string> settings;
  std::string dump;
  std::string losses;
  bool reference = false;
};

std::atomic<bool> g_interrupted{false};
std::atomic<runtime::Steering*> g_steering{nullptr};

// The first signal finishes the step; the handler is then gone, so the second one kills.
extern "C" void OnSignal(int) {
  g_interrupted.store(true);
  if (runtime::Steering* steering = g_steering.load()) steering->Interrupt();
}

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// Activations are allocated and freed in every step: without this, malloc would give their pages
// back and fault them in again each time.
void KeepFreedPages() {
  constexpr int kKept = 512 << 20;
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
}

// The default data are Shardscope's own sources; where the program runs without them, the current
// folder.
std::string DefaultData() {
  std::error_code error;
  return std::filesystem::is_directory(SHARDSCOPE_SOURCE_DIR, error) ? SHARDSCOPE_SOURCE_DIR : ".";
}

Result<config::Config> ReadConfig(const Arguments& arguments) {
  config::Config config;
  if (!arguments.config.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplyToml(arguments.config, &config));
  }
  for (const std::string& setting : arguments.settings) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplySetting(setting, &config));
  }
  if (!arguments.ranks.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(config.Set("run.ranks", arguments.ranks));
  }
  SHARDSCOPE_RETURN_IF_ERROR(config.Check());
  return config;
}

std::string RunFolderOf(const Arguments& arguments, const config::Config& config) {
  if (!arguments.out.empty()) return arguments.out;
  if (!config.Get("run.name").empty()) return "runs/" + config.Get("run.name");
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", std::localtime(&now));
  return std::string("runs/") + text;
}

// "step loss grad_norm", in full precision.
std::string LossLine(const runtime::StepReport& report) {
  return fmt::format("{} {:.17g} {:.17g}\n", report.step, report.loss, report.grad_norm);
}

Status OpenLosses(const std::string& path, std::ofstream* losses) {
  if (path.empty()) return Status::Ok();
  losses->open(path, std::ios::trunc);
  if (*losses) return Status::Ok();
  return Status::Error("--losses " + path + ": cannot write there");
}

void PrintData(const runtime::Job& job) {
  const model::Corpus& corpus = *job.corpus;
  fmt::print("data: {} files, {}, {} samples of {} bytes; unigram entropy {:.4f} nats/byte\n",
             corpus.num_files, FormatBytes(static_cast<int64_t>(corpus.bytes.size())),
             model::NumSamples(static_cast<int64_t>(corpus.bytes.size()), job.model.seq),
             job.model.seq + 1, model::UnigramEntropy(corpus.bytes));
  std::fflush(stdout);
}

void PrintEnd(const runtime::RunSummary& summary, int64_t steps, const std::string& folder) {
  fmt::print("{} after {} of {} steps, loss {:.4f}\n",
             summary.stopped_early ? "stopped" : "finished", summary.steps, steps,
             summary.last_loss);
  if (!summary.trace_path.empty()) fmt::print("trace: {}\n", summary.trace_path);
  if (!folder.empty()) fmt::print("run: {}\n", folder);
}

Status TrainReference(const Arguments& arguments, const config::Config& config,
                      const runtime::Job& job) {
  std::ofstream losses;
  if (!arguments.out.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(runtime::RunFolder::CheckFree(arguments.out));
  }
  SHARDSCOPE_RETURN_IF_ERROR(OpenLosses(arguments.losses, &losses));
  PrintData(job);
  CatchSignals();
  runtime::ReferenceOptions options;
  options.config = config;
  options.folder = arguments.out;
  options.dump_path = arguments.dump;
  options.interrupted = &g_interrupted;
  options.on_step = [&](const runtime::StepReport& report) {
    if (losses.is_open()) {
      losses << LossLine(report) << std::flush;
    } else {
      std::cout << LossLine(report) << std::flush;
    }
  };
  const Result<runtime::RunSummary> summary = runtime::RunReference(options, job);
  if (!summary.ok()) return summary.status();
  PrintEnd(*summary, job.training.steps, arguments.out);
  return Status::Ok();
}

Status TrainSharded(const Arguments& arguments, const config::Config& config, runtime::Job job) {
  const std::string folder = RunFolderOf(arguments, config);
  const int64_t steps = job.training.steps;
  SHARDSCOPE_RETURN_IF_ERROR(runtime::RunFolder::CheckFree(folder));
  std::ofstream losses;
  SHARDSCOPE_RETURN_IF_ERROR(OpenLosses(arguments.losses, &losses));
  PrintData(job);
  TrainProgress progress(stdout);
  runtime::TrainerOptions options;
  options.config = config;
  options.folder = folder;
  options.dump_path = arguments.dump;
  options.on_step = [&](const runtime::StepReport& report) {
    progress.OnStep(report);
    if (losses.is_open()) losses << LossLine(report) << std::flush;
  };
  options.on_message = [&](const std::string& text) { progress.OnMessage(text); };
  Result<std::unique_ptr<runtime::Trainer>> trainer =
      runtime::Trainer::Start(std::move(options), std::move(job));
  if (!trainer.ok()) return trainer.status();
  g_steering.store(&(*trainer)->steering());
  CatchSignals();
  const Result<runtime::RunSummary> summary = (*trainer)->Run();
  g_steering.store(nullptr);
  progress.Close();
  if (!summary.ok()) return summary.status();
  PrintEnd(*summary, steps, folder);
  return Status::Ok();
}

Status Train(const Arguments& arguments) {
  const Result<config::Config> config = ReadConfig(arguments);
  if (!config.ok()) return config.status();
  Result<runtime::Job> job = runtime::JobOf(*config, DefaultData());
  if (!job.ok()) return job.status();
  if (arguments.reference) return TrainReference(arguments, *config, *job);
  return TrainSharded(arguments, *config, *std::move(job));
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Trains a byte-level decoder with FSDP on this machine and records every op.",
               "shardscope-train");
  // Empty ones come from unset shell variables: an error, not the default.
  const CLI::Validator given([](std::string& text) { return text.empty() ? "is empty" : ""; }, "");
  app.add_option("--ranks", arguments.ranks, "Number of ranks (key run.ranks)")->check(given);
  app.add_option("--out", arguments.out, "Folder of the run; default runs/<name or time>")
      ->check(given);
  app.add_option("--config", arguments.config, "A run.toml to start from")->check(given);
  app.add_option("--set", arguments.settings, "key=value ...; later ones win; over --config");
  app.add_option("--dump", arguments.dump,
                 "At the end write initial and final weights and all batches (safetensors)")
      ->check(given);
  app.add_option("--losses", arguments.losses, "Write 'step loss grad_norm' lines to this file")
      ->check(given);
  app.add_flag("--reference", arguments.reference,
               "Train the unsharded reference on the global batch instead; prints its losses, and "
               "leaves a run only with --out");
  app.footer("\n" + config::KeyHelp());
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "error: {} (see --help)\n", error.what());
    return 1;
  }
  KeepFreedPages();
  const Status status = Train(arguments);
  if (status.ok()) return 0;
  fmt::print(stderr, "error: {}\n", status.message());
  return 1;
}

}  // namespace
}  // namespace shardscope::app

int main(int argc, char** argv) {
  try {
    return shardscope::app::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
