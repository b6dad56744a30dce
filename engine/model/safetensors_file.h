// Reader of one safetensors file (https://github.com/huggingface/safetensors, "Format"), of any
// writer: nothing in it is used before it is checked.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trace/base/mapped_file.h"
#include "trace/base/read_ahead.h"
#include "trace/base/status.h"

namespace shardscope::model {

class SafetensorsFile {
 public:
  struct Entry {
    std::string dtype;  // "F32", "BF16", ...
    std::vector<int64_t> shape;
    int64_t begin = 0;  // in bytes, from the start of the file
    int64_t bytes = 0;
    // Whether Read() takes it: F64, F32, F16 and BF16.
    bool is_float() const;
  };

  // Errors name the file and what is wrong:
  // it cannot be read, it is cut short, its header is too long or no JSON of the format, a name
  // comes twice, a dtype is unknown, offsets leave the file, leave gaps, overlap or contradict the
  // shape.
  static Result<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }

  // Elements [first, first + values.numel()) of a float tensor, into values as ParameterSource has
  // them. Returns whether all are finite. Their pages are not kept in the process. Threads: any
  // number at once.
  bool Read(const Entry& entry, int64_t first, const at::Tensor& values) const;
  // Elements [first, first + count) will be read soon: Read() waits for them then.
  void WillRead(const Entry& entry, int64_t first, int64_t count) const;
  // The pages of these elements leave the process again: where parts of them are read, the system
  // puts those around into it, too.
  void HasRead(const Entry& entry, int64_t first, int64_t count) const;

 private:
  SafetensorsFile(std::string path, MappedFile mapped)
      : path_(std::move(path)),
        mapped_(std::move(mapped)),
        ahead_(std::make_unique<ReadAhead>(path_)) {}
  Status ReadHeader();
  int64_t bytes() const { return std::ssize(mapped_.bytes()); }
  // Where elements of a tensor lie in the file, in bytes.
  struct Range {
    int64_t begin = 0;
    int64_t bytes = 0;
  };
  static Range RangeOf(const Entry& entry, int64_t first, int64_t count);
  Status CheckOffsets(int64_t data_begin) const;
  Status Wrong(const std::string& what) const;

  std::string path_;
  MappedFile mapped_;
  std::unique_ptr<ReadAhead> ahead_;
  std::map<std::string, Entry> entries_;
};

}  // namespace shardscope::model
