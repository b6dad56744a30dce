// Traces of torch.profiler (Kineto) and other Chrome JSON with its categories.
// Fields: pytorch/kineto libkineto/src/output_json.cpp and include/MetadataFieldCatalog.h.
#pragma once

#include "trace/base/status.h"
#include "trace/import/format.h"

namespace shardscope::imports {

// Which files these are says IsKineto() (trace/base/file_heads.h).
Status ReadKineto(const Input& input, const ReadProgress& progress, const TakeRecording& take);

}  // namespace shardscope::imports
