// The heap of a program that holds large traces.
#pragma once

#include <malloc.h>

namespace shardscope {

// Gives every block of a megabyte or more a mapping of its own, which the system gets back when the
// block is freed. The C library would take such blocks from its heap once a few were freed, and
// what growing vectors leave behind there stays resident: 150 MB for a trace of 10 M op runs. For
// main() before other threads start. false: this allocator knows no such thing.
inline bool ReturnLargeBlocks() { return mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1; }

}  // namespace shardscope
