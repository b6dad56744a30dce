#include "trace/store/run_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <system_error>

#include "trace/base/folder_lock.h"
#include "trace/store/file_kind.h"
#include "trace/store/finisher.h"
#include "trace/store/reader.h"

namespace shardscope::store {
namespace {

namespace fs = std::filesystem;

// Where that is not possible (read-only media, somebody else's run, a full disk) the live file is
// read as it is.
Status FinishWherePossible(RunFiles* run) {
  for (const TraceFile& trace : run->traces) {
    if (LiveSegments(trace).empty() || !CanWrite(run->path)) continue;
    const Status finished = FinishIfAbandoned(trace);
    if (finished.ok()) continue;
    if (!TraceReader::OpenNewest(trace).ok()) return finished;
    if (run->unfinished.empty()) run->unfinished = finished.message();
  }
  return Status::Ok();
}

std::string NameOf(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(folder, error);
  const std::string name = (error ? folder : absolute).filename().string();
  return name.empty() ? folder.string() : name;
}

Status NoAccess(const std::string& path, const std::error_code& error) {
  const bool can_be_allowed = error == std::errc::permission_denied;
  return Status::Error(fmt::format("cannot open {}: {}{}", path, error.message(),
                                   can_be_allowed ? "; its owner can allow it" : ""));
}

// A training writes run.toml before its trace.
Status NoTrace(const std::string& folder) {
  if (!Exists(folder + "/run.toml")) {
    return Status::Error(fmt::format("{} is no run folder: no trace-*.db in it", folder));
  }
  if (FolderLock::IsHeld(folder)) {
    return Status::Error(fmt::format("{} has no trace yet: its run is starting", folder));
  }
  return Status::Error(fmt::format(
      "{} has no trace: its run was killed or failed while it started; start it again in another "
      "folder",
      folder));
}

// A pipe, a socket, a terminal: who opens one may wait for ever.
bool IsNoFile(fs::file_type type) {
  return type == fs::file_type::fifo || type == fs::file_type::socket ||
         type == fs::file_type::character || type == fs::file_type::block;
}

}  // namespace

std::vector<TraceFile> ListTraces(const std::string& folder) {
  std::set<std::string> stems;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code unknown;
    if (name.starts_with("trace-") && name.ends_with(".db") &&
        !IsNoFile(it->status(unknown).type())) {
      stems.insert(TraceFileOf(folder + "/" + name).stem);
    }
  }
  std::vector<TraceFile> traces;
  for (const std::string& stem : stems) traces.push_back(TraceFile{stem});
  return traces;
}

Result<RunFiles> FindRun(const std::string& path) {
  if (path.empty()) return Status::Error("'' is no run: give a run folder or a trace file");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return Status::Error(fmt::format("{} does not exist: give a run folder or a trace file", path));
  }
  if (error) return NoAccess(path, error);
  RunFiles run;
  if (status.type() == fs::file_type::directory) {
    run.path = path;
    while (run.path.size() > 1 && run.path.back() == '/') run.path.pop_back();
    fs::directory_iterator(path, error);
    if (error) return NoAccess(path, error);
    run.traces = ListTraces(run.path);
    if (run.traces.empty()) return NoTrace(run.path);
  } else {
    if (IsNoFile(status.type())) {
      return Status::Error(fmt::format("{} is no Shardscope trace: it is no file", path));
    }
    SHARDSCOPE_RETURN_IF_ERROR(CheckFileKind(path));
    const std::string parent = fs::path(path).parent_path().string();
    run.path = parent.empty() ? std::string(".") : parent;
    run.traces.push_back(TraceFileOf(path));
  }
  run.name = NameOf(run.path);
  SHARDSCOPE_RETURN_IF_ERROR(FinishWherePossible(&run));
  return run;
}

}  // namespace shardscope::store
