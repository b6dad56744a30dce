#include "trace/import/cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "trace/base/left_over.h"
#include "trace/base/parse_number.h"
#include "trace/base/version.h"
#include "trace/import/format.h"
#include "trace/import/input.h"
#include "trace/store/run_files.h"
#include "trace/store/trace_file.h"

namespace shardscope::imports {
namespace {

namespace fs = std::filesystem;

// Goes up whenever the same files give other rows.
constexpr int kImportVersion = 15;

Result<std::string> CacheFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::string folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr && *home != '\0') {
    folder = std::string(home) + "/.cache";
  } else {
    return Status::Error(
        "there is no folder for imported runs: set HOME or XDG_CACHE_HOME, or import with -o RUN");
  }
  folder += "/shardscope/imports";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Status::Error(
        fmt::format("cannot make the folder {} for imported runs: {}; import with -o RUN", folder,
                    error.message()));
  }
  return folder;
}

// Equal for the same files, unchanged.
std::string KeyOf(const std::vector<Input>& inputs) {
  std::string facts = fmt::format("{} {}\n", kVersion, kImportVersion);
  std::set<std::string> paths;
  for (const Input& input : inputs) {
    std::error_code error;
    const std::string path = fs::weakly_canonical(input.path, error).string();
    if (!paths.insert(path).second) continue;
    struct stat file = {};
    (void)stat(path.c_str(), &file);
    facts += fmt::format("{}\n{} {} {} {}.{}\n", path, file.st_dev, file.st_ino, file.st_size,
                         file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
  }
  // Two halves, as one of 32 bits meets another too soon.
  const auto* const bytes = reinterpret_cast<const Bytef*>(facts.data());
  const auto size = static_cast<uInt>(facts.size());
  return fmt::format("{:08x}{:08x}", crc32(0, bytes, size), adler32(1, bytes, size));
}

int64_t BytesOfFolder(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const auto size = it->file_size(ignored);
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// Removes what was opened longest ago, until the rest is small enough; never `kept`.
void Bound(const std::string& cache, const std::string& kept) {
  struct Entry {
    fs::file_time_type opened;
    fs::path path;
    int64_t bytes = 0;
  };
  std::vector<Entry> entries;
  int64_t all_bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(cache, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    entries.push_back({it->last_write_time(ignored), it->path(), BytesOfFolder(it->path())});
    all_bytes += entries.back().bytes;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.opened < b.opened; });
  for (const Entry& entry : entries) {
    if (all_bytes <= kCacheBytes) return;
    if (entry.path == kept) continue;
    std::error_code ignored;
    fs::remove_all(entry.path, ignored);
    all_bytes -= entry.bytes;
  }
}

// What a process left that was killed while it imported: KEY.importing-PID.
void RemoveKilledImports(const std::string& cache) {
  RemoveLeftOver(cache, [](std::string_view name) -> std::optional<pid_t> {
    const size_t at = name.rfind(kTemporarySuffix);
    if (at == std::string_view::npos) return std::nullopt;
    return ParseInteger<pid_t>(name.substr(at + kTemporarySuffix.size()));
  });
}

}  // namespace

Result<ImportedRun> ImportCached(const std::string& path, const ImportOptions& options) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<Input> inputs, ListInputs(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string cache, CacheFolder());
  const std::string folder = cache + "/" + KeyOf(inputs);
  std::error_code ignored;
  if (store::Exists(folder)) {
    fs::last_write_time(folder, fs::file_time_type::clock::now(), ignored);
    return ImportedRun{.folder = folder,
                       .format = {},
                       .num_ranks = static_cast<int>(store::ListTraces(folder).size()),
                       .passed_over = {}};
  }
  RemoveKilledImports(cache);
  Result<ImportedRun> run = ImportRun(path, folder, options);
  // Another process may have imported the same meanwhile.
  if (!run.ok() && store::Exists(folder)) return ImportCached(path, options);
  if (run.ok()) Bound(cache, folder);
  return run;
}

bool IsCached(const std::string& path) {
  const Result<std::vector<Input>> inputs = ListInputs(path);
  const Result<std::string> cache = CacheFolder();
  return inputs.ok() && cache.ok() && store::Exists(*cache + "/" + KeyOf(*inputs));
}

Result<std::string> ImportPreview(const std::string& path, ImportOptions options) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<Input> inputs, ListInputs(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string cache, CacheFolder());
  options.most_inputs = kPreviewInputs;
  options.bytes_of_each =
      kPreviewBytes / static_cast<int64_t>(std::clamp<size_t>(inputs.size(), 1, kPreviewInputs));
  const std::string folder =
      fmt::format("{}/{}.preview{}{}", cache, KeyOf(inputs), kTemporarySuffix, getpid());
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  const Result<ImportedRun> run = ImportRun(path, folder, options);
  if (!run.ok()) return run.status();
  return folder;
}

bool NeedsImport(const std::string& path) {
  return store::Exists(path) && !store::FindRun(path).ok() && CanImport(path);
}

Result<std::string> RunOf(const std::string& path, const ImportOptions& options) {
  if (!NeedsImport(path)) return path;
  SHARDSCOPE_ASSIGN_OR_RETURN(ImportedRun run, ImportCached(path, options));
  return run.folder;
}

}  // namespace shardscope::imports
