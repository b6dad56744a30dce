// shardscope: the app, and the same facts headless. One file a subcommand.
#include <exception>
#include <string>

#include "app/commands.h"
#include "app/say.h"
#include "trace/analysis/derived.h"
#include "trace/base/process.h"

int main(int argc, char** argv) {
  shardscope::app::HoldStandardDescriptors();
  shardscope::ReturnLargeBlocks();
  shardscope::EndOnShortage();
  shardscope::query::DeriveWhileFinishing(shardscope::analysis::MakeDeriver());
  try {
    return shardscope::app::ExitCode(shardscope::app::RunCommandLine(argc, argv), "shardscope");
  } catch (const std::exception& error) {
    shardscope::app::Say("shardscope: " + shardscope::ErrorText(error));
    return 1;
  }
}
