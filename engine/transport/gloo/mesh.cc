#include "engine/transport/gloo/mesh.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <cstdlib>
#include <limits>

#include "trace/base/mutex.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::transport {
namespace {

using Group = c10d::ProcessGroupGloo;
using std::chrono::milliseconds;

// No message of a collective has it: Close() waits for one in vain.
constexpr int kNeverSentTag = std::numeric_limits<int>::max();

class GlooTransfer : public Transfer {
 public:
  explicit GlooTransfer(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}

  TransferEnd Wait(int64_t deadline_ns) override {
    const int64_t left_ms = (deadline_ns - MonotonicNs()) / kNsPerMs;
    try {
      // Zero would mean no limit.
      work_->wait(milliseconds(std::max<int64_t>(1, left_ms)));
      return TransferEnd::kDone;
    } catch (const std::exception&) {
      return MonotonicNs() >= deadline_ns - kNsPerMs ? TransferEnd::kTimeout : TransferEnd::kClosed;
    }
  }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
};

std::vector<at::Tensor> Wrap(std::byte* data, size_t bytes) {
  return {at::from_blob(data, {static_cast<int64_t>(bytes)}, at::kByte)};
}

class GlooMesh : public Mesh {
 public:
  GlooMesh(const Place& place, c10::intrusive_ptr<Group> group)
      : place_(place), group_(std::move(group)) {}

  std::unique_ptr<Transfer> Send(const std::byte* data, size_t bytes, int to, int tag) override {
    // c10d only reads it.
    std::vector<at::Tensor> tensors = Wrap(const_cast<std::byte*>(data), bytes);
    return Post([&] { return group_->send(tensors, to, tag); });
  }
  std::unique_ptr<Transfer> Receive(std::byte* data, size_t bytes, int from, int tag) override {
    std::vector<at::Tensor> tensors = Wrap(data, bytes);
    return Post([&] { return group_->recv(tensors, from, tag); });
  }

  // c10d has no call for it, but a wait that ends with its time closes all connections of a rank.
  void Close() override {
    std::byte nothing{};
    for (int rank = 0; rank < place_.num_ranks; ++rank) {
      if (rank == place_.rank) continue;
      const std::unique_ptr<Transfer> never = Receive(&nothing, 1, rank, kNeverSentTag);
      if (never != nullptr) never->Wait(0);
    }
  }

 private:
  template <typename Call>
  std::unique_ptr<Transfer> Post(const Call& call) {
    const MutexLock lock(mutex_);
    try {
      return std::make_unique<GlooTransfer>(call());
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  const Place place_;
  Mutex mutex_;  // the group counts its calls without one
  const c10::intrusive_ptr<Group> group_;
};

std::shared_ptr<gloo::transport::Device> DeviceFor(const Mesh::Place& place) {
  // The variable that PyTorch reads, too; it may list several interfaces.
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) {
    const std::string names = interface;
    return Group::createDeviceForInterface(names.substr(0, names.find(',')));
  }
  if (place.is_loopback) return Group::createDeviceForHostname("127.0.0.1");
  return Group::createDefaultDevice();
}

}  // namespace

std::unique_ptr<Mesh> Mesh::Connect(const Place& place, Store* store, int64_t timeout_ns) {
  try {
    auto options = Group::Options::create(milliseconds(timeout_ns / kNsPerMs));
    options->devices.push_back(DeviceFor(place));
    options->threads = 1;  // sends and receives need none
    auto group = c10::make_intrusive<Group>(store->shared(), place.rank, place.num_ranks,
                                            std::move(options));
    return std::make_unique<GlooMesh>(place, std::move(group));
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    const std::string what = known == nullptr ? error.what() : known->what_without_backtrace();
    throw TransportError("rank " + std::to_string(place.rank) + " of " +
                         std::to_string(place.num_ranks) +
                         " did not get connected to all others within " +
                         FormatDuration(timeout_ns) + ": " + std::string(FirstLine(what)));
  }
}

}  // namespace shardscope::transport
