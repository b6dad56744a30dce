// What the processes of one run tell one another, where each rank has its own: rank 0's process is
// the leader, which has folder, control socket, log and markers; the others follow.
#include <fmt/format.h>

#include <string_view>

#include "engine/runtime/live_trainer.h"
#include "engine/transport/between_steps.h"
#include "trace/base/text.h"

namespace shardscope::runtime {
namespace {

// Keys that may differ: the leader alone has a socket.
bool IsShared(const std::string& key) { return key != "run.control_socket"; }

// Takes the part of `text` before `separator` away from it.
std::string_view TakeField(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view field = text->substr(0, end);
  *text = end == std::string_view::npos ? std::string_view() : text->substr(end + 1);
  return field;
}

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
  ranks_->transport().Broadcast(rank, 0);
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
  const std::string mine = is_leader() ? Printed(*RegimeAt(number)) : "";
  const std::string text =
      transport::BroadcastText(&ranks_->transport(), ranks_->size(), rank, mine);
  if (!is_leader()) AddRegime(Parsed(text));
}

// Flags and step in the first line, then one line "key<TAB>old<TAB>new" a changed key.
std::string LiveTrainer::Printed(const Regime& regime) const {
  const Decision& decision = regime.decision;
  std::string text = fmt::format("{}\t{:d}\t{:d}\t{:d}\n", regime.first_step, decision.stop,
                                 decision.pause, decision.checkpoint);
  for (const ChangedKey& change : decision.changed) {
    text += change.key + "\t" + change.old_value + "\t" + change.new_value + "\n";
  }
  return text;
}

std::shared_ptr<Regime> LiveTrainer::Parsed(const std::string& text) const {
  auto regime = std::make_shared<Regime>();
  std::string_view left = text;
  std::string_view flags = TakeField(&left, '\n');
  regime->first_step = std::stoll(std::string(TakeField(&flags, '\t')));
  regime->decision.stop = TakeField(&flags, '\t') == "1";
  regime->decision.pause = TakeField(&flags, '\t') == "1";
  regime->decision.checkpoint = TakeField(&flags, '\t') == "1";
  std::map<std::string, std::string> values;
  while (!left.empty()) {
    std::string_view line = TakeField(&left, '\n');
    ChangedKey change;
    change.key = TakeField(&line, '\t');
    change.old_value = TakeField(&line, '\t');
    change.new_value = line;
    values[change.key] = change.new_value;
    regime->decision.changed.push_back(std::move(change));
  }
  const bool is_first = num_agreed_ == 1;
  regime->config = is_first ? options_.config : RegimeAt(num_agreed_ - 2)->config;
  regime->config.ClearChanges();  // rank 0 decides
  const Status status = regime->config.SetAll(values);
  if (!status.ok()) throw std::runtime_error(status.message());
  // Built from the same keys as the leader's, hence the same.
  Result<std::shared_ptr<const plan::Schedule>> schedule = ScheduleOf(regime->config);
  if (!schedule.ok()) throw std::runtime_error(schedule.message());
  regime->schedule = *schedule;
  return regime;
}

}  // namespace shardscope::runtime
