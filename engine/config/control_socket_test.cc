// The server of the control socket, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/config/control_server.h"
#include "engine/config/control_socket_test_util.h"
#include "trace/base/time.h"

namespace shardscope::config {
namespace {

using testing::HasSubstr;

// One request and its answer: the server is alive and nothing was harmed.
void ExpectServed(const std::string& path) {
  RawClient client(path);
  ASSERT_TRUE(client.is_connected());
  EXPECT_TRUE(ParseHello(client.Line()).ok());
  ASSERT_TRUE(client.Send("{\"id\":42,\"get\":\"status\"}\n"));
  const auto response = ParseResponse(client.Line());
  ASSERT_TRUE(response.ok()) << response.message();
  EXPECT_EQ(response->id, 42);
  EXPECT_TRUE(response->ok);
}

TEST_F(ControlSocket, LiesInTheRuntimeFolderForItsOwnerOnlyAndGoesWithTheServer) {
  const std::string path = server_->socket_path();
  EXPECT_TRUE(path.starts_with(folder_ + "/"));
  struct stat facts = {};
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777U, 0600U);
  server_.reset();
  EXPECT_NE(stat(path.c_str(), &facts), 0);
}

TEST_F(ControlSocket, APrivateFolderIsMadeWhereThereIsNoUsableRuntimeFolder) {
  const std::string long_folder = folder_ + "/" + std::string(100, 'x');
  std::filesystem::create_directory(long_folder);
  for (const std::string& runtime : {std::string("/nonexistent"), std::string(""), long_folder}) {
    setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
    Start();
    const std::filesystem::path path = server_->socket_path();
    EXPECT_LE(path.string().size(), kMaxSocketPath);
    struct stat facts = {};
    ASSERT_EQ(stat(path.parent_path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777U, 0700U);
    ExpectServed(path);
    server_.reset();
    EXPECT_FALSE(std::filesystem::exists(path.parent_path()));
  }
}

// A socket as a killed process leaves it: nothing listens.
void LeaveSocket(const std::string& path) {
  const auto address = AddressOf(path);
  const auto socket = NewSocket();
  ASSERT_EQ(bind(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)), 0);
}

TEST_F(ControlSocket, WhatKilledProcessesLeftGoesWhenTheNextStarts) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const std::string dead = folder_ + "/shardscope-" + std::to_string(child) + "-";
  const std::string alive = folder_ + "/shardscope-" + std::to_string(getpid()) + "-";
  for (const std::string& owner : {dead, alive}) {
    LeaveSocket(owner + "0.sock");
    std::filesystem::create_directory(owner + "aB3dEf");
    LeaveSocket(owner + "aB3dEf/shardscope-" + std::to_string(child) + "-0.sock");
  }
  std::filesystem::create_directory(dead + "notes");
  std::ofstream(dead + "notes/mine.txt") << "not ours";
  // In the runtime folder, and where there is none.
  Start();
  setenv("XDG_RUNTIME_DIR", "", 1);
  setenv("TMPDIR", folder_.c_str(), 1);
  Start();
  unsetenv("TMPDIR");
  EXPECT_FALSE(std::filesystem::exists(dead + "0.sock"));
  EXPECT_FALSE(std::filesystem::exists(dead + "aB3dEf"));
  EXPECT_TRUE(std::filesystem::exists(alive + "0.sock"));
  EXPECT_TRUE(std::filesystem::exists(alive + "aB3dEf"));
  EXPECT_TRUE(std::filesystem::exists(dead + "notes/mine.txt"));
}

TEST_F(ControlSocket, TwoServersOfOneProcessHaveTwoSockets) {
  const auto other = ControlServer::Listen("b", [](const Request&) { return Response(); });
  ASSERT_TRUE(other.ok()) << other.message();
  EXPECT_NE((*other)->socket_path(), server_->socket_path());
}

TEST_F(ControlSocket, AnswersCarryTheIdOfTheirRequestAndComeInOrder) {
  RawClient client(server_->socket_path());
  EXPECT_EQ(*ParseHello(client.Line()), "lesson");
  client.Send("{\"id\":1,\"do\":\"pause\"}\n{\"id\":2,\"set\":{\"train.lr\":0.1}}\n{\"id\":3,\"g");
  client.Send("et\":\"status\"}\n");
  for (const int64_t id : {1, 2, 3}) {
    const auto response = ParseResponse(client.Line());
    ASSERT_TRUE(response.ok()) << response.message();
    EXPECT_EQ(response->id, id);
    EXPECT_EQ(response->applies_at, id);
  }
}

TEST_F(ControlSocket, GarbageGetsAnErrorAndTheConnectionGoesOn) {
  RawClient client(server_->socket_path());
  client.Line();
  const std::vector<std::string> garbage = {"hello", "", "GET / HTTP/1.1\r",
                                            std::string("\0\x01\xff", 3),
                                            "{\"id\":7,\"do\":\"explode\"}"};
  for (const std::string& line : garbage) {
    ASSERT_TRUE(client.Send(line + "\n"));
    const auto response = ParseResponse(client.Line());
    ASSERT_TRUE(response.ok()) << response.message();
    EXPECT_FALSE(response->ok);
    EXPECT_FALSE(response->error.empty());
    EXPECT_EQ(response->id, line.starts_with("{\"id\":7") ? 7 : -1);
  }
  ASSERT_TRUE(client.Send("{\"id\":1,\"do\":\"pause\"}\n"));
  EXPECT_TRUE(ParseResponse(client.Line())->ok);
  EXPECT_EQ(NumRequests(), 1U);
}

TEST_F(ControlSocket, AHalfLineIsNeverARequest) {
  RawClient client(server_->socket_path());
  client.Line();
  client.Send("{\"id\":1,\"do\":\"stop\"}");  // no newline
  client.Close();
  ExpectServed(server_->socket_path());
  EXPECT_EQ(NumRequests(), 1U);
}

TEST_F(ControlSocket, AClientThatOnlyStopsWritingStillGetsItsAnswer) {
  RawClient client(server_->socket_path());
  client.Line();
  client.Send("{\"id\":1,\"do\":\"pause\"}\n");
  client.CloseWriting();
  EXPECT_TRUE(ParseResponse(client.Line())->ok);
  EXPECT_EQ(client.Line(), "<closed>");
}

TEST_F(ControlSocket, ALineOfTwoMegabytesIsRefusedAndTheConnectionClosed) {
  RawClient client(server_->socket_path());
  client.Line();
  client.Send(std::string(2 << 20, 'x'));  // may fail half-way: the server closes
  const auto response = ParseResponse(client.Line());
  ASSERT_TRUE(response.ok()) << response.message();
  EXPECT_THAT(response->error, HasSubstr("at most 1048576 bytes"));
  EXPECT_EQ(client.Line(), "<closed>");
  ExpectServed(server_->socket_path());
}

TEST_F(ControlSocket, AHundredClientsAreServedOrToldWhyNot) {
  std::vector<std::unique_ptr<RawClient>> clients;
  int num_served = 0;
  int num_refused = 0;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->socket_path()));
    ASSERT_TRUE(clients.back()->is_connected());
  }
  for (const auto& client : clients) {
    const std::string line = client->Line();
    if (ParseHello(line).ok()) {
      ++num_served;
      EXPECT_TRUE(client->Send("{\"id\":1,\"get\":\"status\"}\n"));
      EXPECT_TRUE(ParseResponse(client->Line())->ok);
    } else {
      ++num_refused;
      EXPECT_THAT(ParseResponse(line)->error, HasSubstr("64 clients"));
    }
  }
  EXPECT_EQ(num_served, 64);
  EXPECT_EQ(num_refused, 36);
  clients.clear();
  // The server notices the hang-ups in its own time; a refusal until then is right.
  const int64_t deadline_ns = MonotonicNs() + kPatienceNs;
  bool is_served = false;
  while (!is_served && MonotonicNs() < deadline_ns)
    is_served = ParseHello(RawClient(server_->socket_path()).Line()).ok();
  EXPECT_TRUE(is_served);
}

TEST_F(ControlSocket, ConcurrentClientsGetTheirOwnAnswers) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 50; ++i) {
    threads.emplace_back([this, i] {
      RawClient client(server_->socket_path());
      ASSERT_TRUE(ParseHello(client.Line()).ok());
      for (int k = 0; k < 20; ++k) {
        const int64_t id = i * 1000 + k;
        client.Send(PrintRequest({.id = id, .body = GetRequest{"status"}}));
        EXPECT_EQ(ParseResponse(client.Line())->id, id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(NumRequests(), 50U * 20U);
}

TEST_F(ControlSocket, AClientThatNeverReadsHarmsNobody) {
  RawClient deaf(server_->socket_path());
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i)
      if (!deaf.Send(std::string(65536, '\n'))) break;
  });
  for (int i = 0; i < 5; ++i) ExpectServed(server_->socket_path());
  writer.join();  // the server let the client go, or took it all
  ExpectServed(server_->socket_path());
}

// Every kind of bad line, many times over one connection: one error each, in order, and the lines
// between them are served.
TEST_F(ControlSocket, EveryBadLineGetsOneError) {
  const std::vector<std::string> bad = {
      std::string(200000, '['),
      "{\"id\":" + std::string(50000, '9') + ",\"do\":\"stop\"}",
      "{\"id\":1e999,\"do\":\"stop\"}",
      "{\"id\":-99999999999999999999,\"do\":\"stop\"}",
      "{\"id\":1,\"set\":{\"train.lr\":1e999}}",
      "{\"id\":1,\"do\":\"\xff\xfe\"}",
      "{\"id\":1,\"set\":{\"\xc3\x28\":1}}",
      "{\"id\":1,\"do\":\"stop\"}}",
      std::string("{\"id\":1,\"do\":\"sto\0p\"}", 21),
      std::string("\x7f"
                  "ELF\x02\x01\x01\0\0\0",
                  10),
      "\xef\xbb\xbf",
      "{\"id\":1,\"set\":" +
          [] {
            std::string deep;
            for (int i = 0; i < 50000; ++i) deep += "{\"a\":";
            return deep + "1" + std::string(50000, '}');
          }() +
          "}",
      std::string(kMaxLineBytes, ' '),
  };
  RawClient client(server_->socket_path());
  client.Line();
  for (const std::string& line : bad) {
    ASSERT_TRUE(client.Send(line + "\n{\"id\":5,\"get\":\"status\"}\n"));
    const auto error = ParseResponse(client.Line());
    ASSERT_TRUE(error.ok()) << line.substr(0, 40);
    EXPECT_FALSE(error->ok) << line.substr(0, 40);
    EXPECT_LT(error->error.size(), 500U) << line.substr(0, 40);
    const auto good = ParseResponse(client.Line());
    ASSERT_TRUE(good.ok()) << line.substr(0, 40);
    EXPECT_TRUE(good->ok && good->id == 5) << line.substr(0, 40);
  }
  EXPECT_EQ(NumRequests(), bad.size());
}

TEST_F(ControlSocket, TheSameIdTwiceIsTwoRequests) {
  RawClient client(server_->socket_path());
  client.Line();
  client.Send("{\"id\":3,\"do\":\"pause\"}\n{\"id\":3,\"do\":\"pause\"}\n");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ParseResponse(client.Line())->id, 3);
  EXPECT_EQ(NumRequests(), 2U);
}

TEST_F(ControlSocket, ClientsThatVanishHalfWayLeaveNothingBehind) {
  const auto num_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  ExpectServed(server_->socket_path());
  const auto before = num_files();
  for (int i = 0; i < 300; ++i) {
    RawClient client(server_->socket_path());
    if (i % 3 == 0) client.Send("{\"id\":1,\"get\":\"status\"}\n{\"id\":2,\"ge");
    if (i % 3 == 1) client.Send(std::string(100000, 'x'));
  }
  // Clients are accepted in the order they came: once this one is served, none of them waits.
  ExpectServed(server_->socket_path());
  const int64_t deadline_ns = MonotonicNs() + kPatienceNs;
  auto after = num_files();
  while (after > before && MonotonicNs() < deadline_ns) {
    SleepUntilNs(MonotonicNs() + 10 * kNsPerMs);
    after = num_files();
  }
  EXPECT_LE(after, before);
  ExpectServed(server_->socket_path());
}

// They keep every place and say nothing; the one that has asked something stays.
TEST_F(ControlSocket, SilentClientsMakeRoomForOthers) {
  constexpr int64_t kSilenceNs = 300 * kNsPerMs;
  Start(kSilenceNs);
  const int64_t begin_ns = MonotonicNs();
  RawClient good(server_->socket_path());
  good.Line();
  good.Send("{\"id\":1,\"get\":\"status\"}\n");
  EXPECT_TRUE(ParseResponse(good.Line())->ok);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 63; ++i) {
    silent.push_back(std::make_unique<RawClient>(server_->socket_path()));
    ASSERT_TRUE(ParseHello(silent.back()->Line()).ok());
  }
  // Unless this machine took so long that the first of them has had its time already.
  const bool is_refused = !ParseHello(RawClient(server_->socket_path()).Line()).ok();
  EXPECT_TRUE(is_refused || MonotonicNs() - begin_ns >= kSilenceNs);
  const int64_t deadline_ns = MonotonicNs() + kPatienceNs;
  bool is_served = false;
  while (!is_served && MonotonicNs() < deadline_ns) {
    is_served = ParseHello(RawClient(server_->socket_path()).Line()).ok();
    SleepUntilNs(MonotonicNs() + 100 * kNsPerMs);
  }
  EXPECT_TRUE(is_served);
  good.Send("{\"id\":2,\"get\":\"status\"}\n");
  EXPECT_EQ(ParseResponse(good.Line())->id, 2);
}

}  // namespace
}  // namespace shardscope::config
