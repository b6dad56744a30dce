#include "trace/import/input.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "trace/bookmarks/bookmarks.h"

namespace shardscope::imports {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = 1 << 18;
// An archive may claim any number.
constexpr size_t kMostInputs = 1 << 14;

std::string Reason(archive* reader) {
  const char* const text = archive_error_string(reader);
  return text == nullptr ? "unknown error" : text;
}

// libarchive calls what is no archive a "raw" one, with one member.
bool IsArchive(archive* reader) {
  return (archive_format(reader) & ARCHIVE_FORMAT_BASE_MASK) != ARCHIVE_FORMAT_RAW;
}

// Of a folder, by name; of one that holds only folders, the files of these.
Result<std::vector<std::string>> FilesOf(const std::string& folder, bool look_into_folders) {
  std::vector<std::string> files;
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    // Notes about the traces beside them: no trace, and no reason to import these again.
    const std::string path = it->path().string();
    if (it->is_regular_file(ignored) && !bookmarks::IsBookmarksFile(path)) files.push_back(path);
    if (it->is_directory(ignored)) folders.push_back(it->path().string());
    if (files.size() + folders.size() > kMostInputs) break;
  }
  if (error) return Status::Error(fmt::format("cannot open {}: {}", folder, error.message()));
  if (files.empty() && look_into_folders) {
    for (const std::string& inner : folders) {
      const Result<std::vector<std::string>> more = FilesOf(inner, false);
      if (more.ok()) files.insert(files.end(), more->begin(), more->end());
      if (files.size() > kMostInputs) break;
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Of a file in which libarchive finds no first entry: it may not be asked for its bytes.
Status NothingIn(const Input& input) {
  std::error_code error;
  const bool is_empty = fs::file_size(input.path, error) == 0 && !error;
  return Status::Error(fmt::format("{} is {}: there is nothing to import", input.Title(),
                                   is_empty ? "an empty file" : "an archive without files"));
}

bool IsGzip(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return file.get() == 0x1f && file.get() == 0x8b;
}

}  // namespace

void ByteSource::Close::operator()(gzFile_s* file) const { gzclose(file); }
void ByteSource::Free::operator()(archive* reader) const { archive_read_free(reader); }

ByteSource::~ByteSource() = default;

// Filters that run other programs are not among them.
Result<ByteSource::Archive> ByteSource::OpenArchive(const std::string& path) {
  Archive reader(archive_read_new());
  if (reader == nullptr) return Status::Error("cannot open " + path + ": no memory");
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_bzip2(reader.get());
  archive_read_support_filter_xz(reader.get());
  archive_read_support_filter_zstd(reader.get());
  archive_read_support_filter_lz4(reader.get());
  archive_read_support_format_tar(reader.get());
  archive_read_support_format_zip(reader.get());
  archive_read_support_format_raw(reader.get());
  archive_read_support_format_empty(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(), kBlockBytes) != ARCHIVE_OK) {
    return Status::Error(fmt::format("cannot open {}: {}", path, Reason(reader.get())));
  }
  return reader;
}

Result<std::unique_ptr<ByteSource>> ByteSource::Open(const Input& input) {
  if (input.member.empty() && IsGzip(input.path)) {
    Gzip gzip(gzopen(input.path.c_str(), "rb"));
    if (gzip == nullptr) return Status::Error(fmt::format("cannot open {}", input.path));
    gzbuffer(gzip.get(), kBlockBytes);
    return std::unique_ptr<ByteSource>(new ByteSource(input, nullptr, std::move(gzip)));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(Archive reader, OpenArchive(input.path));
  archive_entry* entry = nullptr;
  for (int position = 0; position <= input.position; ++position) {
    const int status = archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF && position == 0) return NothingIn(input);
    if (status == ARCHIVE_OK || status == ARCHIVE_WARN) continue;
    return Status::Error(
        fmt::format("cannot read {}: {}", input.Title(),
                    status == ARCHIVE_EOF ? "no longer there" : Reason(reader.get())));
  }
  return std::unique_ptr<ByteSource>(new ByteSource(input, std::move(reader), nullptr));
}

Result<size_t> ByteSource::ReadGzip(char* to, size_t size) {
  const int count = gzread(gzip_.get(), to, static_cast<unsigned>(std::min(size, kBlockBytes)));
  int code = Z_OK;
  const char* const reason = gzerror(gzip_.get(), &code);
  if (count > 0) return static_cast<size_t>(count);
  if (count == 0 && code != Z_BUF_ERROR) return size_t{0};
  return Status::Error(fmt::format("{} ends in the middle or is damaged: {}", title_, reason));
}

Result<size_t> ByteSource::Read(char* to, size_t size) {
  size = static_cast<size_t>(std::min(static_cast<int64_t>(size), left_bytes_));
  if (size == 0) return size_t{0};
  Result<size_t> count = gzip_ != nullptr ? ReadGzip(to, size) : ReadArchive(to, size);
  if (count.ok()) left_bytes_ -= static_cast<int64_t>(*count);
  return count;
}

Result<size_t> ByteSource::ReadArchive(char* to, size_t size) {
  while (true) {
    const la_ssize_t count = archive_read_data(reader_.get(), to, size);
    if (count >= 0) return static_cast<size_t>(count);
    if (count == ARCHIVE_RETRY) continue;
    return Status::Error(
        fmt::format("{} ends in the middle or is damaged: {}", title_, Reason(reader_.get())));
  }
}

int64_t ByteSource::Position() const {
  return gzip_ != nullptr ? gzoffset(gzip_.get()) : archive_filter_bytes(reader_.get(), -1);
}

Result<std::vector<Input>> ListInputs(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Status::Error(
        fmt::format("cannot open {}: {}", path, error ? error.message() : "it does not exist"));
  }
  std::vector<Input> inputs;
  if (fs::is_directory(status)) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(path, true));
    for (const std::string& file : files) {
      // A file that cannot be read is named where it is asked for its bytes.
      const Result<std::vector<Input>> members = ListInputs(file);
      if (members.ok()) {
        inputs.insert(inputs.end(), members->begin(), members->end());
      } else {
        inputs.push_back({file, "", 0});
      }
      if (inputs.size() > kMostInputs) break;
    }
  } else if (fs::is_regular_file(status)) {
    Result<ByteSource::Archive> opened = ByteSource::OpenArchive(path);
    if (!opened.ok() && IsGzip(path)) return std::vector<Input>{{path, "", 0}};
    if (!opened.ok()) return opened.status();
    const ByteSource::Archive reader = std::move(*opened);
    archive_entry* entry = nullptr;
    for (int position = 0; inputs.size() <= kMostInputs; ++position) {
      const int found = archive_read_next_header(reader.get(), &entry);
      if (found != ARCHIVE_OK && found != ARCHIVE_WARN)
        break;  // the end, or damage behind what is whole
      if (!IsArchive(reader.get())) break;
      if (archive_entry_filetype(entry) != AE_IFREG) continue;
      const char* const name = archive_entry_pathname(entry);
      inputs.push_back({path, name == nullptr ? "(no name)" : name, position});
    }
    if (inputs.empty()) inputs.push_back({path, "", 0});
  } else {
    return Status::Error(path + " is no file: give a file or a folder of files");
  }
  if (inputs.size() > kMostInputs) {
    return Status::Error(fmt::format("{} has more than {} files", path, kMostInputs));
  }
  return inputs;
}

Result<std::string> ReadHead(const Input& input, size_t size) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(input));
  std::string head(size, '\0');
  size_t filled = 0;
  while (filled < size) {
    const Result<size_t> count = source->Read(head.data() + filled, size - filled);
    if (!count.ok() && filled == 0) return count.status();
    if (!count.ok() || *count == 0) break;
    filled += *count;
  }
  head.resize(filled);
  return head;
}

}  // namespace shardscope::imports
