#include "app/train/command_export.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "app/say.h"
#include "engine/runtime/checkpoint/export_folder.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::app {

int CommandExport(int argc, const char* const* argv) {
  CLI::App app("Writes the weights of a checkpoint as a folder in Hugging Face's layout.",
               "shardscope-train export");
  const CLI::Validator given([](std::string& text) { return text.empty() ? "is empty" : ""; }, "");
  runtime::ExportOptions options;
  std::string dtype = "fp32";
  app.add_option("--checkpoint", options.checkpoint,
                 "A run, or one of its checkpoints; of a run the newest one")
      ->required()
      ->check(given);
  app.add_option("--model", options.model_folder,
                 "Where the folder of model.path is now, if it is no longer where it was")
      ->check(given);
  app.add_option("--out", options.out, "The folder to write, which is not there yet, or is empty")
      ->required()
      ->check(given);
  app.add_flag("--adapter", options.adapters_alone,
               "The adapters alone, as peft has them: adapter_config.json and "
               "adapter_model.safetensors");
  app.add_option("--dtype", dtype, "Of the weights: fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--file-bytes",
         [&options](const std::string& text) {
           const bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
           options.most_bytes = ParseBytes(is_number ? text + "B" : text).value_or(0);
           if (options.most_bytes > 0) return;
           throw CLI::ValidationError("--file-bytes " + text, "give bytes, such as 5GB");
         },
         "Of weights in one file at most; more become several files with an index")
      ->default_str("5GB");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    Say("error: " + std::string(error.what()) + " (see export --help)");
    return 1;
  }
  options.is_bf16 = dtype == "bf16";
  const Result<runtime::Exported> exported = runtime::ExportFolder(options);
  if (!exported.ok()) {
    Say("error: " + exported.message());
    return 1;
  }
  Print(fmt::format("checkpoint: {}, before step {}\nfolder: {}, {} of {} in {}\n",
                    exported->checkpoint, exported->step, options.out, FormatBytes(exported->bytes),
                    dtype, Counted(exported->num_files, "file")));
  return 0;
}

}  // namespace shardscope::app
