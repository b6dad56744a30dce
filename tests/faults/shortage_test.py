"""No threads, no memory: one line that says so and what to do, and no signal."""

import os
import resource
import subprocess
import unittest

from programs import APP, BIN, TIMEOUT_S, ProgramTest

NO_THREADS = BIN.parent / "tests" / "libno_threads.so"
NOBODY = 65534


@unittest.skipIf("ASAN_OPTIONS" in os.environ, "the address sanitizer maps more than any limit, and wants to be loaded first")
class ShortageTest(ProgramTest):
    def end_of(self, command, environment=None, **options):
        return subprocess.run([str(word) for word in command], env={**os.environ, **(environment or {})}, capture_output=True, text=True,
                              timeout=TIMEOUT_S, **options)

    def assert_told(self, done, *words):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in ("fewer ranks", *words):
            self.assertIn(word, done.stderr)

    def test_a_training_without_threads(self):
        enough = False
        after = 0
        while not enough:
            with self.subTest(threads=after):
                done = self.end_of(self.train_command(self.root / f"run{after}", "train.steps=2", ranks=3),
                                   {"LD_PRELOAD": str(NO_THREADS), "NO_THREADS_AFTER": str(after)})
                enough = done.returncode == 0
                if not enough:
                    self.assert_told(done, "thread")
            after += 1
            self.assertLess(after, 60)
        self.assertGreater(after, 3, "every rank is a thread")

    def test_a_training_of_a_user_whose_processes_are_limited(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be a user who has no processes yet")
        for folder in (self.root, *self.root.iterdir()):
            os.chmod(folder, 0o777)

        def limit():
            resource.setrlimit(resource.RLIMIT_NPROC, (3, 3))
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

        try:
            done = self.end_of(self.train_command(self.root / "run", "train.steps=2", ranks=4), preexec_fn=limit)
        except PermissionError:
            self.skipTest("this user cannot reach the programs")
        if done.returncode == 127 or "Permission denied" in done.stderr:
            self.skipTest("this user cannot read the programs")
        self.assert_told(done, "thread")

    def test_a_training_without_memory(self):
        limit = 2 << 30  # libraries and threads alone map a third of it

        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        big = ["model.dim=1536", "model.heads=8", "model.layers=8", "model.seq=32", "train.steps=2"]
        done = self.end_of(self.train_command(self.root / "run", *big), preexec_fn=limited)
        self.assert_told(done, "memory")

    def test_reading_a_run_without_threads(self):
        run, _ = self.train("shown", "train.steps=2")
        for command in (("report", run), ("tail", run), ("shot", run, "-o", self.root / "shot.png")):
            with self.subTest(command[0]):
                done = self.end_of((APP, *command),
                                   {"LD_PRELOAD": str(NO_THREADS), "NO_THREADS_AFTER": "0"})
                self.assertGreaterEqual(done.returncode, 0, done.stderr)
                if done.returncode != 0:
                    self.assertIn("thread", done.stderr)


if __name__ == "__main__":
    unittest.main()
