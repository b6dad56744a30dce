// Inputs: what a path that is to be imported holds, and its bytes.
//
// A file is read as it is, decompressed (gzip, bzip2, xz, zstd, lz4), or member by member where it
// is a zip or tar archive. What it is called does not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/base/status.h"

struct archive;
struct gzFile_s;

namespace shardscope::imports {

struct Input {
  std::string path;        // of the file
  std::string member;      // of an archive; else empty
  int position = 0;        // of the member among the archive's entries, from 0
  int64_t most_bytes = 0;  // of it, decompressed, that are read; 0: all

  // For people: the path, and the member.
  std::string Title() const { return member.empty() ? path : path + ", " + member; }
};

// Bytes of one input from front to back. One thread at a time.
class ByteSource {
 public:
  static Result<std::unique_ptr<ByteSource>> Open(const Input& input);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Puts up to `size` bytes to `to`; 0: the end. An error is that of a damaged or cut file: what
  // came before it is good.
  Result<size_t> Read(char* to, size_t size);

  // Bytes of the file that were taken so far, compressed if it is.
  int64_t Position() const;

 private:
  struct Free {
    void operator()(archive* reader) const;
  };
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  using Archive = std::unique_ptr<archive, Free>;
  // Of a single gzip file: libarchive gives nothing of a block in which the file ends.
  using Gzip = std::unique_ptr<gzFile_s, Close>;

  ByteSource(const Input& input, Archive reader, Gzip gzip)
      : title_(input.Title()),
        left_bytes_(input.most_bytes > 0 ? input.most_bytes : INT64_MAX),
        reader_(std::move(reader)),
        gzip_(std::move(gzip)) {}
  static Result<Archive> OpenArchive(const std::string& path);
  Result<size_t> ReadGzip(char* to, size_t size);
  friend Result<std::vector<Input>> ListInputs(const std::string& path);

  Result<size_t> ReadArchive(char* to, size_t size);

  const std::string title_;
  int64_t left_bytes_;    // that may still be read
  const Archive reader_;  // either this
  const Gzip gzip_;       // or this
};

// The files of a folder by name, of one that holds only folders those of these; the members of an
// archive; or the file itself. Errors: nothing is there, or it cannot be read.
Result<std::vector<Input>> ListInputs(const std::string& path);

// Up to `size` first bytes of an input.
Result<std::string> ReadHead(const Input& input, size_t size);

}  // namespace shardscope::imports
