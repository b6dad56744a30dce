// The client of the control socket, over real sockets.
#include "engine/config/control_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/config/config.h"
#include "engine/config/control_socket_test_util.h"
#include "trace/base/time.h"

namespace shardscope::config {
namespace {

using testing::HasSubstr;

class ControlClientSocket : public ControlSocket {};

std::optional<Response> WaitForResponse(ControlClient* client) {
  const int64_t deadline_ns = MonotonicNs() + kPatienceNs;
  while (MonotonicNs() < deadline_ns) {
    if (auto response = client->Poll()) return response;
    SleepUntilNs(MonotonicNs() + kNsPerMs);
  }
  return std::nullopt;
}

TEST_F(ControlClientSocket, TheClientSendsAndPolls) {
  auto client = ControlClient::Connect(WriteRun());
  ASSERT_TRUE(client.ok()) << client.message();
  const int64_t first = (*client)->Send(DoRequest{Action::kPause});
  const int64_t second = (*client)->Send(SetRequest{{{"train.lr", "0.1"}}});
  EXPECT_NE(first, second);
  for (const int64_t id : {first, second}) {
    const auto response = WaitForResponse(client->get());
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->id, id);
    EXPECT_TRUE(response->ok);
  }
  EXPECT_TRUE((*client)->connected());
  EXPECT_EQ((*client)->Poll(), std::nullopt);
}

TEST_F(ControlClientSocket, ALastRequestGoesOutAlthoughTheClientIsDestroyed) {
  auto client = ControlClient::Connect(WriteRun());
  ASSERT_TRUE(client.ok()) << client.message();
  (*client)->Send(DoRequest{Action::kStop});
  client->reset();
  const int64_t deadline_ns = MonotonicNs() + kPatienceNs;
  while (NumRequests() == 0 && MonotonicNs() < deadline_ns) SleepUntilNs(MonotonicNs() + kNsPerMs);
  EXPECT_EQ(NumRequests(), 1U);
}

TEST_F(ControlClientSocket, TheClientSeesTheRunGo) {
  auto client = ControlClient::Connect(WriteRun());
  ASSERT_TRUE(client.ok()) << client.message();
  (*client)->Send(GetRequest{"status"});
  ASSERT_TRUE(WaitForResponse(client->get()).has_value());
  server_.reset();
  const int64_t deadline_ns = MonotonicNs() + kPatienceNs;
  while ((*client)->connected() && MonotonicNs() < deadline_ns)
    SleepUntilNs(MonotonicNs() + kNsPerMs);
  EXPECT_FALSE((*client)->connected());
  const int64_t id = (*client)->Send(GetRequest{"status"});
  const auto response = WaitForResponse(client->get());
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->id, id);
  EXPECT_FALSE(response->ok);
  EXPECT_THAT(response->error, HasSubstr("does not answer"));
  EXPECT_TRUE(response->has_gone);
}

TEST_F(ControlClientSocket, ConnectSaysWhyItCannot) {
  EXPECT_THAT(ControlClient::Connect(folder_).message(), HasSubstr("is no run"));
  const std::string run = WriteRun();
  server_.reset();
  EXPECT_THAT(ControlClient::Connect(run).message(), HasSubstr("does not train any more"));
  Config config;
  config.SetControlSocket("/tmp/" + std::string(200, 'x'));
  std::ofstream(folder_ + "/run.toml") << PrintToml(config);
  EXPECT_THAT(ControlClient::Connect(run).message(), HasSubstr("107"));
}

}  // namespace
}  // namespace shardscope::config
