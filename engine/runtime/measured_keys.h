// MeasuredKeys: link.bandwidth=auto and checkpointing=budget, whose values the first steps of a
// training give.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/config/config.h"
#include "engine/runtime/auto_bandwidth.h"
#include "engine/runtime/ranks/ranks.h"
#include "engine/runtime/regime_log.h"
#include "engine/runtime/segment_times.h"
#include "engine/runtime/steering.h"
#include "engine/runtime/step_observer.h"
#include "trace/base/mutex.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Threads: Enter() on one rank of each process, while no rank computes; Add() on any rank's host
// thread.
class MeasuredKeys {
 public:
  // Whom it asks and tells. All borrowed.
  struct Listeners {
    Steering* steering = nullptr;  // where what was found is changed to
    std::function<Status(config::Config config)> write_config;
    std::function<void(const std::string& text)> on_message;
  };

  // `config`: what the run was started with. `ranks` is borrowed.
  MeasuredKeys(config::Config config, Ranks* ranks, Listeners listeners)
      : config_(std::move(config)), ranks_(*ranks), listeners_(std::move(listeners)) {}

  // Before the first step of a regime. `link_changed`: its link is another one than before; one
  // that is not measured is set. What is being measured of another Schedule begins anew.
  void Enter(const Regime& regime, bool link_changed);

  // What a rank's step took. Once enough steps are there, the value that they give is changed to
  // and written.
  void Add(int64_t step, const StepTimes& times);

 private:
  void EnterLink(const Regime& regime, bool link_changed);
  void AddToBandwidth(int64_t step, const StepTimes& times);
  void AddToSegments(int64_t step, const StepTimes& times);
  // False: it was refused.
  bool Take(const std::string& key, const std::string& value);

  const config::Config config_;
  Ranks& ranks_;
  const Listeners listeners_;

  Mutex segments_mutex_;
  std::unique_ptr<SegmentTimes> segments_ GUARDED_BY(segments_mutex_);  // while it measures

  Mutex bandwidth_mutex_;
  std::unique_ptr<AutoBandwidth> bandwidth_ GUARDED_BY(bandwidth_mutex_);  // while it measures
  std::shared_ptr<const plan::Schedule> bandwidth_schedule_
      GUARDED_BY(bandwidth_mutex_);  // whose units bandwidth_ has

  // Keys and values, for run.toml: any rank's host thread, one at a time.
  Mutex found_mutex_;
  std::map<std::string, std::string> found_ GUARDED_BY(found_mutex_);
};

}  // namespace shardscope::runtime
