#include "app/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "app/say.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "ui/shell/window_app.h"

namespace shardscope::app {

namespace {

std::string FrameTimeError(const std::string& text) {
  return ParseDuration(text) ? "" : "give a time with its unit, such as 150ms";
}

std::string MemoryError(const std::string& text) {
  const std::optional<int64_t> bytes = ParseBytes(text);
  return bytes && *bytes > 0 ? "" : "give a size with its unit, such as 4GB";
}

// Not for people: what measurements and tests of the window need.
void AddHiddenOptions(CLI::App* command, shell::WindowOptions* options) {
  command
      ->add_flag_callback(
          "--one-frame",
          [options] {
            options->first_frame_only = [] { Print(fmt::format("{}\n", MonotonicNs())); };
          },
          "Quit once the first frame with rows of the run is on screen, and print when that "
          "was (CLOCK_MONOTONIC, ns): for measurements")
      ->group("");
  command
      ->add_option_function<std::string>(
          "--frame-time",
          [options](const std::string& text) {
            options->frame_seconds = static_cast<double>(*ParseDuration(text)) * 1e-9;
          },
          "A frame takes at least so long, as with a slow renderer: for tests")
      ->check(CLI::Validator(FrameTimeError, ""))
      ->group("");
  command
      ->add_option("--draw-log", options->draw_log,
                   "Write what each frame drew to this file, as `shot --json` does: for tests")
      ->group("");
}

int RunWindow(const shell::WindowOptions& options) {
  return EndCommand("open", shell::RunWindowApp(options));
}

}  // namespace

int OpenWindow() { return RunWindow({}); }

void AddOpenCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<shell::WindowOptions>();
  CLI::App* command = app.add_subcommand("open", "The app in a window; a live run is followed");
  command
      ->add_option("run", options->run,
                   "Run folder or trace file, what `import` takes, or a link, RUN#step=30&rank=1; "
                   "without it, "
                   "choose one in the app")
      ->type_name("RUN");
  command
      ->add_option("--with", options->with,
                   "Another run, or what `import` takes, to compare RUN with in the panel Compare")
      ->needs("run")
      ->type_name("B");
  command
      ->add_option_function<std::string>(
          "--memory",
          [options](const std::string& text) { options->memory_bytes = *ParseBytes(text); },
          "Memory for the run, such as 4GB: of one that needs more, so many steps are loaded as "
          "fit; without it 3 GB (1.7 of a larger run), or most of what is free")
      ->check(CLI::Validator(MemoryError, ""))
      ->type_name("BYTES");
  AddHiddenOptions(command, options.get());
  // Started from an icon what is printed is not read; a script has a terminal somewhere, or asks
  // for no window.
  const bool has_terminal =
      isatty(STDIN_FILENO) == 1 || isatty(STDOUT_FILENO) == 1 || isatty(STDERR_FILENO) == 1;
  options->stays_without_run = !has_terminal;
  command->callback([options, exit_code] { *exit_code = RunWindow(*options); });
}

}  // namespace shardscope::app
