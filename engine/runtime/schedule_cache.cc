#include "engine/runtime/schedule_cache.h"

#include <algorithm>

#include "engine/plan/written_schedule.h"
#include "trace/base/mutex.h"

namespace shardscope::runtime {
Result<std::shared_ptr<const plan::Schedule>> ScheduleCache::Get(const plan::Policy& policy) {
  {
    const MutexLock lock(mutex_);
    const auto found =
        std::ranges::find(kept_, policy, [](const auto& entry) { return entry.first; });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return kept_.front().second;
    }
  }
  // Takes milliseconds, in which the lock is free.
  Result<plan::Schedule> built = plan::BuildSchedule(describe_(policy.units), policy);
  if (!built.ok()) return built.status();
  auto schedule = std::make_shared<const plan::Schedule>(*std::move(built));
  const MutexLock lock(mutex_);
  kept_.emplace_front(policy, schedule);
  if (kept_.size() > kKept) kept_.pop_back();
  return schedule;
}

Result<std::shared_ptr<const plan::Schedule>> ScheduleCache::GetWritten(const std::string& path,
                                                                        const plan::Policy& policy,
                                                                        bool reads) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto built, Get(policy));
  std::shared_ptr<const plan::Schedule> written;
  if (!reads) {
    const MutexLock lock(mutex_);
    const auto found = written_.find(path);
    if (found != written_.end()) written = found->second;
  }
  if (written == nullptr) {
    SHARDSCOPE_ASSIGN_OR_RETURN(plan::Schedule schedule, plan::ReadSchedule(path));
    written = std::make_shared<const plan::Schedule>(std::move(schedule));
  }
  SHARDSCOPE_RETURN_IF_ERROR(plan::CheckSameWork(*built, *written, path));
  const MutexLock lock(mutex_);
  written_.try_emplace(path, written);
  return written;
}

void ScheduleCache::KeepWritten(const std::string& path,
                                std::shared_ptr<const plan::Schedule> written) {
  const MutexLock lock(mutex_);
  written_[path] = std::move(written);
}

}  // namespace shardscope::runtime
