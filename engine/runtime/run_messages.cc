#include "engine/runtime/run_messages.h"

namespace shardscope::runtime {

void RunMessages::Say(const std::string& text) {
  if (!options_.is_leader()) return;
  const MutexLock lock(mutex_);
  folder_->Log(text);
  if (options_.on_message) options_.on_message(text);
}

// Without the lock: a rank that hangs may hold it. Each line is one write at the end of the file.
void RunMessages::Log(const std::string& text) { folder_->Log(text); }

void RunMessages::AddStep(int rank, const StepReport& report) {
  const std::optional<StepReport> all = reports_.Add(rank, report);
  if (!all || !options_.on_step) return;
  // No rank can finish the next step before this one goes on, so reports stay in order.
  const MutexLock lock(mutex_);
  options_.on_step(*all);
}

}  // namespace shardscope::runtime
