// Chakra execution traces (MLCommons), as simulators of training such as ASTRA-sim read them.
//
// A file a rank, trace.RANK.et: length and message, again and again, first a GlobalMetadata, then a
// Node for each op that ran (schema/protobuf/et_def.proto of mlcommons/chakra, version 0.0.4). What
// a node depends on: as data the ops of its step that its Schedule has before it; as control the op
// before it on its stream. Times are microseconds; exact ones are attributes in nanoseconds.
#pragma once

#include <string>

#include "trace/base/status.h"
#include "trace/export/format.h"
#include "trace/store/run_files.h"

namespace shardscope::exports {

Status WriteChakra(const store::RunFiles& run, const std::string& to, const ExportOptions& options);

}  // namespace shardscope::exports
