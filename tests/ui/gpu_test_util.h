// For tests of what the GPU did, on screen.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "trace/base/check.h"
#include "trace/query/live_trace.h"
#include "ui/shell/shot.h"

namespace shardscope::ui_test {

inline constexpr int64_t kMs = 1'000'000;

// Leaves the picture in the folder $SHARDSCOPE_PICTURES, if there is one.
inline void Keep(const shell::Shot& shot, const std::string& name) {
  const char* folder = std::getenv("SHARDSCOPE_PICTURES");
  if (folder == nullptr) return;
  const Status status = shell::WritePng(shot.image, std::string(folder) + "/" + name + ".png");
  EXPECT_TRUE(status.ok()) << status.message();
}

// The trace in `folder`.
inline query::SnapshotPtr Read(const std::string& folder) {
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(folder);
  SHARDSCOPE_CHECK(snapshot.ok());
  return snapshot.value();
}

// Items of `panel` whose id begins with `prefix`.
inline std::vector<ui::DrawnItem> Items(const ui::DrawLog& log, const char* panel,
                                        const std::string& prefix) {
  std::vector<ui::DrawnItem> items;
  for (const ui::DrawnItem& item : log.items()) {
    if (item.panel == panel && item.id.starts_with(prefix)) items.push_back(item);
  }
  return items;
}

}  // namespace shardscope::ui_test
