// OutputFolder: folders that are made beside their place and take it when they are whole.
#pragma once

#include <string>
#include <string_view>

#include "trace/base/status.h"

namespace shardscope {

// Makes `folder` and those above it, where they are not there yet. The error names it and the
// reason; the remedy is the caller's.
Status MakeFolder(const std::string& folder);

// One thread at a time.
class OutputFolder {
 public:
  // Makes the empty folder PLACE SUFFIX PID, beside `place`, so that two processes that make the
  // same do not meet. Folders that processes which are gone have left of this place are removed.
  static Result<OutputFolder> Make(const std::string& place, std::string_view suffix);

  // Takes over a folder that its caller has made.
  OutputFolder(std::string path, std::string place);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  // Without Commit() or Replace() nothing is left of it, unless another has renamed it.
  ~OutputFolder();

  const std::string& path() const { return path_; }  // empty once it is in its place

  // Puts it into its place, where nothing else may be but an empty folder. Errors name both.
  Status Commit();

  // As Commit(), but what is there, a file or a folder with all that is in it, is removed: after an
  // error it is still there, unless its disk's file system cannot exchange two names.
  Status Replace();

 private:
  std::string path_;
  std::string place_;
};

}  // namespace shardscope
