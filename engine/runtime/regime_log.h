// RegimeLog: what was in force from which step on, as all ranks of a run agreed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/plan/schedule.h"
#include "engine/runtime/steering.h"
#include "trace/base/mutex.h"

namespace shardscope::runtime {

// What is in force from a step on. Immutable once it is in the log.
struct Regime {
  int64_t number = 0;
  int64_t first_step = 0;
  config::Config config;
  std::shared_ptr<const plan::Schedule> schedule;
  Decision decision;
  // Of `config`, for every step; Add() fills them in.
  double learning_rate = 0;
  int64_t checkpoint_every = 0;
  config::StepWindow record_steps;
};

// What rank 0 tells ranks in other processes of a regime; keys and values are single lines. A
// Schedule that a user has written is told where it is not that of the regime `before`, which may
// be null.
std::string PrintRegime(const Regime& regime, const Regime* before);

// The same regime, without its schedule unless that was told. `before`: the keys that were in
// force.
Result<Regime> ParseRegime(const std::string& text, const config::Config& before);

// Threads: any.
class RegimeLog {
 public:
  // Numbers it. Where its Schedule ran before it gets that same object, so that the trace has each
  // once.
  std::shared_ptr<const Regime> Add(Regime regime);

  std::shared_ptr<const Regime> At(int64_t number) const;
  std::shared_ptr<const Regime> Newest() const;  // null: there is none yet

 private:
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<const Regime>> regimes_ GUARDED_BY(mutex_);  // by number
};

}  // namespace shardscope::runtime
