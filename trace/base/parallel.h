// Work that several threads share.
#pragma once

#include <cstddef>
#include <functional>

#include "trace/base/status.h"

namespace shardscope {

// Calls `work` once for each index below `count`, on up to `num_threads` threads, of which this is
// one, and returns when all is done. After an error none is begun; returns the first one. What
// `work` throws is an error, too, and thrown on. Where the system gives fewer threads, those do it.
Status ForEachIndex(size_t count, size_t num_threads, const std::function<Status(size_t)>& work);

// The same on every core, of what cannot fail.
void ForEachIndex(size_t count, const std::function<void(size_t)>& work);

// At least 1.
size_t NumCores();

}  // namespace shardscope
