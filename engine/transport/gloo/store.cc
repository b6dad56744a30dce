#include "engine/transport/gloo/store.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "trace/base/mutex.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::transport {
namespace {

constexpr int64_t kAnswerNs = 2 * kNsPerSecond;  // of a store that is there

// What goes wrong is told once, by us, and not by c10d with lists of addresses and stacks.
void SilenceLibrary() {
  constexpr int kFatalLevel = 3;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = kFatalLevel;
}

using TcpStore = c10::intrusive_ptr<c10d::TCPStore>;

struct Opened {
  TcpStore store;     // null: not opened
  std::string error;  // c10d's; empty: it is still trying
};

// Whether anything accepts connections there.
bool IsListenedAt(const GlooProcess& process) {
  const addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const std::string port = std::to_string(process.master_port);
  if (getaddrinfo(process.master_address.c_str(), port.c_str(), &hints, &found) != 0) return false;
  bool is_listened_at = false;
  for (const addrinfo* one = found; one != nullptr && !is_listened_at; one = one->ai_next) {
    const int client = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval second = {.tv_sec = 1};
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));  // of connect(), too
    is_listened_at = connect(client, one->ai_addr, one->ai_addrlen) == 0;
    close(client);
  }
  freeaddrinfo(found);
  return is_listened_at;
}

// Note: why a store is opened on a thread of its own
// c10d waits without an end for a server that has accepted its connection and does not answer. That
// thread is left behind then; the process ends with the error.
Opened Open(const GlooProcess& process, bool serves, int64_t limit_ns, Patience* patience) {
  struct Attempt {
    Mutex mutex;
    bool is_done GUARDED_BY(mutex) = false;
    Opened opened GUARDED_BY(mutex);
  };
  const int64_t until_ns = MonotonicNs() + limit_ns;
  // c10d itself looks again after pauses that grow: it would miss a server that is there for a few
  // seconds, to say why there will be no run.
  while (!serves && !IsListenedAt(process)) {
    if (MonotonicNs() >= until_ns) return {};
    patience->Wait("rank 0");
  }
  const auto attempt = std::make_shared<Attempt>();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(process.master_port);
  options.isServer = serves;
  options.numWorkers = static_cast<size_t>(process.num_ranks);
  options.waitWorkers = false;
  options.timeout =
      std::chrono::milliseconds(std::max<int64_t>(1, (until_ns - MonotonicNs()) / kNsPerMs));
  std::thread([attempt, options, address = process.master_address] {
    Opened opened;
    try {
      opened.store = c10::make_intrusive<c10d::TCPStore>(address, options);
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const c10::Error*>(&error);
      opened.error = FirstLine(known == nullptr ? error.what() : known->what_without_backtrace());
    }
    const MutexLock lock(attempt->mutex);
    attempt->opened = std::move(opened);
    attempt->is_done = true;
  }).detach();
  while (true) {
    {
      const MutexLock lock(attempt->mutex);
      if (attempt->is_done) return std::move(attempt->opened);
    }
    if (MonotonicNs() >= until_ns) return {};
    patience->Wait("rank 0");
  }
}

std::string Place(const GlooProcess& process) {
  return PlaceOf(process) + " (MASTER_ADDR, MASTER_PORT)";
}

constexpr const char* kIsTaken =
    ": another program has the port; give all processes another MASTER_PORT";

std::string WhyNotServed(const GlooProcess& process, const std::string& error) {
  const std::string what = "rank 0 cannot listen at " + Place(process);
  if (IsListenedAt(process)) return what + kIsTaken;
  return what + ": is MASTER_ADDR the machine of rank 0? " + error;
}

std::string WhyNotReached(const GlooProcess& process, int64_t timeout_ns) {
  const std::string rank = "rank " + std::to_string(process.rank);
  const std::string within = " within comm.timeout=" + FormatDuration(timeout_ns);
  if (IsListenedAt(process)) {
    return rank + ": what listens at " + Place(process) + " has not answered as rank 0 of a run" +
           within + kIsTaken;
  }
  return rank + " did not reach rank 0 at " + Place(process) + within +
         ": nobody listens there; start a process with RANK=0, or correct MASTER_ADDR and "
         "MASTER_PORT";
}

}  // namespace

std::unique_ptr<Store> Store::InProcess() {
  return std::unique_ptr<Store>(new Store(c10::make_intrusive<c10d::HashStore>(), false));
}

std::unique_ptr<Store> Store::OfProcesses(const GlooProcess& process, Patience* patience) {
  SilenceLibrary();
  const bool serves = process.rank == 0 && !process.has_launcher_store;
  Opened opened = Open(process, serves, patience->LeftNs(), patience);
  bool is_server = serves;
  if (serves && opened.store == nullptr) {
    // The port is taken. If a run meets there, another process has this rank, and they tell it so.
    is_server = false;
    const Opened other = Open(process, false, std::min(patience->LeftNs(), kAnswerNs), patience);
    opened.store = other.store;
  }
  if (opened.store == nullptr) {
    throw TransportError(serves ? WhyNotServed(process, opened.error)
                                : WhyNotReached(process, patience->timeout_ns()));
  }
  return std::unique_ptr<Store>(new Store(
      c10::make_intrusive<c10d::PrefixStore>("shardscope/" + process.attempt, opened.store),
      is_server));
}

void Store::Set(const std::string& key, const std::string& value) {
  if (has_gone_) return;
  try {
    store_->set(key, value);
  } catch (const std::exception&) {
    has_gone_ = true;
  }
}

std::string Store::Get(const std::string& key) {
  if (has_gone_) return "";
  try {
    if (!store_->check({key})) return "";
    // The store's own timeout stays as it is: other threads wait by it. Keys are never removed, so
    // after this there is nothing to wait for.
    store_->wait({key}, std::chrono::milliseconds(kAnswerNs / kNsPerMs));
    return store_->get_to_str(key);
  } catch (const std::exception&) {
    has_gone_ = true;
    return "";
  }
}

int64_t Store::Add(const std::string& key, int64_t amount) {
  if (has_gone_) return 0;
  try {
    return store_->add(key, amount);
  } catch (const std::exception&) {
    has_gone_ = true;
    return 0;
  }
}

}  // namespace shardscope::transport
