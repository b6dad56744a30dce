// ScheduleWorker: reads and checks the text of a Schedule, so that no frame waits for it.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "trace/query/snapshot.h"
#include "ui/schedule_sheet.h"
#include "ui/shell/run/newest_worker.h"

namespace shardscope::shell {

struct ScheduleRequest {
  std::shared_ptr<const std::string> text;
  query::SnapshotPtr snapshot;  // none: a text is all that it takes

  bool operator==(const ScheduleRequest&) const = default;
  bool Asks(const ScheduleRequest& other) const { return text == other.text; }
};
using ScheduleWorker = NewestWorker<ScheduleRequest, ui::ScheduleSheet>;

inline std::shared_ptr<const ui::ScheduleSheet> MakeSheet(const ScheduleRequest& request,
                                                          const std::stop_token&) {
  return std::make_shared<const ui::ScheduleSheet>(ui::ReadSheet(request.text));
}

}  // namespace shardscope::shell
