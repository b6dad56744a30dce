#include "engine/runtime/run_agreement.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "engine/model/huggingface.h"
#include "engine/runtime/ranks/initial_state.h"
#include "engine/transport/between_steps.h"
#include "trace/base/text.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

// Keys that may differ: the leader alone has a socket.
bool IsShared(const std::string& key) { return key != "run.control_socket"; }

// "rms_norm_eps=1e-05 rope_theta=10000": what no key says.
std::string ModelText(const model::ModelConfig& model) {
  std::vector<std::string> fields;
  for (const auto& [name, value] : model::FieldsBesideKeys(model)) {
    fields.push_back(name + "=" + value);
  }
  return Join(fields, " ");
}

}  // namespace

// Paths and values are single lines.
Status RunAgreement::AgreeOnRun(std::optional<RunFolder>* folder) {
  if (is_leader()) run_id_ = fmt::format("{}-{:x}", (*folder)->name(), RealtimeNs());
  if (!options_.launch) return Status::Ok();
  std::string text;
  if (is_leader()) {
    text = (*folder)->path() + "\n" + run_id_ + "\n";
    for (const auto& [key, value] : options_.config.Values()) {
      if (IsShared(key)) text += key + "=" + value + "\n";
    }
    text += ModelText(run_.ranks->job().model) + "\n";
    text += run_.ranks->job().corpus->content + "\n";
  }
  const int rank = options_.launch->rank;
  transport::Transport& transport = run_.ranks->transport();
  text = transport::BroadcastText(&transport, run_.ranks->size(), rank, text);
  if (!is_leader()) SHARDSCOPE_RETURN_IF_ERROR(TakeRun(text, folder));
  // None begins before all have agreed.
  transport::Barrier(&transport, rank);
  return Status::Ok();
}

// What the leader says of the run, where this process follows.
Status RunAgreement::TakeRun(std::string_view text, std::optional<RunFolder>* folder) {
  const std::string path(TakeField(&text, '\n'));
  run_id_ = TakeField(&text, '\n');
  for (const auto& [key, value] : options_.config.Values()) {
    if (!IsShared(key)) continue;
    const std::string mine = key + "=" + value;
    const std::string leaders(TakeField(&text, '\n'));
    if (mine != leaders) {
      return Status::Error(fmt::format(
          "rank {} was given {}, rank 0 {}: all processes of a run need the same settings{}",
          options_.launch->rank, mine, leaders,
          config::FindKey(key)->is_path
              ? "; a relative path is one in the folder where a process starts: give absolute ones"
              : ""));
    }
  }
  // What a config.json says, which may be another file on another machine.
  const std::string model(TakeField(&text, '\n'));
  if (const std::string mine = ModelText(run_.ranks->job().model); mine != model) {
    return Status::Error(fmt::format(
        "rank {} has another model than rank 0 ({}; rank 0: {}): all processes of a run need the "
        "same config.json in model.path",
        options_.launch->rank, mine, model));
  }
  // Also where no key names them, or a path leads elsewhere on another machine.
  if (TakeField(&text, '\n') != run_.ranks->job().corpus->content) {
    return Status::Error(fmt::format(
        "rank {} reads other data than rank 0: all processes of a run need the same; set data.path "
        "to the absolute path of a file or folder that all of them see",
        options_.launch->rank));
  }
  Result<RunFolder> attached = RunFolder::Attach(path);
  if (!attached.ok()) return attached.status();
  *folder = std::move(attached).value();
  return Status::Ok();
}

Status RunAgreement::CheckInitialState(int rank) {
  Ranks& ranks = *run_.ranks;
  const InitialState mine = InitialStateOf(ranks.job(), rank, &ranks.work(rank));
  const Status status = CheckInitialStates(
      transport::GatherValues(&ranks.transport(), ranks.size(), rank, mine, "initial state"));
  // Those whose messages are still under way when this process goes get it so.
  if (!status.ok() && options_.launch) ranks.transport().Abort(status.message());
  return status;
}

std::shared_ptr<const Regime> RunAgreement::Agree(int rank, int64_t step) {
  const int64_t decided = rank == 0 ? Decide(step)->number : 0;
  const int64_t number = run_.ranks->transport().Broadcast(rank, decided);
  ShareRegime(rank, number);
  return regimes_.At(number);
}

// Makes a new regime if anything is different from the one before.
std::shared_ptr<const Regime> RunAgreement::Decide(int64_t step) {
  Decision decision = run_.steering->Decide(step);
  for (const std::string& refused : decision.refused) run_.on_message(refused);
  const std::shared_ptr<const Regime> before = regimes_.Newest();
  const auto has_flag = [](const Decision& d) { return d.stop || d.pause || d.checkpoint; };
  if (before != nullptr && decision.changed.empty() && !has_flag(decision) &&
      !has_flag(before->decision)) {
    return before;
  }
  Regime regime;
  regime.first_step = step;
  regime.config = run_.steering->config();
  regime.decision = std::move(decision);
  const bool has_same = before != nullptr && regime.decision.changed.empty();
  regime.schedule = has_same ? before->schedule : ScheduleOf(regime.config);
  return regimes_.Add(std::move(regime));
}

// All processes get all regimes, in order: what they count is the same everywhere.
void RunAgreement::ShareRegime(int rank, int64_t number) {
  if (!options_.launch || number < num_shared_) return;
  ++num_shared_;
  const std::shared_ptr<const Regime> last = number > 0 ? regimes_.At(number - 1) : nullptr;
  const std::string mine = is_leader() ? PrintRegime(*regimes_.At(number), last.get()) : "";
  const std::string text =
      transport::BroadcastText(&run_.ranks->transport(), run_.ranks->size(), rank, mine);
  if (is_leader()) return;
  Result<Regime> regime = ParseRegime(text, last == nullptr ? options_.config : last->config);
  if (!regime.ok()) throw std::runtime_error(regime.message());
  if (regime->schedule == nullptr) {
    const bool is_written = !regime->config.Get("schedule.file").empty();
    // A written one that is another than before was told. Any other is built from the same keys as
    // the leader's, hence the same.
    regime->schedule = is_written ? last->schedule : ScheduleOf(regime->config);
  }
  regimes_.Add(std::move(regime).value());
}

std::shared_ptr<const plan::Schedule> RunAgreement::ScheduleOf(const config::Config& config) {
  Result<std::shared_ptr<const plan::Schedule>> schedule = run_.checks->ScheduleOf(config);
  if (!schedule.ok()) throw std::runtime_error(schedule.message());
  return *schedule;
}

}  // namespace shardscope::runtime
