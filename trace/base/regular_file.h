// Whether a path is a file that can be read, and what is said where not.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "trace/base/status.h"

namespace shardscope {

// By errno.
inline Status CannotReadFile(const std::string& path) {
  return Status::Error("cannot read " + path + ": " + std::strerror(errno));
}

// An error for a folder, and for a pipe or a device: one may never say anything, the other never
// end.
inline Status CheckRegularFile(const std::string& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return Status::Error(path + " is a folder: name a file in it");
  if (!S_ISREG(status.st_mode)) {
    return Status::Error(path + " is a pipe or a device: copy what it gives into a file first");
  }
  return Status::Ok();
}

// Whether the open file is still the one with that path: not removed, and no other in its place.
inline bool IsFileAt(int descriptor, const std::string& path) {
  struct stat open_file = {};
  struct stat named_file = {};
  return fstat(descriptor, &open_file) == 0 && stat(path.c_str(), &named_file) == 0 &&
         open_file.st_ino == named_file.st_ino && open_file.st_dev == named_file.st_dev;
}

}  // namespace shardscope
