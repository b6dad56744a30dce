// AreaWorker: measures the stretch of time that is marked, so that no frame waits for it.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "trace/analysis/find/area.h"
#include "ui/shell/run/newest_worker.h"

namespace shardscope::shell {

struct AreaRequest {
  analysis::AreaQuery query;
  query::SnapshotPtr snapshot;
  bool causes = false;  // also where that takes long

  bool Asks(const AreaRequest& other) const { return query == other.query; }
  bool operator==(const AreaRequest&) const = default;
};

// On the calling thread. Null: stopped.
std::shared_ptr<const analysis::Area> Measure(const AreaRequest& request,
                                              const std::stop_token& stop = {});

class AreaWorker : public NewestWorker<AreaRequest, analysis::Area> {
 public:
  explicit AreaWorker(std::function<void()> wake) : NewestWorker(Measure, std::move(wake)) {}
};

}  // namespace shardscope::shell
