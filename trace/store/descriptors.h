// Descriptors of a trace that is written inside a program which nobody wrote for it.
//
// Such a program may close every descriptor it does not know, or put its own on a number that it
// names, as a daemon does. If its next file then got the number of a trace, SQLite would write into
// that file. Numbers far above those that a kernel gives, the lowest free ones, are never given
// again: what the recorder writes fails then, the program's files are its own, and the writer opens
// the trace again (TraceWriter::Begin).
#pragma once

namespace shardscope::store {

// From now on all files of SQLite in this process, and what KeptDescriptor() is asked for, have
// numbers as high as the process may have, up to 4096. Before the first of them is opened.
void KeepDescriptorsHigh();

// The same file at such a number, `descriptor` closed; itself if that was not asked for or cannot
// be. A negative one stays as it is.
int KeptDescriptor(int descriptor);

}  // namespace shardscope::store
