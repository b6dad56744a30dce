// Exports of Nsight Systems: `nsys export --type sqlite REPORT.nsys-rep`. A file may tell of
// several processes and GPUs: a rank each.
#pragma once

#include <string>
#include <string_view>

#include "trace/base/status.h"
#include "trace/import/format.h"

namespace shardscope::imports {

bool IsNsys(std::string_view head);
// Of a database: whether Nsight Systems wrote it.
bool IsNsysFile(const Input& input);
Status ReadNsys(const Input& input, const ReadProgress& progress, const TakeRecording& take);

// What to do with a report in Nsight Systems' own form, which only that can read; empty: it is
// none. What its head does not tell, its name does.
std::string RemedyForNsysReport(const Input& input, std::string_view head);

}  // namespace shardscope::imports
