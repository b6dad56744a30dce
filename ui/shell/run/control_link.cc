#include "ui/shell/run/control_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace shardscope::shell {
namespace {

constexpr double kStatusSeconds = 0.25;
constexpr double kReconnectSeconds = 1;

}  // namespace

ControlLink::ControlLink(std::string run_folder) : run_folder_(std::move(run_folder)) {}

void ControlLink::Connect(double now_seconds) {
  if (connecting_.valid()) {
    if (connecting_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    auto result = connecting_.get();
    if (result.ok()) {
      client_ = std::move(result).value();
      state_.error.clear();
      next_status_seconds_ = 0;
    } else {
      next_connect_seconds_ = now_seconds + kReconnectSeconds;
    }
    return;
  }
  if (now_seconds < next_connect_seconds_) return;
  // Connecting reads run.toml and waits for the hello: not on a frame's time.
  connecting_ = std::async(std::launch::async, [folder = run_folder_] {
    return config::ControlClient::Connect(folder);
  });
}

void ControlLink::Take(const config::Response& response) {
  if (response.has_status) {
    // Before the first status nothing is known: a knob that is turned would have no value to go
    // back to.
    state_.status = response.status;
    state_.connection = ui::ConnectionState::kConnected;
  }
  const auto asked = asked_.find(response.id);
  if (asked != asked_.end()) {
    for (const auto& [key, value] : asked->second) {
      const auto unsent = state_.unsent.find(key);
      if (unsent != state_.unsent.end() && unsent->second == value) state_.unsent.erase(unsent);
      if (response.ok) {
        state_.status.pending[key] = value;
        state_.refused.erase(key);
      } else if (!response.has_gone) {
        state_.refused[key] = response.error;
      }
    }
    if (response.ok) {
      state_.status.pending_step = response.applies_at;
      state_.error.clear();
    }
    asked_.erase(asked);
    next_status_seconds_ = 0;
  }
  // That it has gone, kLost says.
  if (!response.ok) state_.error = response.has_gone ? std::string() : response.error;
}

void ControlLink::Update(double now_seconds, bool live) {
  if (client_ == nullptr) {
    if (live) Connect(now_seconds);
    return;
  }
  while (const auto response = client_->Poll()) Take(*response);
  FindUndoable();
  if (!client_->connected()) {
    client_.reset();
    asked_.clear();
    state_.unsent.clear();
    state_.status.pending.clear();
    state_.connection = ui::ConnectionState::kLost;
    next_connect_seconds_ = now_seconds + kReconnectSeconds;
    return;
  }
  if (now_seconds >= next_status_seconds_) {
    client_->Send(config::GetRequest{"status"});
    next_status_seconds_ = now_seconds + kStatusSeconds;
  }
}

void ControlLink::SendSet(const std::map<std::string, std::string>& values) {
  if (client_ == nullptr || values.empty()) return;
  asked_[client_->Send(config::SetRequest{values})] = values;
  for (const auto& [key, value] : values) {
    state_.unsent[key] = value;
    state_.refused.erase(key);
  }
}

std::string ControlLink::ValueOf(const std::string& key) const {
  for (const auto* values : {&state_.unsent, &state_.status.pending, &state_.status.values}) {
    const auto value = values->find(key);
    if (value != values->end()) return value->second;
  }
  return "";
}

void ControlLink::SetKnob(const std::string& key, const std::string& value) {
  const std::string from = ValueOf(key);
  const ui::TurnedKnob* last = turned_.empty() ? nullptr : &turned_.back();
  if (last != nullptr && last->key == key && last->from == value && last->to == from) {
    turned_.pop_back();  // taken back by hand
  } else if (from != value) {
    turned_.push_back({key, from, value});
  }
  SendSet({{key, value}});
  FindUndoable();
}

void ControlLink::FindUndoable() {
  // One that was refused, or turned elsewhere since, is not where it was turned to.
  const auto last =
      std::find_if(turned_.rbegin(), turned_.rend(),
                   [this](const ui::TurnedKnob& knob) { return ValueOf(knob.key) == knob.to; });
  state_.undoable = last == turned_.rend() ? std::nullopt : std::optional(*last);
}

std::optional<ui::TurnedKnob> ControlLink::UndoKnob() {
  FindUndoable();
  const std::optional<ui::TurnedKnob> last = state_.undoable;
  if (!last) return std::nullopt;
  while (turned_.back() != *last) turned_.pop_back();
  turned_.pop_back();
  SendSet({{last->key, last->from}});
  FindUndoable();
  return last;
}

void ControlLink::RevertPending() {
  std::map<std::string, std::string> back;
  for (const auto* pending : {&state_.status.pending, &state_.unsent}) {
    for (const auto& [key, value] : *pending) {
      const auto in_force = state_.status.values.find(key);
      if (in_force != state_.status.values.end()) back[key] = in_force->second;
    }
  }
  SendSet(back);
}

void ControlLink::Do(config::Action action) {
  if (client_ == nullptr) return;
  client_->Send(config::DoRequest{action});
  next_status_seconds_ = 0;
}

}  // namespace shardscope::shell
