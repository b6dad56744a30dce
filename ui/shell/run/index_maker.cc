#include "ui/shell/run/index_maker.h"

#include <utility>

namespace shardscope::shell {

IndexMaker::IndexMaker(query::SnapshotPtr snapshot, std::function<void()> wake)
    : thread_([this, snapshot = std::move(snapshot), wake = std::move(wake)](
                  const std::stop_token& stop) { Make(stop, *snapshot, wake); }) {}

void IndexMaker::Make(const std::stop_token& stop, const query::Snapshot& snapshot,
                      const std::function<void()>& wake) {
  auto index = std::make_shared<timeline::RunIndex>();
  if (!index->AdvanceAll(snapshot, stop)) return;
  {
    const MutexLock lock(mutex_);
    index_ = std::move(index);
  }
  if (wake) wake();
}

bool IndexMaker::ready() const {
  const MutexLock lock(mutex_);
  return index_ != nullptr;
}

std::shared_ptr<timeline::RunIndex> IndexMaker::Take() {
  const MutexLock lock(mutex_);
  return std::exchange(index_, nullptr);
}

}  // namespace shardscope::shell
