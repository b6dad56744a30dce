// Store: a few small texts that all ranks of a run can set and read: c10d's, in this process or
// served by one of the processes. Ranks find one another through it, and read there why another
// stopped.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/transport/gloo/gloo_transport.h"
#include "engine/transport/gloo/meeting.h"

namespace shardscope::transport {

// Threads: any.
class Store {
 public:
  // For ranks that are threads.
  static std::unique_ptr<Store> InProcess();
  // Throws TransportError if the meeting place cannot be reached in time.
  static std::unique_ptr<Store> OfProcesses(const GlooProcess& process, Patience* patience);

  // Whether other processes read it in this one: it must not go before they have.
  bool is_server() const { return is_server_; }
  // Whether it has been asked in vain; it is not asked again.
  bool has_gone() const { return has_gone_; }

  // Best effort: the store may have gone with its process. A number is 0, a text empty then, and
  // if it was not set.
  void Set(const std::string& key, const std::string& value);
  std::string Get(const std::string& key);
  int64_t Add(const std::string& key, int64_t amount);

  const c10::intrusive_ptr<c10d::Store>& shared() { return store_; }

 private:
  Store(c10::intrusive_ptr<c10d::Store> store, bool is_server)
      : store_(std::move(store)), is_server_(is_server) {}

  const c10::intrusive_ptr<c10d::Store> store_;
  const bool is_server_;
  std::atomic<bool> has_gone_{false};  // asking again would only take time
};

}  // namespace shardscope::transport
