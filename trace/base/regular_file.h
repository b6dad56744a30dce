// What is said of a path that cannot be read as a file.
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

}  // namespace shardscope
