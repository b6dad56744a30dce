// `shardscope-train sample`: text that the model of a checkpoint writes.
#pragma once

namespace shardscope::app {

// `argv[0]` is "sample". Returns the exit code; errors are said.
int CommandSample(int argc, const char* const* argv);

}  // namespace shardscope::app
