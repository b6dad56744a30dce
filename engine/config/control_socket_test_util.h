// For tests of the control socket: a server over a real socket, and a client as plain as a
// script's.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/control_server.h"
#include "engine/config/socket_io.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::config {

inline constexpr int64_t kPatienceNs = 60 * kNsPerSecond;

// A plain client, as a script would be: blocking, with a limit after which the test fails.
class RawClient {
 public:
  explicit RawClient(const std::string& path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    const sockaddr_un address = *AddressOf(path);
    const timeval limit = {.tv_sec = kPatienceNs / kNsPerSecond, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    is_connected_ =
        connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool is_connected() const { return is_connected_; }
  // False: the server has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }
  // Without its newline; "<closed>" at the end.
  std::string Line() {
    while (true) {
      const size_t newline = pending_.find('\n');
      if (newline != std::string::npos) {
        std::string line = pending_.substr(0, newline);
        pending_.erase(0, newline + 1);
        return line;
      }
      char bytes[4096];
      const ssize_t count = recv(socket_.get(), bytes, sizeof(bytes), 0);
      if (count <= 0) return "<closed>";
      pending_.append(bytes, static_cast<size_t>(count));
    }
  }
  void CloseWriting() { shutdown(socket_.get(), SHUT_WR); }
  void Close() { socket_.Close(); }

 private:
  Descriptor socket_;
  std::string pending_;
  bool is_connected_ = false;
};

// A server in a folder of its own; it answers every request with how many came so far.
class ControlSocket : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "control_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    Start();
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start(int64_t patience_ns = kControlPatienceNs) {
    const auto handler = [this](const Request& request) {
      const MutexLock lock(mutex_);
      requests_.push_back(request);
      return Response{.id = 999, .ok = true, .applies_at = static_cast<int64_t>(requests_.size())};
    };
    auto server = ControlServer::Listen("lesson", handler, patience_ns);
    ASSERT_TRUE(server.ok()) << server.message();
    server_ = std::move(*server);
  }
  std::string WriteRun() {
    Config config;
    config.SetControlSocket(server_->socket_path());
    std::ofstream(folder_ + "/run.toml") << PrintToml(config);
    return folder_;
  }
  size_t NumRequests() {
    const MutexLock lock(mutex_);
    return requests_.size();
  }

  std::string folder_;
  Mutex mutex_;
  std::vector<Request> requests_;  // guarded by mutex_
  std::unique_ptr<ControlServer> server_;
};

}  // namespace shardscope::config
