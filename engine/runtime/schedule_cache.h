// ScheduleCache: the Schedules of one model that were asked for last. A change is checked by
// building its Schedule when it is announced, and needs it again when it applies; most changes go
// back and forth between a few. Those that users have written (schedule.file) are kept as they were
// read.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/plan/model_description.h"
#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"
#include "trace/base/mutex.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Threads: any.
class ScheduleCache {
 public:
  using Describe = std::function<plan::ModelDescription(const plan::UnitPolicy& units)>;
  explicit ScheduleCache(Describe describe) : describe_(std::move(describe)) {}

  // The same object as long as it is kept. Errors are those of BuildSchedule().
  Result<std::shared_ptr<const plan::Schedule>> Get(const plan::Policy& policy);

  // The Schedule of that file as it is kept; `reads`, or where none is kept: as it is now. Error:
  // it does other work than that of `policy` would.
  Result<std::shared_ptr<const plan::Schedule>> GetWritten(const std::string& path,
                                                           const plan::Policy& policy, bool reads);
  // For GetWritten(), from now on.
  void KeepWritten(const std::string& path, std::shared_ptr<const plan::Schedule> written);

 private:
  static constexpr size_t kKept = 16;

  const Describe describe_;
  Mutex mutex_;
  std::list<std::pair<plan::Policy, std::shared_ptr<const plan::Schedule>>> kept_
      GUARDED_BY(mutex_);  // newest first
  std::map<std::string, std::shared_ptr<const plan::Schedule>> written_
      GUARDED_BY(mutex_);  // by path
};

}  // namespace shardscope::runtime
