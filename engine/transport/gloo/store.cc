#include "engine/transport/gloo/store.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>

#include "engine/transport/gloo/store_impl.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::transport {
namespace {

constexpr std::chrono::milliseconds kAnswerTime(2000);  // of a store that is there

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// A process that died is told of once, by the transport, and not by c10d with a list of addresses.
void SilenceWarnings() {
  constexpr int kErrorLevel = 2;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = kErrorLevel;
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl, bool is_server)
    : impl_(std::move(impl)), is_server_(is_server) {}
Store::~Store() = default;

std::unique_ptr<Store> Store::InProcess() {
  auto impl = std::make_unique<Impl>();
  impl->store = c10::make_intrusive<c10d::HashStore>();
  return std::unique_ptr<Store>(new Store(std::move(impl), false));
}

std::unique_ptr<Store> Store::OfProcesses(const GlooProcess& process, int64_t timeout_ns) {
  SilenceWarnings();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(process.master_port);
  options.isServer = process.rank == 0 && !process.has_launcher_store;
  options.numWorkers = static_cast<size_t>(process.num_ranks);
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(timeout_ns / kNsPerMs);
  const std::string place = process.master_address + ":" + std::to_string(process.master_port);
  auto impl = std::make_unique<Impl>();
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(process.master_address, options);
    impl->store = c10::make_intrusive<c10d::PrefixStore>("shardscope/" + process.attempt, store);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    const std::string what =
        FirstLine(known == nullptr ? error.what() : known->what_without_backtrace());
    if (options.isServer) {
      throw TransportError("rank 0 cannot listen on " + place +
                           " (MASTER_ADDR, MASTER_PORT): " + what);
    }
    throw TransportError("rank " + std::to_string(process.rank) + " did not reach " + place +
                         " (MASTER_ADDR, MASTER_PORT) within " + FormatDuration(timeout_ns) +
                         "; does rank 0 run? " + what);
  }
  return std::unique_ptr<Store>(new Store(std::move(impl), options.isServer));
}

void Store::Set(const std::string& key, const std::string& value) {
  if (has_gone_) return;
  try {
    impl_->store->set(key, value);
  } catch (const std::exception&) {
    has_gone_ = true;
  }
}

std::string Store::Get(const std::string& key) {
  if (has_gone_) return "";
  try {
    if (!impl_->store->check({key})) return "";
    // The store's own timeout stays as it is: other threads wait by it. Keys are never removed, so
    // after this there is nothing to wait for.
    impl_->store->wait({key}, kAnswerTime);
    return impl_->store->get_to_str(key);
  } catch (const std::exception&) {
    has_gone_ = true;
    return "";
  }
}

int64_t Store::Add(const std::string& key, int64_t amount) {
  if (has_gone_) return 0;
  try {
    return impl_->store->add(key, amount);
  } catch (const std::exception&) {
    has_gone_ = true;
    return 0;
  }
}

}  // namespace shardscope::transport
