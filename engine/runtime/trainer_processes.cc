// What the processes of one run tell one another, where each rank has its own: rank 0's process is
// the leader, which has folder, control socket, log and markers; the others follow.
#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

#include "engine/runtime/live_trainer.h"
#include "engine/transport/between_steps.h"
#include "trace/base/text.h"

namespace shardscope::runtime {
namespace {

// Keys that may differ: the leader alone has a socket.
bool IsShared(const std::string& key) { return key != "run.control_socket"; }

}  // namespace

// Paths and values are single lines.
Status LiveTrainer::AgreeOnRun() {
  if (!has_processes()) return Status::Ok();
  std::string text;
  if (is_leader()) text = folder_->path() + "\n" + run_id_ + "\n";
  if (is_leader()) {
    for (const auto& [key, value] : options_.config.Values()) {
      if (IsShared(key)) text += key + "=" + value + "\n";
    }
  }
  const int rank = options_.launch->rank;
  text = transport::BroadcastText(&ranks_->transport(), ranks_->size(), rank, text);
  if (!is_leader()) SHARDSCOPE_RETURN_IF_ERROR(TakeRun(text));
  // None begins before all have agreed.
  transport::Barrier(&ranks_->transport(), rank);
  return Status::Ok();
}

// What the leader says of the run, where this process follows.
Status LiveTrainer::TakeRun(std::string_view text) {
  const std::string path(TakeField(&text, '\n'));
  run_id_ = TakeField(&text, '\n');
  for (const auto& [key, value] : options_.config.Values()) {
    if (!IsShared(key)) continue;
    const std::string mine = key + "=" + value;
    const std::string leaders(TakeField(&text, '\n'));
    if (mine != leaders) {
      return Status::Error(fmt::format(
          "rank {} was given {}, rank 0 {}: all processes of a run need the same settings",
          options_.launch->rank, mine, leaders));
    }
  }
  Result<RunFolder> folder = RunFolder::Attach(path);
  if (!folder.ok()) return folder.status();
  folder_ = std::move(folder).value();
  return Status::Ok();
}

// All processes hear of all regimes, in order: what they count is the same everywhere.
void LiveTrainer::AgreeOnRegime(int rank, int64_t number) {
  if (!has_processes() || number < num_agreed_) return;
  ++num_agreed_;
  const std::string mine = is_leader() ? PrintRegime(*regimes_.At(number)) : "";
  const std::string text =
      transport::BroadcastText(&ranks_->transport(), ranks_->size(), rank, mine);
  if (is_leader()) return;
  const std::shared_ptr<const Regime> before = regimes_.Newest();
  Result<Regime> regime = ParseRegime(text, before == nullptr ? options_.config : before->config);
  if (!regime.ok()) throw std::runtime_error(regime.message());
  // Built from the same keys as the leader's, hence the same.
  Result<std::shared_ptr<const plan::Schedule>> schedule = ScheduleOf(regime->config);
  if (!schedule.ok()) throw std::runtime_error(schedule.message());
  regime->schedule = *schedule;
  regimes_.Add(std::move(regime).value());
}

}  // namespace shardscope::runtime
