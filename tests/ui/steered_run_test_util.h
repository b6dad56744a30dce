// For tests of what steers a training: a run that takes all it is asked for, without a training.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/control.h"
#include "engine/config/control_server.h"
#include "tests/ui/harness.h"
#include "trace/base/mutex.h"
#include "trace/query/trace_test_util.h"
#include "ui/values.h"

namespace shardscope::ui_test {

inline constexpr double kSteeredSeconds = 30;  // of the worst machine

// As a request of the control socket has it.
inline std::string NameOfAsked(config::Action action) {
  switch (action) {
    case config::Action::kPause:
      return "pause";
    case config::Action::kResume:
      return "resume";
    case config::Action::kStep:
      return "step";
    case config::Action::kStop:
      return "stop";
    case config::Action::kCheckpoint:
      return "checkpoint";
  }
  return "";
}

// A live run of four steps.
class SteeredRunTest : public testing::Test {
 protected:
  SteeredRunTest() : recorder_(query::OpenRecorder(folder_.path())) {
    constexpr int64_t kMs = 1'000'000;
    const query::PlanOpId op = query::AddPlanOp(recorder_.get(), "f", "forward", "compute");
    for (int64_t step = 0; step < 4; ++step) {
      const int64_t start_ns = (step + 1) * 10 * kMs;
      recorder_->Record(query::OpAt(op, 0, step, start_ns, start_ns + 8 * kMs));
      schema::StepRow row;
      row.step = step;
      row.start_ns = start_ns;
      row.end_ns = start_ns + 10 * kMs;
      recorder_->Record(row);
    }
  }
  void SetUp() override {
    {
      const MutexLock lock(mutex_);
      status_.state = config::RunState::kTraining;
      status_.values = config::Config().Values();
    }
    auto server = config::ControlServer::Listen(
        "steered", [this](const config::Request& request) { return Answer(request); });
    ASSERT_TRUE(server.ok()) << server.message();
    server_ = std::move(server).value();
    config::Config config;
    config.SetControlSocket(server_->socket_path());
    std::ofstream(folder_.path() + "/run.toml") << config::PrintToml(config);
    ASSERT_TRUE(harness_.shell().Open(folder_.path()).ok());
    ASSERT_TRUE(harness_.Until(
        [&] {
          const ui::Context& context = harness_.context();
          return ui::CanSteer(context) && !context.control.status.values.empty() &&
                 context.snapshot->ranks.size() == 1 &&
                 context.snapshot->ranks[0].steps.size() == 4;
        },
        kSteeredSeconds));
  }

  config::Response Answer(const config::Request& request) {
    const MutexLock lock(mutex_);
    config::Response response{.id = request.id, .ok = true};
    if (const auto* set = std::get_if<config::SetRequest>(&request.body)) {
      if (!refusal_.empty()) {
        response.ok = false;
        response.error = refusal_;
        return response;
      }
      for (const auto& [key, value] : set->values) {
        asked_.push_back(key + "=" + value);
        if (!waits_) {
          status_.values[key] = value;
        } else if (status_.values[key] == value) {
          status_.pending.erase(key);
        } else {
          status_.pending[key] = value;
        }
      }
      response.applies_at = 4;
    } else if (const auto* action = std::get_if<config::DoRequest>(&request.body)) {
      asked_.push_back(NameOfAsked(action->action));
    } else {
      response.has_status = true;
      response.status = status_;
    }
    return response;
  }
  // Of all requests that came.
  std::vector<std::string> Asked() {
    const MutexLock lock(mutex_);
    return asked_;
  }
  bool WaitForAsked(const std::vector<std::string>& wanted) {
    return harness_.Until([&] { return Asked().size() >= wanted.size(); }, kSteeredSeconds) &&
           Asked() == wanted;
  }
  // From now on nothing that is asked for comes into force.
  void LetAskedWait() {
    const MutexLock lock(mutex_);
    waits_ = true;
  }
  // From now on every value that is asked for is refused, for this reason; empty: none is.
  void RefuseAsked(std::string why) {
    const MutexLock lock(mutex_);
    refusal_ = std::move(why);
  }
  // What it says of itself from now on; once the app knows.
  bool WaitForState(config::RunState state) {
    {
      const MutexLock lock(mutex_);
      status_.state = state;
    }
    return harness_.Until([&] { return harness_.context().control.status.state == state; },
                          kSteeredSeconds);
  }

  query::TestFolder folder_;
  std::unique_ptr<record::Recorder> recorder_;
  Mutex mutex_;
  std::vector<std::string> asked_ GUARDED_BY(mutex_);
  config::RunStatus status_ GUARDED_BY(mutex_);
  bool waits_ GUARDED_BY(mutex_) = false;
  std::string refusal_ GUARDED_BY(mutex_);
  std::unique_ptr<config::ControlServer> server_;
  Harness harness_{{}, {}, /*log_widgets=*/true};
};

}  // namespace shardscope::ui_test
