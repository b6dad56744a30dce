// Loads the profiler plugin that NCCL_PROFILER_PLUGIN names and calls it in the order in which NCCL
// 2.28 does.
#pragma once

// `version` 5 or 4. false: there is no such plugin.
bool DrivePlugin(int version);
