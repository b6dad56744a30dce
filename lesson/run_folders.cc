#include "lesson/run_folders.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "trace/query/live_trace.h"

namespace shardscope::lesson {
namespace {

std::string FolderOf(const std::string& id, int number) {
  return fmt::format("runs/lesson-{}-{}", id, number);
}

}  // namespace

std::string NewRunFolder(const std::string& id) {
  std::error_code ignored;
  int number = 1;
  while (std::filesystem::exists(FolderOf(id, number), ignored)) ++number;
  return FolderOf(id, number);
}

std::optional<std::string> NewestRun(const std::string& id) {
  const std::string start = fmt::format("lesson-{}-", id);
  std::optional<std::string> newest;
  query::RunOnDisk newest_look;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("runs", ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_ours = name.starts_with(start) &&
                         name.find_first_not_of("0123456789", start.size()) == std::string::npos;
    if (!is_ours) continue;
    const query::RunOnDisk look = query::LookAtRun(entry.path().string());
    if (!look.found || (newest && look.began <= newest_look.began)) continue;
    newest = entry.path().string();
    newest_look = look;
  }
  return newest;
}

}  // namespace shardscope::lesson
