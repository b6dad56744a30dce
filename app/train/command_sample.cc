#include "app/train/command_sample.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

#include "app/say.h"
#include "engine/runtime/sample.h"

namespace shardscope::app {
namespace {

// CLI::Range lets nan through.
std::string TemperatureError(const std::string& text) {
  constexpr double kHottest = 100;
  double temperature = -1;
  const bool is_number = CLI::detail::lexical_cast(text, temperature);
  if (is_number && temperature >= 0 && temperature <= kHottest) return "";
  return fmt::format("{} is no number from 0 to {}", text, kHottest);
}

}  // namespace

int CommandSample(int argc, const char* const* argv) {
  CLI::App app("Writes what the model of a checkpoint puts behind a prompt.",
               "shardscope-train sample");
  std::string checkpoint;
  std::string prompt;
  runtime::SampleOptions options;
  int64_t seed = 0;
  app.add_option("--checkpoint", checkpoint,
                 "A run, or one of its checkpoints; of a run the newest one")
      ->required();
  std::string model_folder;
  app.add_option("--model", model_folder,
                 "Where the folder of model.path is now, if it is no longer where it was");
  app.add_option("--prompt", prompt, "What the text begins with")->required();
  app.add_flag("--chat", options.is_chat,
               "The prompt is what a user says: the answer of a model that has learned from "
               "messages, by the tokenizer's chat template");
  app.add_option("--tokens", options.tokens, "How many to write at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--temperature", options.temperature,
                 "0: the likeliest token each time; 1: each as often as the model predicts")
      ->check(TemperatureError)
      ->capture_default_str();
  app.add_option("--seed", seed, "Of what is drawn")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    Say("error: " + std::string(error.what()) + " (see sample --help)");
    return 1;
  }
  options.seed = static_cast<uint64_t>(seed);
  const Result<runtime::TextSampler> sampler = runtime::TextSampler::Open(checkpoint, model_folder);
  const Result<std::string> text =
      sampler.ok() ? sampler->Continue(prompt, options) : sampler.status();
  if (!text.ok()) {
    Say("error: " + text.message());
    return 1;
  }
  PrintExact((options.is_chat ? "" : prompt) + *text + "\n");
  FlushOutput();
  return 0;
}

}  // namespace shardscope::app
