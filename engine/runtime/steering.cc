#include "engine/runtime/steering.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

// How soon a paused run notices Ctrl-C: a signal handler may not wake it.
constexpr std::chrono::milliseconds kSignalPoll(50);

std::vector<ChangedKey> Differences(const config::Config& before, const config::Config& after) {
  std::vector<ChangedKey> changed;
  for (const auto& [key, value] : after.Values()) {
    if (before.Get(key) != value) changed.push_back({key, before.Get(key), value});
  }
  return changed;
}

config::Response Refused(int64_t id, std::string error) {
  config::Response response;
  response.id = id;
  response.error = std::move(error);
  return response;
}

}  // namespace

Steering::Steering(config::Config config, std::string run, CheckRun check, int64_t first_step)
    : run_(std::move(run)),
      check_(std::move(check)),
      first_step_(first_step),
      steps_(config.GetInt("train.steps")),
      listed_(config.changes()),
      next_step_(first_step) {
  config.ClearChanges();  // copied with every change otherwise
  keys_.in_force = config;
  keys_.accepted = std::move(config);
}

config::Config Steering::config() const {
  const MutexLock lock(mutex_);
  return keys_.in_force;
}

bool Steering::is_stopping() const {
  const MutexLock lock(mutex_);
  return IsStopping();
}

config::Response Steering::Handle(const config::Request& request) {
  if (const auto* set = std::get_if<config::SetRequest>(&request.body)) {
    return Set(request.id, set->values);
  }
  if (const auto* action = std::get_if<config::DoRequest>(&request.body)) {
    return Do(request.id, action->action);
  }
  const std::string& what = std::get<config::GetRequest>(request.body).what;
  if (what != "status")
    return Refused(request.id, "get " + what + ": only status can be asked for");
  const MutexLock lock(mutex_);
  config::Response response;
  response.id = request.id;
  response.ok = true;
  response.has_status = true;
  response.status = StatusLocked();
  return response;
}

config::Response Steering::Set(int64_t id, const std::map<std::string, std::string>& values) {
  const std::string ending = "the run ends with this step: nothing can change any more";
  {
    const MutexLock lock(mutex_);
    if (IsEnding()) return Refused(id, ending);
  }
  while (true) {
    const Checked checked = CheckChange(values);
    const MutexLock lock(mutex_);
    if (!Accept(checked)) continue;
    if (!checked.status.ok()) return Refused(id, checked.status.message());
    if (IsEnding()) return Refused(id, ending);
    config::Response response;
    response.id = id;
    response.ok = true;
    response.applies_at = next_step_;
    return response;
  }
}

Status Steering::Change(const std::map<std::string, std::string>& values) {
  while (true) {
    const Checked checked = CheckChange(values);
    const MutexLock lock(mutex_);
    if (Accept(checked)) return checked.status;
  }
}

bool Steering::IsEnding() const { return is_finished_ || wishes_.stop || next_step_ >= steps_; }

bool Steering::IsStopping() const { return wishes_.stop || signal() != 0; }

// The check builds a Schedule, which takes milliseconds in which rank 0 must not wait for the lock.
Steering::Checked Steering::CheckChange(const std::map<std::string, std::string>& values) const {
  Checked checked;
  config::Config in_force;
  {
    const MutexLock lock(mutex_);
    checked.version = keys_.version;
    checked.candidate = keys_.accepted;
    in_force = keys_.in_force;
  }
  checked.status = config::ApplyLive(values, &checked.candidate);
  if (checked.status.ok()) checked.status = check_(in_force, checked.candidate);
  return checked;
}

bool Steering::Accept(const Checked& checked) {
  if (!checked.status.ok()) return true;
  if (keys_.version != checked.version) return false;
  keys_.accepted = checked.candidate;
  ++keys_.version;
  return true;
}

Status Steering::ChangeLocked(const std::map<std::string, std::string>& values) {
  config::Config candidate = keys_.accepted;
  SHARDSCOPE_RETURN_IF_ERROR(config::ApplyLive(values, &candidate));
  SHARDSCOPE_RETURN_IF_ERROR(check_(keys_.in_force, candidate));
  keys_.accepted = std::move(candidate);
  ++keys_.version;
  return Status::Ok();
}

config::Response Steering::Do(int64_t id, config::Action action) {
  const MutexLock lock(mutex_);
  if (is_finished_) return Refused(id, "the run has ended");
  config::Response response;
  response.id = id;
  response.ok = true;
  response.applies_at = next_step_;
  switch (action) {
    case config::Action::kPause:
      wishes_.pause = true;
      break;
    case config::Action::kResume:
      wishes_.pause = false;
      wishes_.single_steps = 0;
      break;
    case config::Action::kStep:
      wishes_.pause = true;  // after that step, also where the run trains
      ++wishes_.single_steps;
      break;
    case config::Action::kStop:
      wishes_.stop = true;
      break;
    case config::Action::kCheckpoint:
      wishes_.checkpoint = true;
      break;
  }
  ++wishes_.wakes;
  changed_.notify_all();
  return response;
}

Decision Steering::Decide(int64_t step) {
  const MutexLock lock(mutex_);
  Decision decision;
  for (; next_change_ < listed_.size() && listed_[next_change_].step <= step; ++next_change_) {
    // They passed Check() when the run started. One that no longer goes with what the user has
    // changed since gives way.
    const Status status = ChangeLocked(listed_[next_change_].set);
    if (!status.ok()) {
      decision.refused.push_back("change at step " + std::to_string(listed_[next_change_].step) +
                                 " refused: " + status.message());
    }
  }
  decision.changed = Differences(keys_.in_force, keys_.accepted);
  keys_.in_force = keys_.accepted;
  if (!decision.changed.empty()) ++keys_.version;
  decision.stop = IsStopping();
  decision.pause = wishes_.pause && wishes_.single_steps == 0 && !decision.stop;
  decision.checkpoint = std::exchange(wishes_.checkpoint, false);
  decision.wakes = wishes_.wakes;
  is_paused_ = decision.pause;
  if (decision.pause || decision.stop) {
    next_step_ = step;  // after a pause it is open again until the run goes on
  } else {
    if (wishes_.pause && wishes_.single_steps > 0) --wishes_.single_steps;
    next_step_ = step + 1;
  }
  return decision;
}

bool Steering::WaitWhilePaused(const Decision& pause, int64_t limit_ns) {
  const int64_t start_ns = MonotonicNs();
  MutexLock lock(mutex_);
  const auto came_in = [&]() REQUIRES(mutex_) {
    return wishes_.wakes != pause.wakes || signal() != 0;
  };
  while (!came_in() && MonotonicNs() - start_ns < limit_ns) {
    changed_.wait_for(
        lock, std::min<std::chrono::nanoseconds>(kSignalPoll, std::chrono::nanoseconds(limit_ns)));
  }
  return came_in();
}

void Steering::SetFinished() {
  const MutexLock lock(mutex_);
  is_finished_ = true;
}

config::RunStatus Steering::StatusLocked() const {
  config::RunStatus status;
  status.run = run_;
  status.steps = steps_;
  const int64_t last = std::min(next_step_, steps_) - 1;  // of those that have begun
  status.step = std::max(first_step_, is_paused_ ? next_step_ : last);
  status.state =
      next_step_ == first_step_ ? config::RunState::kStarting : config::RunState::kTraining;
  if (is_paused_) status.state = config::RunState::kPaused;
  if (IsStopping()) status.state = config::RunState::kStopping;
  if (is_finished_) status.state = config::RunState::kFinished;
  status.values = keys_.in_force.Values();
  for (const ChangedKey& change : Differences(keys_.in_force, keys_.accepted)) {
    status.pending[change.key] = change.new_value;
  }
  if (!status.pending.empty()) status.pending_step = next_step_;
  return status;
}

}  // namespace shardscope::runtime
