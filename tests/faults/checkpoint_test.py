"""Checkpoints of whole programs: kills, folders that cannot be written, ranks that are processes."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import hugging_face
import llama_cases
from faults import checkpoint_kills
from programs import APP, BIN, ROOT, TIMEOUT_S, TINY, TRAIN, ProgramTest, free_port

sys.path.insert(0, str(ROOT / "tests" / "tokenizer"))
import material  # noqa: E402  (needs the path above)


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
        report = self.report(self.root / "c")
        self.assertEqual(report["resumed"], {"run_id": index["run"], "step": 3, "folder": str(checkpoint)})
        self.assertIn(f"Goes on from run {index['run']} with step 3", self.run_program(APP, "report", self.root / "c").stdout)
        for name in "abc":
            report = self.report(self.root / name)
            ranks = [one["ranks"] for one in report["checkpoints"]]
            self.assertEqual(ranks, [2, 2] if name == "a" else [2])
            for one in report["checkpoints"]:
                self.assertTrue(one["whole"])
                files = pathlib.Path(one["folder"]).glob("*.safetensors")
                self.assertEqual(one["bytes"], sum(file.stat().st_size for file in files))
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

class FineTuningTest(ProgramTest):
    """A folder of a Llama with its tokenizer and conversations: what goes on from a checkpoint has the same weights, and the samples that come next."""

    STEPS, STOP = 6, 3
    CONFIG = {**llama_cases.BASE, "vocab_size": 400, "num_key_value_heads": 2}

    def setUp(self):
        super().setUp()
        self.model = hugging_face.write_folder(self.root / "model", self.CONFIG)
        material.write_folder(self.model, material.kinds(material.train(100))["qwen2"])
        dice = material.Dice(5)
        words = [[dice.one(material.WORDS) for _ in range(12)] for _ in range(60)]
        chats = [{"messages": [{"role": "user", "content": " ".join(some)}, {"role": "assistant", "content": " ".join(reversed(some))}]}
                 for some in words]
        self.data = self.root / "chats.jsonl"
        self.data.write_text("".join(json.dumps(chat) + "\n" for chat in chats))

    def losses(self, name, *arguments):
        """As text, by step; the final weights are in the run's last checkpoint."""
        path = self.root / f"{name}.losses"
        self.run_program(TRAIN, "--out", self.root / name, "--losses", path, *arguments)
        return [line.split()[:3] for line in path.read_text().splitlines()]

    def written(self, name, step):
        """Bytes of the ranks' files."""
        return {path.name: path.read_bytes() for path in (self.root / name / "checkpoints" / f"step-{step}").glob("rank-*")}

    def test_goes_on_at_other_ranks_and_strategies(self):
        whole = self.losses("whole", "--ranks", 2, "--set", f"model.path={self.model}", f"data.path={self.data}", f"data.cache={self.root / 'cache'}",
                            "model.seq=16", "train.batch=2", "strategy=full", f"train.steps={self.STEPS}", f"checkpoint.every={self.STOP}")
        self.assertEqual(len(whole), self.STEPS)
        checkpoint = self.root / "whole" / "checkpoints" / f"step-{self.STOP}"
        rest = whole[self.STOP:]
        self.assertEqual(self.losses("same", "--resume", checkpoint), rest)
        self.assertEqual(self.written("same", self.STEPS), self.written("whole", self.STEPS))
        # The same sums in the same order.
        self.assertEqual(self.losses("grad_op", "--resume", checkpoint, "--set", "strategy=grad_op"), rest)
        self.assertEqual(self.written("grad_op", self.STEPS), self.written("whole", self.STEPS))
        # The same samples in each step, added up in another order.
        for at, (ranks, *settings) in enumerate(((4, "strategy=ddp", "train.batch=1"), (1, "strategy=single", "train.batch=4"),
                                                 (2, "strategy=zero2", "train.batch=1", "train.micro_batches=2"),
                                                 (2, "strategy=pipeline", "train.batch=2", "train.micro_batches=2"),
                                                 (2, "strategy=tensor", "train.batch=4"))):
            with self.subTest(" ".join((str(ranks), *settings))):
                ours = self.losses(f"other{at}", "--resume", checkpoint, "--ranks", ranks, "--set", *settings)
                self.assertEqual([step for step, *_ in ours], [step for step, *_ in rest])
                for left, right in zip(ours, rest):
                    for mine, theirs in zip(left[1:], right[1:]):
                        self.assertAlmostEqual(float(mine), float(theirs), delta=1e-4 * float(theirs))
        # From there to where it came from: the weights have gone through four ranks' layout and back.
        back = self.losses("back", "--resume", self.root / "other0", "--ranks", 2, "--set", "strategy=full", "train.batch=2",
                           f"train.steps={self.STEPS + 1}")
        self.assertEqual(len(back), 1)


if __name__ == "__main__":
    unittest.main()
