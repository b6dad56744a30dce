// shardscope: the app, and the same facts headless. One file a subcommand.
#include <exception>
#include <string>
#include <string_view>

#include "app/commands.h"
#include "app/say.h"
#include "trace/analysis/derived.h"
#include "trace/base/process.h"

int main(int argc, char** argv) {
  shardscope::app::HoldStandardDescriptors();
  shardscope::ReturnLargeBlocks();
  shardscope::EndOnShortage();
  // A program that `record` starts would not get the signal either; that command holds it off
  // itself.
  const bool records = argc > 1 && std::string_view(argv[1]) == "record";
  if (!records) shardscope::app::TakeFullFilesAsErrors();
  shardscope::query::DeriveWhileFinishing(shardscope::analysis::MakeDeriver());
  try {
    return shardscope::app::ExitCode(shardscope::app::RunCommandLine(argc, argv), "shardscope");
  } catch (const std::exception& error) {
    shardscope::app::Say("shardscope: " + shardscope::ErrorText(error));
    return 1;
  }
}
