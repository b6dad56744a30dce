// For tests: finds out without a clock that nothing moves any more, so that what has not happened
// by then cannot happen.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>

namespace shardscope::executor {

// How often each other thread of this process went to sleep; nothing if one of them is awake.
inline std::optional<std::map<std::string, std::string>> SleepsOfOtherThreads() {
  const std::string self = std::to_string(gettid());
  std::map<std::string, std::string> sleeps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string thread = entry.path().filename();
    if (thread == self) continue;
    std::ifstream status(entry.path() / "status");
    bool asleep = false;
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("State:\tS", 0) == 0) asleep = true;
      if (line.rfind("voluntary_ctxt_switches:", 0) == 0) sleeps[thread] = line;
    }
    if (!asleep || sleeps.count(thread) == 0) return std::nullopt;
  }
  if (error) return std::nullopt;
  return sleeps;
}

// Note: why two equal scans are a proof
// A thread that both scans saw asleep, with the same number of sleeps, slept from its first to its
// second look. Every thread's first look is before the end of the first scan and its second one
// after it, so at that moment all slept at once; and a thread that waits for another thread is
// woken by that other thread alone. It holds only where no thread sleeps for a time or on input.
inline bool AllOtherThreadsWait() {
  const auto before = SleepsOfOtherThreads();
  return before && before == SleepsOfOtherThreads();
}

// Blocks the caller until no other thread of the process can go on by itself.
inline void WaitUntilNothingMoves() {
  while (!AllOtherThreadsWait()) std::this_thread::yield();
}

}  // namespace shardscope::executor
