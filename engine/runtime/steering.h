// Steering: what users want of a running training (control socket, changes listed in the
// configuration, signals), and when it applies. Has no ranks and no schedules.
//
// A change is accepted at any time and takes effect at a step: rank 0 calls Decide(K) once for
// every step K, in the control op of the step before, and all that was accepted until then applies
// from K on. While the run is paused the pending decision is open again, so that a change made then
// applies to the very next step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/control.h"
#include "trace/base/mutex.h"

namespace shardscope::runtime {

struct ChangedKey {
  std::string key;
  std::string old_value;
  std::string new_value;
};

// What applies from a step on.
struct Decision {
  std::vector<ChangedKey> changed;
  bool stop = false;                 // that step is not run
  bool pause = false;                // that step waits for the user
  bool checkpoint = false;           // weights are written before that step
  int64_t wakes = 0;                 // for WaitWhilePaused: what had come in when this was decided
  std::vector<std::string> refused;  // listed changes that do not go with what is in force, and why
};

class Steering {
 public:
  // `check` says whether a configuration that passed Check() can be run, given the one in force.
  using CheckRun = std::function<Status(const config::Config& before, const config::Config& after)>;
  // `first_step`: of the run.
  Steering(config::Config config, std::string run, CheckRun check, int64_t first_step = 0);

  // Control thread.
  config::Response Handle(const config::Request& request);

  // Rank 0's host thread. config() is what applies from `step` on.
  Decision Decide(int64_t step);
  config::Config config() const;

  // Rank 0's host thread, between steps: returns as soon as something came in after the decision
  // to pause, or after `limit_ns`; whether something came in. What it was is for the next Decide()
  // to say: only then do all ranks have the same.
  bool WaitWhilePaused(const Decision& pause,
                       int64_t limit_ns = std::numeric_limits<int64_t>::max());

  // A change that the trainer itself makes (link.bandwidth=auto found its rate). Any thread.
  Status Change(const std::map<std::string, std::string>& values);

  // A signal (Ctrl-C: SIGINT) stops after the running step. Async-signal-safe.
  void Interrupt(int signal) { signal_.store(signal, std::memory_order_relaxed); }

  // That one, or 0.
  int signal() const { return signal_.load(std::memory_order_relaxed); }

  // Whether it is certain here that the next decision will be to stop. Any thread.
  bool is_stopping() const;

  void SetFinished();

 private:
  config::Response Set(int64_t id, const std::map<std::string, std::string>& values);
  config::Response Do(int64_t id, config::Action action);
  config::RunStatus StatusLocked() const REQUIRES(mutex_);
  Status ChangeLocked(const std::map<std::string, std::string>& values) REQUIRES(mutex_);
  bool IsEnding() const REQUIRES(mutex_);
  bool IsStopping() const REQUIRES(mutex_);

  struct Keys {
    config::Config in_force;
    config::Config accepted;  // in_force and what is pending
    int64_t version = 0;      // of the two
  };
  // Beside keys: what was asked for on the control socket.
  struct Wishes {
    bool stop = false;
    bool pause = false;
    int64_t single_steps = 0;  // steps to run before it pauses
    bool checkpoint = false;   // until the next decision
    int64_t wakes = 0;         // requests that a paused run has to look at
  };
  // A change that was checked on copies.
  struct Checked {
    Status status;
    config::Config candidate;
    int64_t version = 0;  // of what was copied
  };
  Checked CheckChange(const std::map<std::string, std::string>& values) const EXCLUDES(mutex_);
  // Accepts it if its status is ok; false if something has changed since it was checked.
  bool Accept(const Checked& checked) REQUIRES(mutex_);

  const std::string run_;
  const CheckRun check_;
  const int64_t first_step_;                  // of the run
  const int64_t steps_;                       // the same run's, all
  const std::vector<config::Change> listed_;  // by the configuration, ascending
  std::atomic<int> signal_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  Keys keys_ GUARDED_BY(mutex_);
  Wishes wishes_ GUARDED_BY(mutex_);
  int64_t next_step_ GUARDED_BY(mutex_);       // first step that is not decided yet
  size_t next_change_ GUARDED_BY(mutex_) = 0;  // index into listed_
  bool is_paused_ GUARDED_BY(mutex_) = false;  // by the last decision
  bool is_finished_ GUARDED_BY(mutex_) = false;
};

}  // namespace shardscope::runtime
