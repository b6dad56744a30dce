// What a file is that somebody took for a trace, told by its content and never by its name.
#pragma once

#include <string>
#include <string_view>

#include "trace/base/status.h"

namespace shardscope::store {

// What `head`, the first bytes of a file, begins: "a PyTorch profiler trace (Chrome JSON)", "a PNG
// image". Empty: nothing known, or a SQLite file.
std::string KindOfHead(std::string_view head);

// An error that says what the regular file at `path` is, if that can be told and it is no trace of
// Shardscope; else ok: whether it is whole and readable is the reader's question. Reads at most 64
// KiB, and of another program's SQLite file the names of its tables.
Status CheckFileKind(const std::string& path);

}  // namespace shardscope::store
