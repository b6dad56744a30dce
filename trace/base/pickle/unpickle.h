// Reads pickles (Python's pickle, protocols 2 to 5) that hold data, and nothing else.
//
// A pickle is a program for a small stack machine, which may name any function of Python and call
// it. This one has those opcodes that make data, and of functions only the ones that Python's and
// LibTorch's own picklers need for plain data: bytes, bytearray, set, frozenset, OrderedDict and
// typed lists, which it makes itself. A pickle that names any other function, class or object is
// refused by that name, unless its reader names it (PickledName); nothing is ever run, imported or
// looked up. Opcodes: Lib/pickletools.py of Python.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "trace/base/pickle/value.h"
#include "trace/base/status.h"

namespace shardscope::pickle {

// Whether these are the first bytes of a pickle of protocol 2 to 5.
bool IsPickle(std::string_view head);

// A name that a pickle may use besides, and what it then is. None is looked up or run.
struct PickledName {
  enum class Kind : uint8_t {
    kRecord,    // a class: its objects are dictionaries of what they are made with, see below
    kArgument,  // called with one argument, that
    kConstant,  // the text "module.name"
  };
  std::string_view module;
  std::string_view name;
  Kind kind = Kind::kRecord;
};

// An object of a class is a dictionary with the text "class" ("module.name"), the tuple
// "arguments", and the fields of its state, if that is a dictionary; else "state".
struct UnpickleOptions {
  std::span<const PickledName> names;  // outlive the call
  bool keeps_persistent_ids = false;   // in place of the objects that they stand for
};

// Memory: at most some tens of bytes for each byte of the pickle. Time grows with its length.
// Errors say what is wrong and at which byte: it ends in the middle, is damaged, or asks for more
// than data. What comes behind its end is passed over.
Result<Document> Unpickle(std::string bytes, const UnpickleOptions& options = {});

}  // namespace shardscope::pickle
