#include "engine/model/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "engine/model/documents.h"
#include "trace/base/hash.h"
#include "trace/base/output_file.h"

namespace shardscope::model {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMagic = 0x32'4e45'4b4f'5453;  // "STOKEN2"; another number when ids change
constexpr std::string_view kSuffix = ".tokens";

// FNV-1a over words of eight bytes: of data that is read anyway.
class Checksum {
 public:
  void Add(std::string_view bytes) {
    while (bytes.size() >= sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), sizeof(word));
      Add(word);
      bytes.remove_prefix(sizeof(word));
    }
    for (const char byte : bytes) Add(static_cast<unsigned char>(byte));
  }
  void Add(uint64_t word) {
    sum_ = FnvStep(sum_, word);
    sum_ ^= sum_ >> 29;  // what a multiplication moves up alone would come down again
  }
  uint64_t sum() const { return sum_; }

 private:
  uint64_t sum_ = kFnvBasis;
};

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool IsJsonLines(const std::string& file, DataFormat format) {
  return format == DataFormat::kJsonLines ||
         (format == DataFormat::kByName && HasNameOfJsonLines(file));
}

// Held by the process that looks into the cache or fills it, until it is destroyed. `path`: a file.
class CacheLock {
 public:
  explicit CacheLock(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;
  ~CacheLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  bool ok() const { return descriptor_ >= 0; }

 private:
  const int descriptor_;
};

// Removes the files of the cache that were used the longest time ago until `max_bytes` hold the
// others. A file that is mapped stays with those that have mapped it.
void Shrink(const fs::path& folder, int64_t max_bytes) {
  struct File {
    fs::file_time_type used;
    fs::path path;
    int64_t bytes = 0;
  };
  std::vector<File> files;
  std::error_code error;
  int64_t total = 0;
  for (fs::directory_iterator walk(folder, error); !error && walk != fs::directory_iterator();
       walk.increment(error)) {
    if (walk->path().extension() != kSuffix) continue;
    std::error_code gone;
    const auto bytes = static_cast<int64_t>(walk->file_size(gone));
    if (gone) continue;
    files.push_back({walk->last_write_time(gone), walk->path(), bytes});
    total += bytes;
  }
  std::sort(files.begin(), files.end(),
            [](const File& left, const File& right) { return left.used < right.used; });
  for (size_t i = 0; i + 1 < files.size() && total > max_bytes; ++i) {
    fs::remove(files[i].path, error);
    total -= files[i].bytes;
  }
}

// Says that `inputs` begin, and returns what tells how far they are, which `on_progress` outlives;
// empty where that is.
Documents::Progress BeginProgress(const std::vector<MappedFile>& inputs,
                                  const TokenizeProgress& on_progress) {
  if (!on_progress) return {};
  int64_t all = 0;
  for (const MappedFile& input : inputs) all += std::ssize(input.bytes());
  on_progress(0, all);
  return [&on_progress, all](int64_t done) { on_progress(std::min(done, all), all); };
}

}  // namespace

bool HasNameOfJsonLines(std::string_view file) { return file.ends_with(".jsonl"); }

// At the file's end, as all of it is known there.
struct TokenFile::Footer {
  uint64_t magic = kMagic;
  uint64_t key = 0;       // of what the file was made from
  uint64_t checksum = 0;  // of its tokens
  int64_t num_documents = 0;
  uint64_t is_masked = 0;
};

Result<std::shared_ptr<const TokenFile>> TokenFile::Map(const std::string& path, uint64_t key) {
  SHARDSCOPE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  const std::span<const std::byte> bytes = mapped.bytes();
  Footer footer;
  const auto damaged = [&] { return Status::Error(path + " is damaged"); };
  if (bytes.size() < sizeof(footer) || bytes.size() % sizeof(uint32_t) != 0) return damaged();
  const std::span<const std::byte> tokens = bytes.first(bytes.size() - sizeof(footer));
  std::memcpy(&footer, bytes.data() + tokens.size(), sizeof(footer));
  const std::span<const uint32_t> ids(reinterpret_cast<const uint32_t*>(tokens.data()),
                                      tokens.size() / sizeof(uint32_t));
  Checksum checksum;
  for (const uint32_t id : ids) checksum.Add(id);
  if (footer.magic != kMagic || footer.key != key || footer.checksum != checksum.sum()) {
    return damaged();
  }
  std::shared_ptr<TokenFile> file(new TokenFile(std::move(mapped)));
  file->tokens_ = ids;
  file->num_documents_ = footer.num_documents;
  file->checksum_ = footer.checksum;
  file->is_masked_ = footer.is_masked != 0;
  return std::shared_ptr<const TokenFile>(std::move(file));
}

// What the ids are made from.
struct TokenFile::Inputs {
  std::vector<std::string> paths;
  std::vector<MappedFile> files;  // of these paths
  uint64_t key = 0;               // of all of it, and of the tokenizer

  static Result<Inputs> Map(const std::vector<std::string>& paths, const TokenizeOptions& options) {
    Inputs inputs{.paths = paths};
    Checksum key;
    key.Add(options.tokenizer->fingerprint());
    for (const std::string& path : paths) {
      SHARDSCOPE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
      key.Add(static_cast<uint64_t>(file.bytes().size()));
      key.Add(static_cast<uint64_t>(IsJsonLines(path, options.format)));
      key.Add(TextOf(file.bytes()));
      inputs.files.push_back(std::move(file));
    }
    inputs.key = key.sum();
    return inputs;
  }
};

Status TokenFile::Write(const std::string& path, const Inputs& inputs,
                        const TokenizeOptions& options) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Documents documents, Documents::Make(options.tokenizer));
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::Create(path));
  const Documents::Progress on_progress = BeginProgress(inputs.files, options.on_progress);
  Checksum checksum;
  std::vector<uint32_t> tokens;
  for (size_t i = 0; i < inputs.paths.size(); ++i) {
    const std::string& input = inputs.paths[i];
    tokens.clear();
    SHARDSCOPE_RETURN_IF_ERROR(
        documents.Append(options.key + ": " + input, TextOf(inputs.files[i].bytes()),
                         IsJsonLines(input, options.format), &tokens, on_progress));
    for (const uint32_t token : tokens) checksum.Add(token);
    SHARDSCOPE_RETURN_IF_ERROR(output.Write(TextOf(std::as_bytes(std::span(tokens)))));
  }
  const Footer footer{.key = inputs.key,
                      .checksum = checksum.sum(),
                      .num_documents = documents.count(),
                      .is_masked = documents.is_masked() ? uint64_t{1} : 0};
  SHARDSCOPE_RETURN_IF_ERROR(output.Write(TextOf(std::as_bytes(std::span(&footer, 1)))));
  return output.Close();
}

Result<std::shared_ptr<const TokenFile>> TokenFile::Open(const std::vector<std::string>& files,
                                                         const TokenizeOptions& options) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Inputs inputs, Inputs::Map(files, options));
  const fs::path folder = options.cache;
  const std::string path =
      (folder / (fmt::format("{:016x}", inputs.key) + std::string(kSuffix))).string();
  std::error_code error;
  fs::create_directories(folder, error);
  const CacheLock lock((folder / "lock").string());
  if (!lock.ok()) {
    return Status::Error("data.cache: cannot write to " + folder.string() +
                         "; name another folder for token ids");
  }
  if (fs::exists(path, error)) {
    Result<std::shared_ptr<const TokenFile>> known = Map(path, inputs.key);
    if (known.ok()) {
      fs::last_write_time(path, fs::file_time_type::clock::now(), error);
      return known;
    }  // damaged: made again
  }
  OutputFile::RemoveLeft(folder.string());
  SHARDSCOPE_RETURN_IF_ERROR(Write(path, inputs, options));
  Shrink(folder, options.max_cache_bytes);
  return Map(path, inputs.key);
}

}  // namespace shardscope::model
