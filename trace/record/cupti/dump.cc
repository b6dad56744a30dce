#include "trace/record/cupti/dump.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "trace/base/input_file.h"

namespace shardscope::cupti {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kMaxBytes = size_t{4} << 30;
constexpr uint32_t kFormat = 1;
constexpr uint32_t kBuffer = 1;
constexpr uint32_t kName = 2;

struct FileHeader {
  std::array<char, 8> magic = {'S', 'H', 'S', 'C', 'U', 'P', 'T', 'I'};
  uint32_t format = kFormat;
  uint32_t cupti_version = 0;
};
struct Entry {
  uint32_t kind = 0;
  uint32_t zero = 0;
  uint64_t number = 0;
  uint64_t size = 0;
};

size_t Padded(size_t size) { return (size + 7) / 8 * 8; }

// The next value of `text`, which gets shorter by it.
template <typename Value>
bool Read(std::string_view* text, Value* value) {
  if (text->size() < sizeof(Value)) return false;
  std::memcpy(value, text->data(), sizeof(Value));
  text->remove_prefix(sizeof(Value));
  return true;
}

}  // namespace

std::string DumpPathFromEnvironment() {
  const char* folder = std::getenv(kDumpVariable);
  if (folder == nullptr || *folder == '\0') return "";
  return fmt::format("{}/cupti-{}.buffers", folder, getpid());
}

Result<std::unique_ptr<BufferDump>> BufferDump::Create(const std::string& path,
                                                       uint32_t cupti_version, int64_t max_bytes) {
  FileHeader header;
  header.cupti_version = cupti_version;
  Result<OutputFile> file = OutputFile::Create(path);
  Status status = file.status();
  if (status.ok()) status = file->Write({reinterpret_cast<const char*>(&header), sizeof(header)});
  if (status.ok()) status = file->Publish();  // the process may be killed
  if (!status.ok()) return Status::Error(fmt::format("{}: {}", kDumpVariable, status.message()));
  return std::unique_ptr<BufferDump>(new BufferDump(std::move(file).value(), max_bytes));
}

bool BufferDump::Append(uint32_t kind, uint64_t number, const char* data, size_t size) {
  const Entry entry = {kind, 0, number, size};
  constexpr std::array<char, 8> kZeros = {};
  return file_.Write({reinterpret_cast<const char*>(&entry), sizeof(entry)}).ok() &&
         file_.Write({data, size}).ok() && file_.Write({kZeros.data(), Padded(size) - size}).ok();
}

void BufferDump::AddBuffer(const uint8_t* data, size_t size) {
  has_buffer_ = bytes_ + static_cast<int64_t>(size) <= max_bytes_ &&
                Append(kBuffer, num_buffers_++, reinterpret_cast<const char*>(data), size);
  if (has_buffer_) {
    bytes_ += static_cast<int64_t>(size);
  } else {
    ++left_out_;
  }
}

void BufferDump::AddName(const char* pointer, std::string_view text) {
  // Names of buffers that are left out would be of no use. They are few, so the bound is not about
  // them.
  if (!has_buffer_) return;
  static_cast<void>(Append(kName, reinterpret_cast<uintptr_t>(pointer), text.data(), text.size()));
}

Names::Resolve LoadedDump::resolver() const {
  return [this](const char* pointer) {
    const auto known = names.find(reinterpret_cast<uintptr_t>(pointer));
    return known == names.end() ? std::string() : known->second;
  };
}

Result<LoadedDump> ReadBufferDump(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxBytes));
  std::string_view text = bytes;
  FileHeader header;
  LoadedDump dump;
  if (!Read(&text, &header) || header.magic != FileHeader().magic || header.format != kFormat) {
    return Status::Error(
        fmt::format("{} is no dump of CUPTI's buffers of format {}", path, kFormat));
  }
  dump.cupti_version = header.cupti_version;
  while (!text.empty()) {
    Entry entry;
    if (!Read(&text, &entry) || entry.size > text.size() || Padded(entry.size) > text.size()) {
      return Status::Error(fmt::format("{} is cut off: dump it again", path));
    }
    if (entry.kind == kName) {
      dump.names.emplace(entry.number, text.substr(0, entry.size));
    } else if (entry.kind == kBuffer) {
      LoadedDump::Buffer& buffer = dump.buffers.emplace_back();
      buffer.words.resize(Padded(entry.size) / 8);
      buffer.size = entry.size;
      if (entry.size > 0) std::memcpy(buffer.data(), text.data(), entry.size);
    }
    text.remove_prefix(Padded(entry.size));
  }
  return dump;
}

}  // namespace shardscope::cupti
