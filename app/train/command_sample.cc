#include "app/train/command_sample.h"

#include <CLI/CLI.hpp>
#include <string>

#include "app/say.h"
#include "engine/runtime/sample.h"

namespace shardscope::app {

int CommandSample(int argc, const char* const* argv) {
  CLI::App app("Writes what the model of a checkpoint puts behind a prompt.",
               "shardscope-train sample");
  std::string checkpoint;
  std::string prompt;
  runtime::SampleOptions options;
  app.add_option("--checkpoint", checkpoint,
                 "A run, or one of its checkpoints; of a run the newest one")
      ->required();
  app.add_option("--prompt", prompt, "What the text begins with")->required();
  app.add_option("--tokens", options.tokens, "How many to write at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--temperature", options.temperature,
                 "0: the likeliest token each time; 1: each as often as the model thinks")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of what is drawn")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    Say("error: " + std::string(error.what()) + " (see sample --help)");
    return 1;
  }
  const Result<runtime::TextSampler> sampler = runtime::TextSampler::Open(checkpoint);
  const Result<std::string> text =
      sampler.ok() ? sampler->Continue(prompt, options) : sampler.status();
  if (!text.ok()) {
    Say("error: " + text.message());
    return 1;
  }
  PrintExact(prompt + *text + "\n");
  FlushOutput();
  return 0;
}

}  // namespace shardscope::app
