"""scripts/check_thread_safety finds what its attributes forbid."""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]

SOURCE = """#include "trace/base/mutex.h"
class Counter {
 public:
  void Add() {
    ADD
  }
  void WaitUntil(int wanted) {
    shardscope::MutexLock lock(mutex_);
    changed_.wait(lock, [this, wanted]() LAMBDA { return count_ >= wanted; });
  }
 private:
  shardscope::Mutex mutex_;
  shardscope::CondVar changed_;
  int count_ GUARDED_BY(mutex_) = 0;
};
void Use(Counter* counter) { counter->Add(); counter->WaitUntil(1); }
"""


def findings(add, wait="REQUIRES(mutex_)"):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "counter.cc"
        source.write_text(SOURCE.replace("ADD", add).replace("LAMBDA", wait))
        done = subprocess.run(["clang++-14", "-std=c++20", "-fsyntax-only", "-Wthread-safety", f"-I{ROOT}", str(source)],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr.count("[-Wthread-safety")


class ThreadSafetyTest(unittest.TestCase):
    def test_under_the_lock_nothing_is_found(self):
        self.assertEqual(findings("const shardscope::MutexLock lock(mutex_); ++count_;"), 0)

    def test_what_is_touched_without_the_lock_is_found(self):
        self.assertEqual(findings("++count_;"), 1)
        self.assertEqual(findings("shardscope::MutexLock lock(mutex_); lock.unlock(); ++count_;"), 1)

    def test_a_predicate_says_that_it_needs_the_lock(self):
        self.assertEqual(findings("const shardscope::MutexLock lock(mutex_); ++count_;", wait=""), 1)

    def test_a_lock_taken_twice_is_found(self):
        self.assertEqual(findings("const shardscope::MutexLock a(mutex_); const shardscope::MutexLock b(mutex_); ++count_;"), 1)


if __name__ == "__main__":
    unittest.main()
