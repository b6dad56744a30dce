// ControlLink: the app's connection to a run's training: connects in the background while the run
// is live, keeps its status fresh, and keeps what was asked and not yet answered.
//
// Owner's thread only; ControlClient has the socket's thread.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/control_client.h"
#include "trace/base/status.h"
#include "ui/context.h"

namespace shardscope::shell {

class ControlLink {
 public:
  explicit ControlLink(std::string run_folder);

  // Once a frame: takes answers, asks for the status four times a second, connects again after a
  // second. `live`: whether the trace is still being written; a run that has ended is not called.
  void Update(double now_seconds, bool live);

  void SetKnob(const std::string& key, const std::string& value);
  // Asks for the value before the last SetKnob() whose knob still stands where that has put it
  // (state().undoable), and returns what that was; nullopt: there is none.
  std::optional<ui::TurnedKnob> UndoKnob();
  void RevertPending();  // asks for the values in force again
  void Do(config::Action action);

  const ui::ControlState& state() const { return state_; }

 private:
  void Connect(double now_seconds);
  void Take(const config::Response& response);
  void SendSet(const std::map<std::string, std::string>& values);
  // Asked for, else in force; empty: not known.
  std::string ValueOf(const std::string& key) const;
  void FindUndoable();  // of turned_, for state()

  const std::string run_folder_;
  ui::ControlState state_;
  std::future<Result<std::unique_ptr<config::ControlClient>>> connecting_;
  std::unique_ptr<config::ControlClient> client_;
  std::map<int64_t, std::map<std::string, std::string>> asked_;  // set requests without an answer
  std::vector<ui::TurnedKnob> turned_;
  double next_connect_seconds_ = 0;
  double next_status_seconds_ = 0;
};

}  // namespace shardscope::shell
