// Trainer: one run from its first step to its last. Binds ranks, schedules, control, trace and run
// folder together; every step is a Schedule given to the executors.
//
// Threads: Run() on the caller's thread, which waits; one host thread per rank; the control
// server's thread talks to Steering only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/control_server.h"
#include "engine/runtime/ranks/device.h"
#include "engine/runtime/run_folder.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/steering.h"
#include "engine/runtime/step_reports.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

struct TrainerOptions {
  config::Config config;  // passed Check()
  std::string folder;     // rank 0 says where; other processes follow, hence absolute then
  IfTaken if_taken = IfTaken::kRefuse;
  // Where the ranks are processes: this one's place. The ranks are threads without.
  std::optional<config::Launch> launch;
  std::string dump_path;  // empty: none
  // Called where rank 0 is, before the run folder is made.
  std::function<void()> before_folder;
  Device* device = nullptr;  // what the ranks compute on; borrowed
  // Rows of table capability that are known before the run, and of table config beside the keys.
  std::vector<DeviceCapability> capabilities;
  std::map<std::string, std::string> environment;
  // Called on a rank's host thread, one step at a time; in every process of the run.
  std::function<void(const StepReport&)> on_step;
  // One line for the user: changes, the bandwidth found, ... One at a time; where rank 0 is.
  std::function<void(const std::string&)> on_message;

  // Whether this is rank 0's process: it has folder, control socket, log and markers of the run.
  bool is_leader() const { return !launch || launch->rank == 0; }
};

// What a run that ended well leaves behind.
struct RunSummary {
  int64_t steps = 0;  // that ran
  bool stopped_early = false;
  int stop_signal = 0;             // that stopped it early
  std::optional<StepReport> last;  // of its newest step; none: it ran no step
  std::string folder;              // empty: none
  std::string trace_path;
};

class Trainer {
 public:
  // Error: the run's folder, its checkpoints or its dump cannot be written, which only rank 0's
  // process looks at. Creates nothing. Start() does this, too, but where ranks are processes only
  // when all have come.
  static Status CheckFiles(const TrainerOptions& options);
  // Instead of Start(), where this process ends because of `why`: the others, which wait for it to
  // come, are told. Returns when they have read it, or after a few seconds.
  static void TellOthers(const config::Launch& launch, const std::string& why);

  // Creates the run folder, opens the trace and the control socket.
  static Result<std::unique_ptr<Trainer>> Start(TrainerOptions options, Job job);
  virtual ~Trainer() = default;

  // Trains to the end, or until stopped. Closes the trace also after an error.
  virtual Result<RunSummary> Run() = 0;

  virtual Steering& steering() = 0;

  // After Run(): a rank hangs and no thread can end it. All is written; this must not be destroyed,
  // the process has to be left by std::_Exit().
  virtual bool is_stuck() const = 0;
};

}  // namespace shardscope::runtime
