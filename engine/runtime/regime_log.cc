#include "engine/runtime/regime_log.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>

#include "engine/plan/text.h"
#include "trace/base/mutex.h"
#include "trace/base/text.h"

namespace shardscope::runtime {

// Step and flags in the first line, then one line "key<TAB>old<TAB>new" a changed key; after an
// empty one the text of a Schedule that a user has written.
std::string PrintRegime(const Regime& regime, const Regime* before) {
  const Decision& decision = regime.decision;
  std::string text = fmt::format("{}\t{:d}\t{:d}\t{:d}\n", regime.first_step, decision.stop,
                                 decision.pause, decision.checkpoint);
  for (const ChangedKey& change : decision.changed) {
    text += change.key + "\t" + change.old_value + "\t" + change.new_value + "\n";
  }
  const bool is_known = before != nullptr && before->schedule == regime.schedule;
  if (!is_known && !regime.config.Get("schedule.file").empty()) {
    text += "\n" + plan::PrintSchedule(*regime.schedule);
  }
  return text;
}

Result<Regime> ParseRegime(const std::string& text, const config::Config& before) {
  Regime regime;
  std::string_view left = text;
  std::string_view flags = TakeField(&left, '\n');
  regime.first_step = std::stoll(std::string(TakeField(&flags, '\t')));
  regime.decision.stop = TakeField(&flags, '\t') == "1";
  regime.decision.pause = TakeField(&flags, '\t') == "1";
  regime.decision.checkpoint = TakeField(&flags, '\t') == "1";
  std::map<std::string, std::string> values;
  while (!left.empty()) {
    std::string_view line = TakeField(&left, '\n');
    if (line.empty()) break;
    ChangedKey change;
    change.key = TakeField(&line, '\t');
    change.old_value = TakeField(&line, '\t');
    change.new_value = line;
    values[change.key] = change.new_value;
    regime.decision.changed.push_back(std::move(change));
  }
  regime.config = before;
  regime.config.ClearChanges();  // rank 0 decides
  SHARDSCOPE_RETURN_IF_ERROR(regime.config.SetAll(values));
  if (!left.empty()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(plan::Schedule schedule, plan::ParseSchedule(left));
    regime.schedule = std::make_shared<const plan::Schedule>(std::move(schedule));
  }
  return regime;
}

std::shared_ptr<const Regime> RegimeLog::Add(Regime regime) {
  regime.learning_rate = regime.config.GetFloat("train.lr");
  regime.checkpoint_every = regime.config.GetInt("checkpoint.every");
  regime.record_steps = config::GetRecordSteps(regime.config);
  const MutexLock lock(mutex_);
  for (const std::shared_ptr<const Regime>& other : regimes_) {
    if (other->schedule != regime.schedule && *other->schedule != *regime.schedule) continue;
    regime.schedule = other->schedule;
    break;
  }
  regime.number = static_cast<int64_t>(regimes_.size());
  regimes_.push_back(std::make_shared<const Regime>(std::move(regime)));
  return regimes_.back();
}

std::shared_ptr<const Regime> RegimeLog::At(int64_t number) const {
  const MutexLock lock(mutex_);
  return regimes_[static_cast<size_t>(number)];
}

std::shared_ptr<const Regime> RegimeLog::Newest() const {
  const MutexLock lock(mutex_);
  return regimes_.empty() ? nullptr : regimes_.back();
}

}  // namespace shardscope::runtime
