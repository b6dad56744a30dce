"""A monkey in the app: clicks, drags, keys and texts at random on a finished run, an imported one and one that trains. The app stays, and says the same of
a finished run afterwards. `scripts/monkey` does it for longer."""

import os
import subprocess
import unittest

from chrome_traces import fsdp2_step
from programs import APP, BIN, ImportTestCase

ACTIONS = int(os.environ.get("SHARDSCOPE_MONKEY_ACTIONS", 120))
SEED = int(os.environ.get("SHARDSCOPE_MONKEY_SEED", 1))
TIMEOUT_S = 120 + 5 * ACTIONS
SLOW = ("transport=emulated", "link.bandwidth=5MB/s")


class MonkeyTest(ImportTestCase):
    def play(self, run):
        log = self.root / f"{self.id()}.log"
        done = subprocess.run([BIN / "shardscope_monkey", run, str(ACTIONS), str(SEED), log], capture_output=True, text=True, timeout=TIMEOUT_S)
        actions = log.read_text(errors="replace").splitlines() if log.exists() else []
        self.assertEqual(done.returncode, 0, "\n".join([*actions[-20:], done.stdout[-2000:], done.stderr[-6000:]]))
        self.assertEqual(len(actions), ACTIONS)
        print(f"{self.id().rsplit('.', 1)[1]}: {done.stdout.strip()}; at {max(actions, key=lambda line: float(line.split()[1]))}")

    def test_a_finished_run(self):
        run, _ = self.train("run", "train.steps=12", *SLOW)
        self.play(run)

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
