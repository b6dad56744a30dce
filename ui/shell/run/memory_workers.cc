#include "ui/shell/run/memory_workers.h"

#include <cstdint>

#include "trace/analysis/config_at.h"

namespace shardscope::shell {

void MemoryWorkers::UpdateBlocks(bool at_once, const query::SnapshotPtr& shown,
                                 const std::optional<query::BlocksQuery>& wanted, bool plays,
                                 ui::BlocksState* blocks) {
  if (!wanted || shown == nullptr) return;
  BlocksRequest request =
      RequestBlocks(watch_ == nullptr ? shown->run_folder : watch_->path(), *wanted, shown, watch_);
  if (at_once) {
    const bool is_answered =
        blocks->answer != nullptr && blocks->answer->ok() && (*blocks->answer)->asked == *wanted;
    if (!is_answered) blocks->answer = ReadBlocks(request, {});
    return;
  }
  const bool is_away = watch_ != nullptr && watch_->seen() != ui::RunPlace::kThere;
  if (is_away) {  // nor is an answer kept that came as it went
    blocks->answer = nullptr;
    if (blocks_ != nullptr) blocks_->Forget();
    return;
  }
  if (blocks_ == nullptr) blocks_ = std::make_unique<BlocksWorker>(ReadBlocks, wake_);
  request.plays = plays;
  blocks_->Ask(std::move(request));
  if (auto latest = blocks_->Latest()) blocks->answer = std::move(latest);
}

void MemoryWorkers::UpdateChoices(bool at_once, const query::SnapshotPtr& shown,
                                  ui::BlocksState* blocks) {
  if (!blocks->shows_choices || shown == nullptr) return;
  if (at_once) {
    if (blocks->choices == nullptr) {
      blocks->choices = MakeMemoryChoices({analysis::ConfigAt(*shown, INT32_MAX), nullptr}, {});
    }
    return;
  }
  if (choices_ == nullptr) {
    choices_ = std::make_unique<MemoryChoicesWorker>(MakeMemoryChoices, wake_);
  }
  choices_->Ask({analysis::ConfigAt(*shown, INT32_MAX), nullptr});
  if (auto latest = choices_->Latest()) blocks->choices = std::move(latest);
}

}  // namespace shardscope::shell
