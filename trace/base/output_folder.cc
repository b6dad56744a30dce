#include "trace/base/output_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "trace/base/left_over.h"
#include "trace/base/parse_number.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

void RemoveLeftOf(const fs::path& place, std::string_view suffix) {
  const fs::path folder = place.has_parent_path() ? place.parent_path() : fs::path(".");
  const std::string start = place.filename().string() + std::string(suffix);
  RemoveLeftOver(folder, [&start](std::string_view name) -> std::optional<pid_t> {
    if (!name.starts_with(start)) return std::nullopt;
    return ParseInteger<pid_t>(name.substr(start.size()));
  });
}

}  // namespace

Status MakeFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error
             ? Status::Error(fmt::format("cannot make the folder {}: {}", folder, error.message()))
             : Status::Ok();
}

Result<OutputFolder> OutputFolder::Make(const std::string& place, std::string_view suffix) {
  RemoveLeftOf(place, suffix);
  std::string path = fmt::format("{}{}{}", place, suffix, getpid());
  std::error_code ignored;
  fs::remove_all(path, ignored);  // of an earlier process with this number
  SHARDSCOPE_RETURN_IF_ERROR(MakeFolder(path));
  return OutputFolder(std::move(path), place);
}

OutputFolder::OutputFolder(std::string path, std::string place)
    : path_(std::move(path)), place_(std::move(place)) {}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), place_(std::move(other.place_)) {}

OutputFolder::~OutputFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Status OutputFolder::Commit() {
  std::error_code error;
  fs::rename(path_, place_, error);
  if (error) {
    return Status::Error(fmt::format("cannot rename {} to {}: {}", path_, place_, error.message()));
  }
  path_.clear();
  return Status::Ok();
}

Status OutputFolder::Replace() {
  std::error_code error;
  // So that at any time one of the two is there, whole.
  if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, place_.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(path_, error);  // the old one has this name now
    path_.clear();
    return Status::Ok();
  }
  const bool cannot_exchange = errno == EINVAL || errno == ENOSYS;
  if (cannot_exchange) fs::remove_all(place_, error);
  return Commit();
}

}  // namespace shardscope
