#include "ui/shell/run/bookmark_placer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "ui/link.h"
#include "ui/timeline/link_place.h"

namespace shardscope::shell {

bool BookmarkPlacer::Update(const query::Snapshot& snapshot,
                            std::shared_ptr<const ui::BookmarkList> list, ui::Bookmarks* shown) {
  const bool is_replaced = snapshot.generation < generation_;  // the rows, by others
  if (list != shown->list || is_replaced) {
    shown->list = std::move(list);
    shown->times.assign(shown->list == nullptr ? 0 : shown->list->all.size(), std::nullopt);
    next_ = 0;
    looked_ = false;
  }
  const size_t count = shown->times.size();
  if (count == 0 || (looked_ && snapshot.generation == generation_)) return true;
  generation_ = snapshot.generation;
  for (size_t left = std::min(count, kMostAFrame); left > 0; --left) {
    if (!shown->times[next_]) {
      const auto link = ui::ParseLink(shown->list->all[next_].link);
      const auto* parsed = std::get_if<ui::Link>(&link);
      const auto times = parsed == nullptr ? std::nullopt : timeline::TimesOf(snapshot, *parsed);
      if (times) shown->times[next_] = ui::BookmarkTimes{times->start_ns, times->end_ns};
    }
    next_ = (next_ + 1) % count;
    looked_ = looked_ || next_ == 0;
  }
  return looked_;
}

}  // namespace shardscope::shell
