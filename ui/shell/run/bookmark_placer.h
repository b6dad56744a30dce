// BookmarkPlacer: when the bookmarks of a run were, for the ruler. A few each frame, so that none
// waits; those of steps that are still to come are looked for again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "trace/query/snapshot.h"
#include "ui/context.h"

namespace shardscope::shell {

class BookmarkPlacer {
 public:
  // Puts `list` and its times into `shown`. false: there are more that were not looked for yet.
  bool Update(const query::Snapshot& snapshot, std::shared_ptr<const ui::BookmarkList> list,
              ui::Bookmarks* shown);

 private:
  static constexpr size_t kMostAFrame = 8;

  size_t next_ = 0;          // of the list
  bool looked_ = false;      // at all of the list, once
  uint64_t generation_ = 0;  // of the rows that they were looked for in
};

}  // namespace shardscope::shell
