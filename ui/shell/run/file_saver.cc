#include "ui/shell/run/file_saver.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trace/base/output_file.h"
#include "trace/bookmarks/bookmarks.h"

namespace shardscope::shell {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string ExportsFolder(const std::string& path, const std::string& run_folder) {
  if (path.empty() || run_folder.empty()) return "";
  return (fs::path(bookmarks::FileOf(path, run_folder)).parent_path() / "exports").string();
}

FileSaver::~FileSaver() {
  for (const std::future<void>& one : running_) one.wait();
}

Result<std::string> FileSaver::Write(const SavedFile& file) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string bytes, file.make());
  if (file.run != nullptr) SHARDSCOPE_RETURN_IF_ERROR(file.run->Check());
  const MutexLock lock(naming_);
  std::error_code error;
  const fs::path run = fs::path(file.folder).parent_path();
  if (!fs::is_directory(run, error)) {  // made anew, it would be a run without a trace
    return Status::Error(fmt::format("the run's folder {} is gone", run.string()));
  }
  fs::create_directory(file.folder, error);
  if (error) {
    return Status::Error(
        fmt::format("cannot make the folder {}: {}", file.folder, error.message()));
  }
  std::string path;
  for (int number = 1;; ++number) {
    path = fmt::format("{}/{}-{}{}", file.folder, file.name, number, file.extension);
    if (!fs::exists(fs::symlink_status(path, error))) break;
  }
  SHARDSCOPE_RETURN_IF_ERROR(WriteFile(path, bytes));
  return path;
}

void FileSaver::Save(SavedFile file) {
  running_.push_back(std::async(std::launch::async, [this, file = std::move(file)] {
    Result<std::string> path = Write(file);
    {
      const MutexLock lock(mutex_);
      ended_.push_back({std::move(path), file.then});
    }
    if (wake_) wake_();
  }));
}

std::vector<Result<std::string>> FileSaver::TakeEnded() {
  std::erase_if(running_, [](const std::future<void>& one) {
    return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  std::vector<Ended> ended;
  {
    const MutexLock lock(mutex_);
    ended = std::exchange(ended_, {});
  }
  std::vector<Result<std::string>> paths;
  for (Ended& one : ended) {
    if (one.path.ok() && one.then) one.then(*one.path);
    paths.push_back(std::move(one.path));
  }
  return paths;
}

}  // namespace shardscope::shell
