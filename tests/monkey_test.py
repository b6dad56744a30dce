"""A monkey in the app: clicks, drags, keys and texts at random on a finished run, an imported one and one that trains, and on one whose trace is deleted,
replaced or truncated meanwhile. The app stays, no frame takes too long, and it says the same of a finished run afterwards. `scripts/monkey` does it for
longer."""

import os
import shutil
import subprocess
import unittest

from chrome_traces import fsdp2_step
from programs import APP, BIN, ImportTestCase

ACTIONS = int(os.environ.get("SHARDSCOPE_MONKEY_ACTIONS", 120))
SEED = int(os.environ.get("SHARDSCOPE_MONKEY_SEED", 1))
TIMEOUT_S = 120 + 5 * ACTIONS
# Of a frame's own processor time. Generous where the machine is any; none under a sanitizer, where times say nothing.
FRAME_MS = os.environ.get("SHARDSCOPE_MONKEY_FRAME_MS", "0" if {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ) else "2000")
SLOW = ("transport=emulated", "link.bandwidth=5MB/s")


class MonkeyTest(ImportTestCase):
    def play(self, run, *options):
        log = self.root / f"{self.id()}{''.join(options)}.log"
        done = subprocess.run([BIN / "shardscope_monkey", run, str(ACTIONS), str(SEED), log, "--most-frame-ms", FRAME_MS, *options],
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        actions = log.read_text(errors="replace").splitlines() if log.exists() else []
        self.assertEqual(done.returncode, 0, "\n".join([*actions[-20:], done.stdout[-2000:], done.stderr[-6000:]]))
        self.assertEqual(len(actions), ACTIONS)
        print(f"{self.id().rsplit('.', 1)[1]} {' '.join(options)}: {done.stdout.strip()}; at {max(actions, key=lambda line: float(line.split()[1]))}")

    def test_a_finished_run(self):
        run, _ = self.train("run", "train.steps=12", *SLOW)
        self.play(run)

    def test_a_run_whose_trace_is_harmed(self):
        run, _ = self.train("run", "train.steps=12", *SLOW)
        for fault in ("delete", "replace", "truncate"):
            with self.subTest(fault):
                copy = self.root / fault
                shutil.copytree(run, copy)
                before = {path.name: path.stat().st_size for path in copy.glob("trace-*")}
                self.assertTrue(before)
                self.play(copy, "--fault", fault)
                if fault == "delete":
                    self.assertFalse(set(before) & {path.name for path in copy.glob("trace-*")})

    def test_an_imported_run(self):
        folder = self.root / "traces"
        folder.mkdir()
        for rank in (0, 1):
            fsdp2_step(rank, 40 * rank).write(folder / f"worker{rank}.pt.trace.json.gz")
        run = self.root / "imported"
        self.run_program(APP, "import", folder, "-o", run)
        self.play(run)

    def test_a_run_that_trains(self):
        run, _ = self.start_training("live", "train.steps=1000000", *SLOW)
        self.wait_for_steps(run, 3)
        self.play(run)


if __name__ == "__main__":
    unittest.main()
