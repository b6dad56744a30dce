// LiveTrace: opens a run and follows it. A thread of its own reads new rows and publishes
// Snapshots; callers poll.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "trace/base/status.h"
#include "trace/query/snapshot.h"

namespace shardscope::store {
class Source;
struct RunFiles;
}  // namespace shardscope::store

namespace shardscope::query {

// What of a run is read, if all of it would take more memory than it shall: of one that goes on its
// last steps (trace/query/bounded_builder.h).
struct ReadLimits {
  // For the rows and what is made of them; 0: 3 GB of rows (1.7 of a part of a larger run, 2 of one
  // that goes on), or most of what is free.
  int64_t memory_bytes = 0;
  // Of a finished run; none: the newest change of a knob, or the last steps.
  std::optional<int64_t> around_step;
  bool keeps_own = false;  // what this process has is not freed for the run
};

class LiveTrace {
 public:
  // `path`: a run folder, or one trace file. A killed run's file is finished first (state cut),
  // under a lock. Errors: no run there, not a trace, a newer schema. `on_change` is called on the
  // reader's thread after each new Snapshot.
  static Result<std::unique_ptr<LiveTrace>> Open(const std::string& path,
                                                 std::function<void()> on_change = {},
                                                 const ReadLimits& limits = {});
  // The same for rows from elsewhere (another machine: `shardscope tail`). `folder` and
  // `name` are those of the Snapshots.
  static Result<std::unique_ptr<LiveTrace>> Follow(std::unique_ptr<store::Source> source,
                                                   std::string folder, std::string name,
                                                   std::function<void()> on_change = {},
                                                   const ReadLimits& limits = {});
  virtual ~LiveTrace() = default;

  // The newest Snapshot; never null. Any thread, never blocks on I/O.
  virtual SnapshotPtr Latest() const = 0;

  // An error that stopped following (file gone, ...), or Ok. What was read stays available.
  virtual Status status() const = 0;
};

// Reads everything there is now, once, on the calling thread: for the CLI. Error: it would take
// more memory than is free.
Result<SnapshotPtr> ReadSnapshot(const std::string& path);
Result<SnapshotPtr> ReadSnapshotOf(const store::RunFiles& run);
// The same for `open`: of a large finished run as many steps as fit. `stop` ends the reading of
// such a run, with an error.
Result<SnapshotPtr> ReadSnapshotWithin(const std::string& path, const ReadLimits& limits,
                                       const std::stop_token& stop);

// What is known of a run without opening it, by the names and locks in its folder.
struct RunOnDisk {
  bool found = false;  // there is a run: its configuration, or a trace
  bool live = false;   // something writes one of its traces now; not so after a kill
  std::filesystem::file_time_type began;  // when its first file was last written
};

// `path`: a run folder, or one trace file.
RunOnDisk LookAtRun(const std::string& path);

}  // namespace shardscope::query
