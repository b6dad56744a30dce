#include "engine/config/control_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/config/socket_io.h"
#include "trace/base/process.h"
#include "trace/base/process_id.h"
#include "trace/base/time.h"

namespace shardscope::config {
namespace {

// Where a control socket is: $XDG_RUNTIME_DIR, or a private temporary folder.
struct SocketPlace {
  std::string path;
  std::string own_folder;  // made for the socket, and removed with it; empty in $XDG_RUNTIME_DIR
};

namespace fs = std::filesystem;

// Of sockets and their folders; the process that made it follows.
constexpr std::string_view kPrefix = "shardscope-";

std::string SocketName() {
  static std::atomic<int> next_number{0};
  return fmt::format("/{}{}-{}.sock", kPrefix, getpid(), next_number++);
}

// $XDG_RUNTIME_DIR if it is there, ours and short enough.
std::string RuntimeFolder(const std::string& name) {
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  struct stat facts = {};
  if (folder == nullptr || folder[0] != '/' || stat(folder, &facts) != 0) return "";
  const bool is_usable = S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
                         access(folder, W_OK | X_OK) == 0 &&
                         std::strlen(folder) + name.size() <= kMaxSocketPath;
  return is_usable ? folder : "";
}

// "shardscope-<pid>-..." of a process that is gone.
bool IsOfDeadProcess(const std::string& name) {
  if (!name.starts_with(kPrefix)) return false;
  const char* const end = name.data() + name.size();
  pid_t process = 0;
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, process);
  if (error != std::errc() || rest == end || *rest != '-') return false;
  return IsProcessGone(process);
}

// The number of a process says nothing where containers share the folder.
bool HasListener(const std::string& path) {
  const auto address = AddressOf(path);
  const auto client = NewSocket();
  if (!address.ok() || !client.ok()) return true;
  const auto* any = reinterpret_cast<const sockaddr*>(&*address);
  return connect(client->get(), any, sizeof(*address)) == 0 || errno != ECONNREFUSED;
}

void ClearDeadSockets(const std::string& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string path = entry.path().string();
    struct stat facts = {};
    if (!IsOfDeadProcess(entry.path().filename().string()) || lstat(path.c_str(), &facts) != 0 ||
        facts.st_uid != geteuid()) {
      continue;
    }
    if (S_ISSOCK(facts.st_mode) && !HasListener(path)) unlink(path.c_str());
    if (S_ISDIR(facts.st_mode)) {
      ClearDeadSockets(path);
      rmdir(path.c_str());  // stays if anything else is in it
    }
  }
}

// A new place for a socket of this process. Clears away what killed processes of this user have
// left beside it. Error: no folder can be made.
Result<SocketPlace> ChooseSocketPlace() {
  const std::string name = SocketName();
  if (const std::string folder = RuntimeFolder(name); !folder.empty()) {
    ClearDeadSockets(folder);
    return SocketPlace{folder + name, ""};
  }
  const std::string own = fmt::format("/{}{}-XXXXXX", kPrefix, getpid());
  const char* temporary = std::getenv("TMPDIR");
  std::string parent = temporary != nullptr && temporary[0] == '/' ? temporary : "/tmp";
  if (parent.size() + own.size() + name.size() > kMaxSocketPath) parent = "/tmp";
  ClearDeadSockets(parent);
  std::string folder = parent + own;
  if (mkdtemp(folder.data()) == nullptr)  // mode 0700
    return Status::Error(
        fmt::format("no folder for the control socket: cannot make {}: {}; set XDG_RUNTIME_DIR or "
                    "TMPDIR to a folder that can be written",
                    folder, std::strerror(errno)));
  return SocketPlace{folder + name, folder};
}

void RemoveSocketPlace(const SocketPlace& place) {
  unlink(place.path.c_str());
  if (!place.own_folder.empty()) rmdir(place.own_folder.c_str());
}

constexpr size_t kMaxClients = 64;
constexpr size_t kMaxUnsentBytes = 1 << 20;  // a client that never reads is let go
constexpr int kBacklog = 128;
constexpr int kNiceness = 10;  // a flood of requests gets what training leaves over
constexpr int kLookMs = 1000;

struct Client {
  Descriptor socket;
  LineBuffer lines{kMaxLineBytes};
  std::string unsent;
  bool is_closing = false;          // once `unsent` is out; nothing more is read
  bool has_asked = false;           // a valid request
  int64_t last_ns = MonotonicNs();  // when it came, or last took some of `unsent`
};

Result<Descriptor> ListenAt(const std::string& path) {
  auto address = AddressOf(path);
  if (!address.ok()) return address.status();
  auto listener = NewSocket();
  if (!listener.ok()) return listener.status();
  // On Linux the file gets the socket's mode, so there is no moment in which others may connect.
  const bool is_listening =
      fchmod(listener->get(), 0600) == 0 &&
      bind(listener->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0 &&
      chmod(path.c_str(), 0600) == 0 && listen(listener->get(), kBacklog) == 0;
  if (!is_listening)
    return Status::Error(
        fmt::format("cannot listen at the control socket {}: {}", path, std::strerror(errno)));
  return listener;
}

class PollServer : public ControlServer {
 public:
  PollServer(std::string run, Handler handler, SocketPlace place, Descriptor listener,
             int64_t patience_ns)
      : run_(std::move(run)),
        handler_(std::move(handler)),
        place_(std::move(place)),
        listener_(std::move(listener)),
        patience_ns_(patience_ns) {
    try {
      thread_ = ThreadWithoutSignals([this] { Serve(); });
    } catch (const std::system_error&) {
      RemoveSocketPlace(place_);
      throw;
    }
  }

  ~PollServer() override {
    stopping_ = true;
    wake_.Raise();
    thread_.join();
    RemoveSocketPlace(place_);
  }

  const std::string& socket_path() const override { return place_.path; }

 private:
  void Serve();
  void Accept();
  void LetGo();
  void Read(Client* client);
  void Answer(std::string_view line, Client* client);
  void Write(Client* client);
  static void Refuse(const std::string& error, int64_t id, Client* client);

  const std::string run_;
  const Handler handler_;
  const SocketPlace place_;
  const Descriptor listener_;
  const int64_t patience_ns_;
  WakeUp wake_;
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Client>> clients_;  // server thread only
  std::thread thread_;
};

void PollServer::Serve() {
  // On Linux of this thread only. Refused or not, it is served.
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness));
  std::vector<pollfd> waits;
  while (!stopping_) {
    waits = {{.fd = wake_.fd(), .events = POLLIN}, {.fd = listener_.get(), .events = POLLIN}};
    for (const auto& client : clients_) {
      const int events = (client->is_closing ? 0 : POLLIN) | (client->unsent.empty() ? 0 : POLLOUT);
      waits.push_back({.fd = client->socket.get(), .events = static_cast<int16_t>(events)});
    }
    const bool has_deadline = std::any_of(clients_.begin(), clients_.end(), [](const auto& client) {
      return !client->unsent.empty();
    });
    if (poll(waits.data(), waits.size(), has_deadline ? kLookMs : -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < clients_.size() && !stopping_; ++i) {
      const int events = waits[i + 2].revents;
      Client* client = clients_[i].get();
      if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && !client->is_closing) Read(client);
      if (client->is_closing && (events & (POLLHUP | POLLERR)) != 0) client->socket.Close();
      if (client->socket.valid()) Write(client);
    }
    LetGo();
    if ((waits[1].revents & POLLIN) != 0) Accept();
  }
}

// Those who have left, those who do not take their answers, and, when all places are taken, those
// who never asked for anything.
void PollServer::LetGo() {
  const int64_t now_ns = MonotonicNs();
  const bool is_full = clients_.size() >= kMaxClients;
  std::erase_if(clients_, [&](const auto& client) {
    const bool is_overdue = now_ns - client->last_ns > patience_ns_;
    const bool is_useless = !client->unsent.empty() || (is_full && !client->has_asked);
    return !client->socket.valid() || (is_overdue && is_useless);
  });
}

// One a round, so that many new clients do not keep the connected ones waiting.
void PollServer::Accept() {
  Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    // Out of descriptors, as a rule: without a pause, poll() would report the same caller at once.
    if (errno != EAGAIN) SleepUntilNs(MonotonicNs() + 10 * kNsPerMs);
    return;
  }
  auto client = std::make_unique<Client>();
  client->socket = std::move(socket);
  if (clients_.size() < kMaxClients) {
    // Sent in the next round, after what it may have asked already: one that asked and left at once
    // could not be written to any more.
    client->unsent = PrintHello(run_);
    clients_.push_back(std::move(client));
    return;
  }
  Refuse(fmt::format("control: {} clients are connected, and more are not served; try again later",
                     kMaxClients),
         -1, client.get());
  Write(client.get());  // as a rule it goes out at once, and the rest is not waited for
}

void PollServer::Read(Client* client) {
  const ReadState state = ReadAvailable(client->socket.get(), &client->lines);
  while (!client->is_closing) {
    const auto line = client->lines.NextLine();
    if (!line) break;
    Answer(*line, client);
  }
  if (!client->is_closing && client->lines.overflown())
    Refuse(fmt::format("control: a line is at most {} bytes", kMaxLineBytes), -1, client);
  if (state == ReadState::kClosed) client->is_closing = true;
}

void PollServer::Answer(std::string_view line, Client* client) {
  const auto request = ParseRequest(line);
  Response response;
  if (request.ok()) {
    client->has_asked = true;
    response = handler_(*request);
    response.id = request->id;
  } else {
    response = {.id = IdOf(line), .ok = false, .error = request.message()};
  }
  if (client->unsent.empty()) client->last_ns = MonotonicNs();
  client->unsent += PrintResponse(response);
  if (client->unsent.size() > kMaxUnsentBytes) Write(client);
  if (client->unsent.size() > kMaxUnsentBytes) {
    client->unsent.clear();
    client->is_closing = true;
  }
}

void PollServer::Write(Client* client) {
  const size_t before = client->unsent.size();
  const bool is_open = WriteAvailable(client->socket.get(), &client->unsent);
  if (client->unsent.size() < before) client->last_ns = MonotonicNs();
  if (!is_open || (client->is_closing && client->unsent.empty())) client->socket.Close();
}

void PollServer::Refuse(const std::string& error, int64_t id, Client* client) {
  client->unsent += PrintResponse({.id = id, .ok = false, .error = error});
  client->is_closing = true;
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::Listen(const std::string& run,
                                                             Handler handler, int64_t patience_ns) {
  auto place = ChooseSocketPlace();
  if (!place.ok()) return place.status();
  auto listener = ListenAt(place->path);
  if (!listener.ok()) {
    RemoveSocketPlace(*place);
    return listener.status();
  }
  return std::unique_ptr<ControlServer>(std::make_unique<PollServer>(
      run, std::move(handler), std::move(*place), std::move(*listener), patience_ns));
}

}  // namespace shardscope::config
