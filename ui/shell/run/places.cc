#include "ui/shell/run/places.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "trace/base/assets.h"
#include "trace/query/live_trace.h"

namespace shardscope::shell {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRuns = 40;

std::string NameOf(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.empty() ? path.parent_path().filename().string() : name;
}

struct RunHere {
  fs::path path;
  query::RunOnDisk look;
};

// Newest first.
std::vector<RunHere> RunsHere() {
  std::error_code ignored;
  std::vector<RunHere> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("runs", ignored)) {
    if (!entry.is_directory(ignored)) continue;
    const query::RunOnDisk look = query::LookAtRun(entry.path().string());
    if (look.found) found.push_back({entry.path(), look});
  }
  std::sort(found.begin(), found.end(), [](const RunHere& a, const RunHere& b) {
    return std::tie(a.look.began, a.path) > std::tie(b.look.began, b.path);
  });
  return found;
}

std::string FreeFolder() {
  std::error_code ignored;
  for (int i = 1;; ++i) {
    const std::string folder = fmt::format("runs/run{}", i);
    if (!fs::exists(folder, ignored)) return folder;
  }
}

}  // namespace

ui::Places FindProgramPlaces(const std::string& program_folder) {
  ui::Places places;
  places.presets = FindAssets(program_folder, "presets");
  const fs::path trainer = fs::path(program_folder) / "shardscope-train";
  if (access(trainer.c_str(), X_OK) == 0) places.trainer = trainer.string();
  places.new_folder = FreeFolder();
  return places;
}

ui::Places FindPlaces(const std::vector<std::string>& recent, const std::string& program_folder) {
  ui::Places places = FindProgramPlaces(program_folder);
  std::set<std::string> seen;
  const auto add = [&](const fs::path& path, const query::RunOnDisk* look) {
    std::error_code ignored;
    const fs::path canonical = fs::weakly_canonical(path, ignored);
    if (places.runs.size() >= kMaxRuns || !fs::exists(canonical, ignored)) return;
    if (!seen.insert(canonical.string()).second) return;
    const bool live = look != nullptr ? look->live : query::LookAtRun(canonical.string()).live;
    places.runs.push_back({canonical.string(), NameOf(canonical), live});
  };
  for (const std::string& path : recent) add(path, nullptr);
  for (const RunHere& run : RunsHere()) add(run.path, &run.look);
  return places;
}

}  // namespace shardscope::shell
