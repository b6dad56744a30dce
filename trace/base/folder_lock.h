// FolderLock: whether the process that made a folder still lives. The system lets go of it when
// the process ends in any way.
#pragma once

#include <string>

namespace shardscope {

class FolderLock {
 public:
  FolderLock() = default;
  // Of a folder that this process has made. Where the file system has no locks, nobody holds it.
  explicit FolderLock(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  // Whether a process on this machine holds it.
  static bool IsHeld(const std::string& folder);

 private:
  int descriptor_ = -1;
};

}  // namespace shardscope
