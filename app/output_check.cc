#include "app/output_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/config/run_files.h"
#include "trace/base/letter_case.h"
#include "trace/base/output_file.h"
#include "trace/bookmarks/bookmarks.h"
#include "trace/store/run_files.h"

namespace shardscope::app {
namespace {

namespace fs = std::filesystem;

bool IsOneOf(std::string_view word, const std::vector<std::string_view>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Links of /proc lead to whatever is open, and /dev/stdout to one of them.
bool IsWrittenThrough(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  if (folder == "/dev" || folder == "/dev/fd" || folder.starts_with("/proc/")) return true;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

bool IsRunFolder(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / config::kRunConfigFile, error) ||
         !store::ListTraces(folder.string()).empty();
}

// Of a trace, or of what stands beside one while it is written.
bool HasNameOfTrace(const fs::path& file) {
  return file.filename().string().starts_with(config::kTracePrefix) &&
         IsOneOf(file.extension().string(),
                 {".db", ".db-wal", ".db-shm", ".db-journal", ".lock", ".finishing"});
}

// `place`: no link leads on from it.
bool IsOfRun(const fs::path& place) {
  const std::string name = place.filename().string();
  if (name == config::kRunConfigFile || bookmarks::IsBookmarksFile(name) || HasNameOfTrace(place))
    return true;
  std::error_code error;
  if (fs::is_regular_file(place, error) && store::CheckFileKind(place.string()).ok()) return true;
  if (name == config::kRunLogFile) return IsRunFolder(place.parent_path());
  for (fs::path folder = place.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    const std::string inner = folder.filename().string();
    if ((inner == config::kCheckpointsFolder || inner == config::kSchedulesFolder) &&
        IsRunFolder(folder.parent_path())) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string EndingOf(const std::string& path) { return Lower(fs::path(path).extension().string()); }

Status CheckIsOfNoRun(const std::string& option, const std::string& path) {
  if (path.empty() || IsWrittenThrough(path)) return Status::Ok();
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(fs::absolute(path, error), error);
  const fs::path place = error ? fs::path(path) : canonical;
  if (!IsOfRun(place)) return Status::Ok();
  return Status::Error(fmt::format("{} {}: that is a file of a run: name another", option, path));
}

Status CheckOutputFile(const std::string& path, const std::vector<std::string_view>& endings,
                       const std::string& wanted) {
  std::error_code error;
  const bool is_folder = path.ends_with('/') || fs::is_directory(path, error);
  if (!is_folder && !IsWrittenThrough(path) && !IsOneOf(EndingOf(path), endings)) {
    return Status::Error(fmt::format("-o {}: {}", path, wanted));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CheckIsOfNoRun("-o", path));
  return OutputFile::Check(path);
}

}  // namespace shardscope::app
