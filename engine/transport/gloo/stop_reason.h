// StopReason: why a run stops, told to all its processes through the store.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/transport/gloo/store.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::transport {

// Threads: any.
class StopReason {
 public:
  // `store` outlives this.
  explicit StopReason(Store* store) : store_(store) {}

  // TransportError with the reason.
  void ThrowIfSet() const;
  // False: there is one already. `tell`: the other processes, which have not said it.
  bool Set(const std::string& reason, bool tell);
  // The reason of this process or of another, as soon as there is one.
  std::optional<std::string> WaitFor(int64_t longest_ns);
  bool is_set() const { return Get().has_value(); }
  // Where this process serves the store: until all that are in the run but the one that said it
  // have read why, or a moment has gone. `num_there` is asked again, as some may still come.
  void WaitForReaders(const std::function<int64_t()>& num_there,
                      int64_t longest_ns = kReadingNs) const;

 private:
  static constexpr int64_t kReadingNs = 2 * kNsPerSecond;

  std::optional<std::string> Get() const;

  Store* const store_;
  mutable Mutex mutex_;
  std::optional<std::string> reason_ GUARDED_BY(mutex_);
};

}  // namespace shardscope::transport
