// OutputFile: how every file is written that the user asked for or that a later run may need.
//
// Note: Output files. A regular file, or one that is not there yet, is written beside its place
// and takes that place when it is whole: a full disk or a killed program leaves the old one as it
// was. A link stays, and the file that it leads to is replaced. What is no regular file (device,
// pipe, terminal, /dev/stdout) is written through: replaced, it would be gone for everybody.
#pragma once

#include <string>
#include <string_view>

#include "trace/base/status.h"

namespace shardscope {

// One thread at a time. Errors name the path, the reason and the remedy; after the first one
// nothing more is written, and every call returns it again.
class OutputFile {
 public:
  // Whether `path` can be written, as far as that can be said without writing: for files that are
  // written when hours have passed.
  static Status Check(const std::string& path);

  // Removes what processes that are gone were writing in `folder` when they were killed.
  static void RemoveLeft(const std::string& folder);

  // Waits a few seconds for the reader of a pipe.
  static Result<OutputFile> Create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  // Without Publish() or Close() it was never there.
  ~OutputFile();

  Status Write(std::string_view bytes);

  // Where it is until it takes its place, for programs that write files by name. Empty: it is
  // written through, or in its place.
  const std::string& temporary() const { return temporary_; }

  // Puts what is written so far into its place; what follows is added there. For files that are
  // read while they grow.
  Status Publish();

  // Makes it outlast a crash of the machine. Before Close().
  Status Sync();

  // Ends the file and puts it into its place.
  Status Close();

 private:
  struct Target;

  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  Status OpenTemporary(const Target& target);
  Status OpenThrough(const Target& target);
  Status Fail();

  std::string path_;         // as it was given
  std::string destination_;  // behind all links
  std::string temporary_;    // empty: published, or written through
  int descriptor_ = -1;
  Status status_;
};

// Writes a whole file.
Status WriteFile(const std::string& path, std::string_view bytes);

}  // namespace shardscope
