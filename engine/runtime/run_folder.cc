#include "engine/runtime/run_folder.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "trace/base/output_file.h"
#include "trace/base/text.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

// SQLite opens paths of up to 512 bytes; of these the name of a trace takes up to 112 (a host name
// has 64).
constexpr size_t kMaxPathBytes = 400;

// The nearest folder above `path` that exists.
fs::path ExistingParent(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error).lexically_normal();
  while (!fs::exists(path, error) && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

}  // namespace

Status CheckDumpPath(const std::string& path) {
  if (path.empty()) return Status::Ok();
  const Status status = OutputFile::Check(path);
  return status.ok() ? status : Status::Error("--dump: " + status.message());
}

Status RunFolder::CheckFree(const std::string& path) {
  if (!IsPlainUtf8(path)) {
    return Status::Error(
        "--out: the path has a newline or another character that is no text in it; name another "
        "folder");
  }
  std::error_code error;
  const size_t length = fs::absolute(path, error).lexically_normal().string().size();
  if (length > kMaxPathBytes) {
    return Status::Error("--out " + path + ": the path has " + std::to_string(length) +
                         " bytes, and a trace in it can be opened only up to " +
                         std::to_string(kMaxPathBytes) + "; name a folder with a shorter path");
  }
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path, error)) {
      return Status::Error("--out " + path + " is a file; name a folder for the run");
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      const std::string name = entry.path().filename().string();
      if (name == "run.toml" || name.starts_with("trace-")) {
        return Status::Error("--out " + path + " has a run in it already; name another folder");
      }
    }
    if (error) return Status::Error("--out " + path + ": " + error.message());
  }
  const fs::path parent = ExistingParent(path);
  if (!fs::is_directory(parent, error)) {
    return Status::Error("--out " + path + ": " + parent.string() + " is not a folder");
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    return Status::Error("--out " + path + ": no permission to write in " + parent.string());
  }
  return Status::Ok();
}

Result<RunFolder> RunFolder::Create(const std::string& path) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckFree(path));
  std::error_code error;
  fs::create_directories(fs::path(path) / "schedules", error);
  if (!error) fs::create_directories(fs::path(path) / "checkpoints", error);
  if (error) {
    return Status::Error("cannot create " + path + ": " + error.message() +
                         "; name another folder with --out");
  }
  RunFolder folder(path);
  folder.lock_ = FolderLock(path);
  return folder;
}

Result<RunFolder> RunFolder::Attach(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return RunFolder(path);
  return Status::Error("the run's folder " + path +
                       ", which rank 0 has created, is not there: all processes of a run need one "
                       "file system");
}

std::string RunFolder::name() const {
  const fs::path normal = fs::absolute(path_).lexically_normal();
  return normal.has_filename() ? normal.filename().string()
                               : normal.parent_path().filename().string();
}

Status RunFolder::WriteConfig(const std::string& toml) const {
  return WriteFile(path_ + "/run.toml", toml);
}

Status RunFolder::WriteSchedule(int64_t number, const std::string& text) const {
  return WriteFile(path_ + "/schedules/" + std::to_string(number) + ".txt", text);
}

void RunFolder::Log(const std::string& line) const {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  const std::string path = path_ + "/log.txt";
  std::error_code ignored;
  // Somebody else's pipe would keep the training waiting for its reader.
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) return;
  std::ofstream(path, std::ios::app) << text << ' ' << line << '\n';
}

}  // namespace shardscope::runtime
