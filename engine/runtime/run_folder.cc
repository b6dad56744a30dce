#include "engine/runtime/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "engine/config/run_files.h"
#include "trace/base/output_file.h"
#include "trace/base/text.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

// SQLite opens paths of up to 512 bytes; of these the name of a trace takes up to 112 (a host name
// has 64).
constexpr size_t kMaxPathBytes = 400;

constexpr const char* kConfig = config::kRunConfigFile;
constexpr const char* kSchedules = config::kSchedulesFolder;
constexpr const char* kCheckpoints = config::kCheckpointsFolder;
constexpr const char* kLog = config::kRunLogFile;

Status Taken(const std::string& path, const config::TouchedFile& file) {
  return Status::Error("--out " + path +
                       (file.is_run ? " has a run in it already; name another folder"
                                    : " has a '" + file.name +
                                          "' in it, which a run would write to; name another "
                                          "folder"));
}

// Of a folder or file that exists: whether it is a folder without anything that a run would write.
Status CheckUntouched(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return Status::Error("--out " + path + " is a file; name a folder for the run");
  }
  const auto touched = config::WhatARunWouldTouch(path);
  if (!touched.ok()) return Status::Error("--out " + touched.message());
  return touched->has_value() ? Taken(path, **touched) : Status::Ok();
}

}  // namespace

std::string WhyNotWritable(const std::string& path) {
  std::error_code error;
  fs::path there = fs::absolute(path, error).lexically_normal();
  while (!fs::exists(there, error) && there.has_parent_path() && there != there.parent_path()) {
    there = there.parent_path();
  }
  if (!fs::is_directory(there, error)) return there.string() + " is not a folder";
  if (access(there.c_str(), W_OK | X_OK) == 0) return "";
  return (errno == EROFS ? "a file system that can only be read holds "
                         : "no permission to write in ") +
         there.string();
}

Status CheckDumpPath(const std::string& path) {
  if (path.empty()) return Status::Ok();
  const Status status = OutputFile::Check(path);
  return status.ok() ? status : Status::Error("--dump: " + status.message());
}

Status RunFolder::CheckFree(const std::string& path, IfTaken if_taken) {
  if (!IsPlainUtf8(path)) {
    return Status::Error(
        "--out: the path has a newline or another character that is no text in it; name another "
        "folder");
  }
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  if (normal == normal.root_path()) {
    return Status::Error("--out " + path + " is the root of the file system; name a folder in it");
  }
  const size_t length = normal.string().size();
  if (length > kMaxPathBytes) {
    return Status::Error("--out " + path + ": the path has " + std::to_string(length) +
                         " bytes, and a trace in it can be opened only up to " +
                         std::to_string(kMaxPathBytes) + "; name a folder with a shorter path");
  }
  if (if_taken == IfTaken::kRefuse && fs::exists(path, error)) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckUntouched(path));
  }
  const std::string why = WhyNotWritable(path);
  if (why.empty()) return Status::Ok();
  return Status::Error("--out " + path + ": " + why + "; name a folder elsewhere");
}

Result<RunFolder> RunFolder::Create(const std::string& path, IfTaken if_taken) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckFree(path, if_taken));
  std::error_code error;
  for (int number = 1;; ++number) {
    const std::string name = number == 1 ? path : path + "-" + std::to_string(number);
    const bool is_new = fs::create_directories(name, error);
    if (!error && if_taken == IfTaken::kNumber && !is_new) continue;
    // The process that makes this one has the folder.
    const bool is_ours = !error && fs::create_directory(fs::path(name) / kSchedules, error);
    if (!error && !is_ours) return Taken(name, {kSchedules, false});
    if (!error) fs::create_directory(fs::path(name) / kCheckpoints, error);
    if (!error) {
      RunFolder folder(name, is_new);
      folder.lock_ = FolderLock(name);
      return folder;
    }
    return Status::Error("cannot create " + name + ": " + error.message() +
                         "; name another folder with --out");
  }
}

void RunFolder::Discard() const {
  std::error_code ignored;
  fs::remove(path_ + "/" + kConfig, ignored);
  fs::remove(path_ + "/" + kLog, ignored);  // as of changes that were refused at once
  fs::remove(path_ + "/" + kSchedules, ignored);
  fs::remove(path_ + "/" + kCheckpoints, ignored);
  if (is_new_) fs::remove(path_, ignored);  // nothing else is in it, or it stays
}

Result<RunFolder> RunFolder::Attach(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return RunFolder(path, false);
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
  return WriteFile(path_ + "/" + kConfig, toml);
}

Status RunFolder::WriteSchedule(int64_t number, const std::string& text) const {
  return WriteFile(path_ + "/" + kSchedules + "/" + std::to_string(number) + ".txt", text);
}

void RunFolder::Log(const std::string& line) const {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  const std::string path = path_ + "/" + kLog;
  std::error_code ignored;
  // A pipe would keep the training waiting for its reader.
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) return;
  std::ofstream(path, std::ios::app) << std::string(text) + ' ' + line + '\n';
}

}  // namespace shardscope::runtime
