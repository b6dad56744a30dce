// Reads pickles (Python's pickle, protocols 2 to 5) that hold data, and nothing else.
//
// A pickle is a program for a small stack machine, which may name any function of Python and call
// it. This one knows those opcodes that make data, and of functions only the ones that Python's and
// LibTorch's own picklers need for plain data: bytes, bytearray, set, frozenset, OrderedDict and
// typed lists, which it makes itself. A pickle that names any other function, class or object is
// refused by that name; nothing is ever run, imported or looked up. Opcodes: Lib/pickletools.py of
// Python.
#pragma once

#include <string>
#include <string_view>

#include "trace/base/status.h"
#include "trace/import/pickle/value.h"

namespace shardscope::imports {

// Whether these are the first bytes of a pickle of protocol 2 to 5.
bool IsPickle(std::string_view head);

// Memory: at most some tens of bytes for each byte of the pickle. Time grows with its length.
// Errors say what is wrong and at which byte: it ends in the middle, is damaged, or asks for more
// than data. What comes behind its end is passed over.
Result<Document> Unpickle(std::string bytes);

}  // namespace shardscope::imports
