"""Checkpoints of whole programs: kills, folders that cannot be written, ranks that are processes."""

import json
import os
import re
import subprocess
import unittest

from faults import checkpoint_kills
from programs import BIN, TIMEOUT_S, TINY, TRAIN, ProgramTest, free_port


class CheckpointTest(ProgramTest):
    def losses(self, name):
        return [line.split()[:3] for line in (self.root / name).read_text().splitlines()]

    def processes(self, out, *arguments, ranks=2):
        """A run of one process a rank, as torchrun starts them; what rank 0 says."""
        port = str(free_port())
        started = []
        for rank in range(ranks):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            started.append(subprocess.Popen([str(TRAIN), "--out", str(out), *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, text=True))
        said = [process.communicate(timeout=TIMEOUT_S)[0] for process in started]
        self.assertEqual([process.returncode for process in started], [0] * ranks, said)
        return said[0]

    def test_kills_leave_whole_checkpoints(self):
        facts, failures = checkpoint_kills.attack(BIN, moments=4, seed=3, jobs=2)
        self.assertEqual(failures, [])
        self.assertEqual(facts["moments"], 4)

    def test_processes_write_one_checkpoint_that_threads_and_processes_go_on_from(self):
        settings = [f"data.path={self.data}", *TINY, "train.steps=6", "checkpoint.every=3"]
        self.processes(self.root / "a", "--set", *settings, "--losses", self.root / "a.txt")
        checkpoint = self.root / "a" / "checkpoints" / "step-3"
        index = json.loads((checkpoint / "index.json").read_text())
        self.assertEqual({file["name"] for file in index["files"]}, {path.name for path in checkpoint.iterdir()} - {"index.json"})
        self.assertEqual(index["num_ranks"], 2)
        self.processes(self.root / "b", "--resume", checkpoint, "--losses", self.root / "b.txt")
        self.assertEqual(self.losses("b.txt"), self.losses("a.txt")[3:])
        self.run_program(TRAIN, "--resume", checkpoint, "--out", self.root / "c", "--losses", self.root / "c.txt")
        self.assertEqual(self.losses("c.txt"), self.losses("a.txt")[3:])
        said = self.processes(self.root / "d", "--resume", self.root / "a", "--set", "train.steps=7", "strategy=ddp", ranks=3)
        self.assertIn("step-6 with step 6", said)
        self.assertEqual(sorted(path.name for path in (self.root / "d" / "checkpoints").iterdir()), ["step-7"])

    def test_a_stopped_run_goes_on_where_it_was(self):
        run, process = self.start_training("a", "train.steps=1000000", "checkpoint.every=1000000")
        self.wait_for_steps(run, 3)
        process.terminate()
        output, _ = process.communicate(timeout=TIMEOUT_S)
        step = int(re.search(r"checkpoint before step (\d+) in", output).group(1))
        done = self.run_program(TRAIN, "--resume", run, "--out", self.root / "b", "--set", f"train.steps={step + 2}")
        self.assertIn(f"with step {step}\n", done.stdout)
        self.assertIn(f"finished after {step + 2} of {step + 2} steps", done.stdout)

    def test_what_cannot_be_gone_on_from_is_one_line_and_leaves_nothing(self):
        run, _ = self.train("a", "train.steps=2", "checkpoint.every=1")
        (self.root / "empty").mkdir()
        for path, settings, text in ((self.root / "none", (), "is not there"), (self.root / "empty", (), "has no checkpoint"),
                                     (run, (), "has all steps behind it"), (run, ("train.steps=5", "model.dim=48"), "is of another model"),
                                     (run, ("train.steps=5", f"checkpoint.path={self.data}/x"), "cannot write checkpoints")):
            with self.subTest(text=text):
                words = ["--set", *settings] if settings else []
                done = self.run_program(TRAIN, "--resume", path, "--out", self.root / "b", *words, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(text, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertFalse((self.root / "b").exists())

    def test_two_runs_do_not_write_into_one_folder(self):
        folder = f"checkpoint.path={self.root / 'checkpoints'}"
        run, _ = self.start_training("a", "train.steps=1000000", folder)
        self.wait_for_steps(run, 1)
        done = self.run_program(*self.train_command(self.root / "b", folder), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has the checkpoints of a run that is training", done.stderr)
        self.assertFalse((self.root / "b").exists())


if __name__ == "__main__":
    unittest.main()
