#include "engine/config/control_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "engine/config/config.h"
#include "engine/config/socket_io.h"
#include "trace/base/mutex.h"
#include "trace/base/process.h"

namespace shardscope::config {
namespace {

constexpr const char* kGone = "the run does not answer any more: it has ended, or was ended";

class SocketClient : public ControlClient {
 public:
  explicit SocketClient(Descriptor socket)
      : socket_(std::move(socket)), thread_(ThreadWithoutSignals([this] { Run(); })) {}

  ~SocketClient() override {
    stopping_ = true;
    wake_.Raise();
    thread_.join();
  }

  int64_t Send(const std::variant<SetRequest, DoRequest, GetRequest>& body) override;
  std::optional<Response> Poll() override;
  bool connected() const override { return connected_; }

 private:
  void Run();
  bool Exchange();  // one round of poll; false: the other end has gone
  bool TakeLine(const std::string& line);
  void Disconnect();

  const Descriptor socket_;
  WakeUp wake_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> connected_{true};

  // Socket thread only.
  LineBuffer lines_{kMaxLineBytes};
  std::string sending_;
  bool was_greeted_ = false;
  std::string refusal_;  // why the server serves no more; empty: it has gone

  Mutex mutex_;
  int64_t next_id_ GUARDED_BY(mutex_) = 1;
  std::string queued_ GUARDED_BY(mutex_);  // requests that the socket thread has not taken yet
  std::set<int64_t> unanswered_
      GUARDED_BY(mutex_);  // each gets one response, if only that the run has gone
  std::deque<Response> responses_ GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of this
};

int64_t SocketClient::Send(const std::variant<SetRequest, DoRequest, GetRequest>& body) {
  const MutexLock lock(mutex_);
  const int64_t id = next_id_++;
  if (!connected_) {
    responses_.push_back({.id = id, .ok = false, .error = kGone, .has_gone = true});
    return id;
  }
  unanswered_.insert(id);
  queued_ += PrintRequest({.id = id, .body = body});
  wake_.Raise();
  return id;
}

std::optional<Response> SocketClient::Poll() {
  const MutexLock lock(mutex_);
  if (responses_.empty()) return std::nullopt;
  Response response = std::move(responses_.front());
  responses_.pop_front();
  return response;
}

void SocketClient::Run() {
  while (!stopping_ && Exchange()) {
  }
  {
    // What was sent just before this client was destroyed, as a last "stop", still goes out.
    const MutexLock lock(mutex_);
    sending_ += std::exchange(queued_, "");
  }
  WriteAvailable(socket_.get(), &sending_);
  Disconnect();
}

bool SocketClient::Exchange() {
  const int events = POLLIN | (sending_.empty() ? 0 : POLLOUT);
  pollfd waits[2] = {{.fd = wake_.fd(), .events = POLLIN},
                     {.fd = socket_.get(), .events = static_cast<int16_t>(events)}};
  if (poll(waits, 2, -1) < 0) return errno == EINTR;
  if ((waits[0].revents & POLLIN) != 0) {
    wake_.Lower();
    const MutexLock lock(mutex_);
    sending_ += std::exchange(queued_, "");
  }
  bool is_open = true;
  if ((waits[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
    is_open = ReadAvailable(socket_.get(), &lines_) == ReadState::kOpen;
  while (const auto line = lines_.NextLine())
    if (!TakeLine(*line)) return false;
  if (lines_.overflown()) return false;
  return is_open && WriteAvailable(socket_.get(), &sending_);
}

bool SocketClient::TakeLine(const std::string& line) {
  if (!was_greeted_) {
    const auto hello = ParseHello(line);
    // Instead of a greeting a full server says why it serves no more.
    const auto refusal = ParseResponse(line);
    if (!hello.ok()) refusal_ = refusal.ok() ? refusal->error : hello.message();
    was_greeted_ = hello.ok();
    return was_greeted_;
  }
  auto response = ParseResponse(line);
  if (!response.ok()) return true;  // a newer run's line of a kind we do not know
  const MutexLock lock(mutex_);
  unanswered_.erase(response->id);
  responses_.push_back(std::move(*response));
  return true;
}

void SocketClient::Disconnect() {
  const MutexLock lock(mutex_);
  connected_ = false;
  const bool has_gone = refusal_.empty();
  for (const int64_t id : unanswered_) {
    responses_.push_back(
        {.id = id, .ok = false, .error = has_gone ? kGone : refusal_, .has_gone = has_gone});
  }
  unanswered_.clear();
}

}  // namespace

Result<std::unique_ptr<ControlClient>> ControlClient::Connect(const std::string& run_folder) {
  const auto path = ReadControlSocket(run_folder + "/run.toml");
  if (!path.ok()) return Status::Error(fmt::format("{} is no run: {}", run_folder, path.message()));
  const auto address = AddressOf(*path);
  if (!address.ok()) return address.status();
  auto socket = NewSocket();
  if (!socket.ok()) return socket.status();
  if (connect(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    const bool is_gone = errno == ENOENT || errno == ECONNREFUSED;
    return Status::Error(
        fmt::format("cannot steer {}: {}", run_folder,
                    is_gone ? "it does not train any more" : std::strerror(errno)));
  }
  return std::unique_ptr<ControlClient>(std::make_unique<SocketClient>(std::move(*socket)));
}

}  // namespace shardscope::config
