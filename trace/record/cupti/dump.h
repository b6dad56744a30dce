// BufferDump: CUPTI's buffers in a file, as they came: from a machine with a GPU to tests on one
// without. Recording goes on beside it.
//
// The file, little-endian: "SHSCUPTI", then u32 version of this format (1), u32 version of CUPTI;
// then entries of {u32 kind, u32 zero, u64 number, u64 size, `size` bytes, zeros up to a multiple
// of 8}. Kind 1 is a buffer in the order of decoding (number: its count). Kind 2 is a name: records
// hold pointers into a process that is gone, so `number` is such a pointer and the bytes its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/base/output_file.h"
#include "trace/base/status.h"
#include "trace/record/cupti/names.h"

namespace shardscope::cupti {

// When set, a folder: every session of the process writes cupti-<pid>.buffers there.
inline constexpr const char* kDumpVariable = "SHARDSCOPE_CUPTI_DUMP";
// The path that it asks for; empty: none.
std::string DumpPathFromEnvironment();

// One thread.
class BufferDump {
 public:
  // Of buffers there are at most `max_bytes`: the further ones are left out, and counted.
  static Result<std::unique_ptr<BufferDump>> Create(const std::string& path, uint32_t cupti_version,
                                                    int64_t max_bytes);

  // Before it is decoded, which may use it up.
  void AddBuffer(const uint8_t* data, size_t size);
  // The text behind a pointer of the last buffer. Once a pointer.
  void AddName(const char* pointer, std::string_view text);

  int64_t left_out() const { return left_out_; }

 private:
  BufferDump(OutputFile file, int64_t max_bytes) : file_(std::move(file)), max_bytes_(max_bytes) {}
  bool Append(uint32_t kind, uint64_t number, const char* data, size_t size);

  OutputFile file_;
  const int64_t max_bytes_;
  int64_t bytes_ = 0;        // of buffers
  bool has_buffer_ = false;  // the last one
  uint64_t num_buffers_ = 0;
  int64_t left_out_ = 0;
};

// A dump read back.
struct LoadedDump {
  struct Buffer {
    std::vector<uint64_t> words;  // 8-aligned, as CUPTI's walker needs it
    size_t size = 0;              // bytes
    uint8_t* data() { return reinterpret_cast<uint8_t*>(words.data()); }
  };
  uint32_t cupti_version = 0;
  std::vector<Buffer> buffers;
  std::unordered_map<uint64_t, std::string> names;  // by pointer

  // For Names. Borrows this.
  Names::Resolve resolver() const;
};
// Refuses what is no dump, is cut off or lies about its sizes.
Result<LoadedDump> ReadBufferDump(const std::string& path);

}  // namespace shardscope::cupti
