#include "trace/query/run_on_disk.h"

#include <algorithm>
#include <vector>

#include "trace/store/run_files.h"
#include "trace/store/trace_file.h"

namespace shardscope::query {
namespace {

namespace fs = std::filesystem;

// Takes the time of a file as the run's beginning if it is the earliest.
void Found(const fs::path& file, RunOnDisk* run) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;
  const fs::file_time_type time = fs::last_write_time(file, error);
  if (error) return;
  run->began = run->found ? std::min(run->began, time) : time;
  run->found = true;
}

}  // namespace

RunOnDisk LookAtRun(const std::string& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const std::vector<store::TraceFile> traces =
      folder ? store::ListTraces(path) : std::vector{store::TraceFileOf(path)};
  RunOnDisk run;
  if (folder) Found(fs::path(path) / "run.toml", &run);
  for (const store::TraceFile& trace : traces) {
    const std::vector<int64_t> segments = store::LiveSegments(trace);
    Found(segments.empty() ? trace.FinishedPath() : trace.LivePath(segments.front()), &run);
    run.live = run.live || (!segments.empty() && store::WriterLives(trace));
  }
  return run;
}

}  // namespace shardscope::query
