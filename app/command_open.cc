#include "app/command_open.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/say.h"
#include "trace/base/time.h"
#include "ui/shell/window_app.h"

namespace shardscope::app {

int OpenWindow(const std::string& run, bool one_frame) {
  shell::WindowOptions options{run, {}};
  if (one_frame) options.first_frame_only = [] { fmt::print("{}\n", MonotonicNs()); };
  const Status status = shell::RunWindowApp(options);
  if (status.ok()) return 0;
  Say("shardscope open: " + status.message());
  return 1;
}

void AddOpenCommand(CLI::App& app, int* exit_code) {
  auto run = std::make_shared<std::string>();
  auto one_frame = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("open", "The app in a window; a live run is followed");
  command->add_option("run", *run, "Run folder or trace file; without it, choose one in the app")
      ->type_name("RUN");
  command
      ->add_flag("--one-frame", *one_frame,
                 "Quit once the first frame with rows of the run is on screen, and print when that "
                 "was (CLOCK_MONOTONIC, ns): for measurements")
      ->group("");
  command->callback([run, one_frame, exit_code] { *exit_code = OpenWindow(*run, *one_frame); });
}

}  // namespace shardscope::app
