// `shardscope-train export`: a checkpoint's weights as a folder in Hugging Face's layout.
#pragma once

namespace shardscope::app {

// `argv[0]` is "export". Returns the exit code; errors are said.
int CommandExport(int argc, const char* const* argv);

}  // namespace shardscope::app
