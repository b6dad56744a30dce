// The store among threads of one process.
#include "engine/transport/gloo/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace shardscope::transport {
namespace {

TEST(Store, IsEmptyWhereNobodyHasSetAnything) {
  const auto store = Store::InProcess();
  EXPECT_EQ(store->Get("a"), "");
  store->Set("a", "text");
  EXPECT_EQ(store->Get("a"), "text");
  EXPECT_EQ(store->Add("b", 2), 2);
  EXPECT_EQ(store->Add("b", 3), 5);
}

// Gloo's own threads wait by the store's timeout, whatever others read meanwhile.
TEST(Store, ReadingChangesNoTimeoutOfOthers) {
  const auto store = Store::InProcess();
  c10d::Store& inner = *store->shared();
  const auto timeout = inner.getTimeout();
  store->Set("a", "text");
  std::atomic<bool> is_done = false;
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        if (store->Get("a") != "text") ++num_wrong;
      }
    });
  }
  std::thread watcher([&] {
    while (!is_done) {
      if (inner.getTimeout() != timeout) ++num_wrong;
    }
  });
  for (std::thread& reader : readers) reader.join();
  is_done = true;
  watcher.join();
  EXPECT_EQ(num_wrong, 0);
  EXPECT_EQ(inner.getTimeout(), timeout);
}

}  // namespace
}  // namespace shardscope::transport
